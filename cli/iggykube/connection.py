"""Which broker a command talks to, and as whom: options of `produce` and `consume`.

Passwords and tokens come from files or the environment, never from arguments: those are seen by
everybody on the machine.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from iggy_client.client import TIMEOUT_S, Client
from iggy_client.errors import ClientError, LinkError
from iggy_client.tls import Tls
from iggykube.errors import CommandError
from iggykube.option_types import NAME, SERVERS, Parsed, duration
from iggykube.options import data_option

SECRET_BYTES_MAX: Final = 64 << 10
CA_BYTES_MAX: Final = 1 << 20
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


class BrokerProblem(CommandError):
    """The broker refuses or cannot be reached."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who works. Secrets never show in a representation."""

    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """Where the broker is and how to get in. `servers` are tried in order; None: nobody logs in."""

    servers: tuple[str, ...]
    login: Login | None
    timeout_s: float = TIMEOUT_S
    tls: Tls | None = None

    def connect(self) -> Client:
        """A client that is logged in, if there is a login. Raises BrokerProblem."""
        unreachable = ""
        for server in self.servers:
            try:
                return self._connect(server)
            except LinkError as error:
                unreachable = unreachable or str(error)
            except ClientError as error:
                raise BrokerProblem(f"the broker at {server}: {error}") from error
        raise BrokerProblem(unreachable)

    def _connect(self, server: str) -> Client:
        client = Client(server, timeout_s=self.timeout_s, tls=self.tls)
        try:
            if self.login is None:
                return client
            if self.login.token:
                client.login_with_token(self.login.token)
            else:
                client.login(self.login.username, self.login.password)
        except BaseException:
            client.close()
            raise
        return client


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `TargetOptions`, which the command gets as the keyword `given`.

    To be put directly above the command.
    """

    @wraps(command)
    def with_target(**values: Any) -> Any:
        names = TargetOptions.__struct_fields__
        given = TargetOptions(**{name: values.pop(name) for name in names})
        return command(given=given, **values)

    made: Callable[..., Any] = with_target
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


_OPTIONS: Final = (
    click.option(
        "--servers",
        type=SERVERS,
        metavar="HOST:PORT",
        help="Broker; several with commas are tried in turn. Without: the one of `iggykube up`.",
    ),
    click.option("--username", type=NAME, metavar="NAME", help="Who logs in. Else IGGY_USERNAME."),
    click.option(
        "--password-file",
        type=_FILE,
        metavar="FILE",
        help="File that holds the password. Else IGGY_PASSWORD.",
    ),
    click.option(
        "--token-file",
        type=_FILE,
        metavar="FILE",
        help="File that holds a personal access token, in place of name and password. Else "
        "IGGY_TOKEN.",
    ),
    click.option("--tls", is_flag=True, help="Encrypt, and check the broker's certificate."),
    click.option(
        "--ca",
        type=_FILE,
        metavar="FILE",
        help="Certificates (PEM) of the authority to trust, in place of the system's.",
    ),
    click.option(
        "--server-name",
        metavar="NAME",
        help="What the certificate must be for, where that is not the host of --servers.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=Parsed("duration", duration(1000)),
        default=TIMEOUT_S,
        show_default="30s",
        metavar="DURATION",
        help="How long to wait for an answer of the broker.",
    ),
    data_option,
)


class TargetOptions(msgspec.Struct, frozen=True):
    """The options as they were given."""

    servers: tuple[str, ...] | None
    username: str | None
    password_file: Path | None
    token_file: Path | None
    tls: bool
    ca: Path | None
    server_name: str | None
    timeout_s: float
    data: Path

    def target(self, *, needs_login: bool = True) -> Target:
        """Where these options lead. Raises click.UsageError, and LocalError without an instance."""
        if not self.tls and (self.ca or self.server_name):
            raise click.UsageError(f"{'--ca' if self.ca else '--server-name'} needs --tls")
        if self.servers is None:
            if self.tls:
                raise click.UsageError(
                    "--tls needs --servers: what the local instance has is known"
                )
            # Local mode takes a while to import, and brokers elsewhere need nothing of it.
            from iggykube.running import local_instance, tls_of

            login = self._given_login()
            snapshot, (username, password) = local_instance(self.data)
            login = login or Login(username, password)
            return Target((snapshot.address,), login, self.timeout_s, tls_of(snapshot))
        login = self._given_login() or _environment_login()
        if login is None and needs_login:
            fix = "give --username and --password-file, or --token-file"
            raise click.UsageError(f"--servers needs a login: {fix}")
        return Target(self.servers, login, self.timeout_s, self._tls())

    def _given_login(self) -> Login | None:
        """Of the command line; a password may still come from the environment."""
        if self.token_file is not None:
            if self.username is not None or self.password_file is not None:
                raise click.UsageError("--token-file stands in place of --username: give one")
            return Login(token=read_secret("--token-file", self.token_file))
        if self.username is None and self.password_file is None:
            return None
        username = self.username or os.environ.get("IGGY_USERNAME")
        if not username:
            raise click.UsageError("--password-file needs --username, or IGGY_USERNAME")
        if self.password_file is not None:
            return Login(username, read_secret("--password-file", self.password_file))
        password = os.environ.get("IGGY_PASSWORD")
        if not password:
            raise click.UsageError("--username needs --password-file, or IGGY_PASSWORD")
        return Login(username, password)

    def _tls(self) -> Tls | None:
        if not self.tls:
            return None
        pem = "" if self.ca is None else read_text("--ca", self.ca, CA_BYTES_MAX)
        if self.ca is not None and "BEGIN CERTIFICATE" not in pem:
            message = f"'{self.ca}' holds no certificate: it must be PEM, with BEGIN CERTIFICATE"
            raise click.BadParameter(message, param_hint="'--ca'")
        return Tls(pem, self.server_name or "")


def _environment_login() -> Login | None:
    token = os.environ.get("IGGY_TOKEN")
    username, password = os.environ.get("IGGY_USERNAME"), os.environ.get("IGGY_PASSWORD")
    if token and username:
        raise click.UsageError("IGGY_TOKEN and IGGY_USERNAME are both set: unset one")
    if token:
        return Login(token=token)
    if username and not password:
        raise click.UsageError("IGGY_USERNAME is set and IGGY_PASSWORD is not: set both")
    return Login(username, password or "") if username else None


def read_secret(option: str, path: Path) -> str:
    """A password or token of a file. Raises click.BadParameter, which names the option."""
    text = read_text(option, path, SECRET_BYTES_MAX).strip()
    if not text:
        raise click.BadParameter(f"'{path}' is empty", param_hint=f"'{option}'")
    return text


def read_text(option: str, path: Path, bytes_max: int) -> str:
    """A small file's text. Raises click.BadParameter, which names the option."""
    try:
        with path.open("rb") as file:
            data = file.read(bytes_max + 1)
        if len(data) > bytes_max:
            raise ValueError(f"is larger than {bytes_max} bytes")
        return data.decode()
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    except ValueError as error:
        reason = str(error)
    raise click.BadParameter(f"'{path}' {reason}", param_hint=f"'{option}'")
