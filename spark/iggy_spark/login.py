"""Who calls the broker, and how the connection is kept from others. Secrets never show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iggy_client.errors import LinkError
from iggy_client.tls import Tls
from iggy_spark.errors import OptionError

CLIENT_NAME_DEFAULT = "iggy-spark"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A connection with TLS: the authorities to trust, and the name the certificate must be for."""

    ca_path: str | None
    server_name: str | None

    def read(self) -> Tls:
        """What the client needs; the file is read anew each time.

        Raises:
            OptionError: the file of `tls.caPath` cannot be read, or holds no certificate.
        """
        pem = ""
        if self.ca_path is not None:
            try:
                pem = Path(self.ca_path).read_text("ascii")
            except (OSError, UnicodeDecodeError) as error:
                raise OptionError(f"tls.caPath: {self.ca_path} cannot be read: {error}") from error
        tls = Tls(pem, self.server_name or "")
        try:
            tls.context()
        except LinkError as error:
            raise OptionError(f"tls.caPath: {self.ca_path} is not usable: {error}") from error
        return tls


@dataclass(frozen=True, slots=True)
class Login:
    """A user's name and password, a personal access token, or a folder with either."""

    username: str | None
    password: str | None = field(repr=False)
    credentials_path: str | None
    token: str | None = field(default=None, repr=False)
    tls: TlsFiles | None = None  # None: nothing is encrypted
    client_name: str = CLIENT_NAME_DEFAULT  # told to the broker with the login

    def read(self) -> tuple[str, str] | str:
        """User name and password, or a token. A folder is read anew: rotation needs no restart.

        Raises:
            OptionError: a file of `credentialsPath` cannot be read.
        """
        if self.token is not None:
            return self.token
        if self.credentials_path is None:
            assert self.username is not None
            assert self.password is not None
            return self.username, self.password
        folder = Path(self.credentials_path)
        try:
            if (folder / "token").exists():
                return (folder / "token").read_text("utf-8").strip()
            name = (folder / "username").read_text("utf-8").strip()
            return name, (folder / "password").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"credentialsPath: {folder} cannot be read: {error}") from error


def parse_login(values: Mapping[str, Any]) -> Login:
    """From `username`, `password`, `token`, `credentialsPath`, `tls.*` and `clientName`.

    Raises:
        OptionError: none or several of these ways, or half of one.
    """
    path, username, password, token = (
        values[k] for k in ("credentialsPath", "username", "password", "token")
    )
    named = username is not None or password is not None
    if not named and path is None and token is None:
        raise OptionError(
            "username and password, token, or credentialsPath, are missing: the broker wants a "
            "login"
        )
    if path is not None and (named or token is not None):
        raise OptionError(
            "credentialsPath and username/password exclude each other, as it does token: keep one"
        )
    if token is not None and named:
        raise OptionError("token and username/password exclude each other: keep one")
    if named and (username is None or password is None):
        missing = "username" if username is None else "password"
        raise OptionError(f"{missing} is missing: username and password go together")
    return Login(username, password, path, token, _tls(values), values["clientName"])


def _tls(values: Mapping[str, Any]) -> TlsFiles | None:
    ca_path, server_name = values["tls.caPath"], values["tls.serverName"]
    if values["tls.enabled"]:
        return TlsFiles(ca_path, server_name)
    for name in ("tls.caPath", "tls.serverName"):
        if values[name] is not None:
            raise OptionError(f"{name} needs tls.enabled=true: without it nothing is encrypted")
    return None
