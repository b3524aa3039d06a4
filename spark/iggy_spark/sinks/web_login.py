"""How a sink tells a web service who it is: files of a folder, or tokens that they buy.

The folder is read anew for each task, and again when the service does not know the login any more,
so that a rotation needs no restart. Nothing of it is in an error.
"""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import httpx
import msgspec

from iggy_spark import blocks, credentials
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.retry import TransientError

FILES: Final = ("apiKey", "token", "username", "password", "clientId", "clientSecret")
TOKEN_LIFE_S: Final = 300.0  # of a token whose server does not say
TOKEN_MARGIN_S: Final = 30.0  # how long before its end a token is not used any more
TOKENS_MAX: Final = 64  # kept in one process
OK: Final = 200
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
SERVER_ERROR: Final = 500  # and above


class Login(Protocol):
    """What goes with every request."""

    def headers(self, client: httpx.Client) -> dict[str, str]:
        """Headers of the next request.

        Raises:
            OptionError: the files are wrong.
            SinkError, TransientError: no token can be had.
        """

    def renew(self) -> bool:
        """After the answer 401: whether the next headers may be other ones."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown."""


class FileLogin:
    """An API key, a token, or user and password."""

    def __init__(self, block: str, folder: str | None, allowed: tuple[str, ...]) -> None:
        """`block` is the name of the sink's block; `allowed` are the files that go with its type.

        Raises:
            OptionError: the folder cannot be read, or its files do not go together.
        """
        self._block, self._folder, self._allowed = block, folder, allowed
        self._read()

    def headers(self, client: httpx.Client) -> dict[str, str]:
        """See `Login`."""
        return {} if self._header is None else {"Authorization": self._header}

    def renew(self) -> bool:
        """Read the files again."""
        before = self._header
        self._read()
        return self._header != before

    def _read(self) -> None:
        name = f"{self._block}.credentialsPath"
        found = credentials.read(name, self._folder, self._allowed)
        self._header = _header(found)
        hidden = [value for key, value in found.items() if key != "username"]
        self.secrets = (*hidden, (self._header or "").rpartition(" ")[2])
        if self._header is None and set(found) & {"username", "password"}:
            raise OptionError(f"{name}: needs the files username and password, one is missing")
        if len({"apiKey", "token", "username"} & set(found)) > 1:
            raise OptionError(f"{name}: has several logins ({', '.join(found)}): leave one")


def _header(found: dict[str, str]) -> str | None:
    if "apiKey" in found:
        return f"ApiKey {found['apiKey']}"
    if "token" in found:
        return f"Bearer {found['token']}"
    if {"username", "password"} <= set(found):
        return basic(found["username"], found["password"])
    return None


def basic(user: str, password: str) -> str:
    """The header Authorization of user and password (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class _Token(msgspec.Struct, frozen=True):
    """What a token server answers (RFC 6749, 5.1)."""

    access_token: str
    expires_in: float | None = None


@dataclass(slots=True)
class Tokens:
    """Tokens of this process: its next tasks use them too."""

    clock: Callable[[], float] = time.monotonic
    held: dict[tuple[str, ...], tuple[str, float]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: tuple[str, ...]) -> str | None:
        """A token that is good for a while, if there is one."""
        with self.lock:
            token, end_s = self.held.get(key, ("", 0.0))
            return token if token and self.clock() < end_s else None

    def put(self, key: tuple[str, ...], found: _Token) -> None:
        """Keep a token until shortly before its end."""
        life_s = TOKEN_LIFE_S if found.expires_in is None else found.expires_in
        with self.lock:
            if len(self.held) >= TOKENS_MAX:
                self.held.clear()
            # A short life is used up to its half.
            end_s = self.clock() + max(life_s - TOKEN_MARGIN_S, life_s / 2)
            self.held[key] = (found.access_token, end_s)

    def drop(self, key: tuple[str, ...]) -> None:
        """Forget it: its service does not know it any more."""
        with self.lock:
            self.held.pop(key, None)


TOKENS: Final = Tokens()


class OAuth2Login:
    """Tokens by client credentials (RFC 6749, 4.4), kept until they end."""

    def __init__(
        self, block: str, folder: str | None, settings: blocks.OAuth2, *, tokens: Tokens = TOKENS
    ) -> None:
        """The folder has the files clientId and clientSecret."""
        self._name = f"{block}.credentialsPath"
        self._folder, self._settings, self._tokens = folder, settings, tokens
        self._read()

    def _read(self) -> None:
        found = credentials.read(self._name, self._folder, ("clientId", "clientSecret"))
        if set(found) != {"clientId", "clientSecret"}:
            raise OptionError(f"{self._name}: oauth2 needs the files clientId and clientSecret")
        self._client = (found["clientId"], found["clientSecret"])
        self._key = (self._settings.token_url, self._settings.scope or "", *self._client)

    @property
    def secrets(self) -> tuple[str, ...]:
        """See `Login`."""
        return (self._client[1], self._tokens.get(self._key) or self._client[1])

    def headers(self, client: httpx.Client) -> dict[str, str]:
        """See `Login`."""
        token = self._tokens.get(self._key)
        if token is None:
            found = self._fetch(client)
            self._tokens.put(self._key, found)
            token = found.access_token
        return {"Authorization": f"Bearer {token}"}

    def renew(self) -> bool:
        """Forget the token; the files may have changed, too."""
        self._tokens.drop(self._key)
        self._read()
        return True

    def _fetch(self, client: httpx.Client) -> _Token:
        form = {"grant_type": "client_credentials"}
        if self._settings.scope is not None:
            form["scope"] = self._settings.scope
        where = shown(self._settings.token_url)
        try:
            answer = client.post(
                self._settings.token_url,
                data=form,
                headers={"Authorization": basic(*self._client), "Accept": "application/json"},
            )
        except httpx.TransportError as error:
            raise TransientError(
                f"{where} hands out no token: {reason_of(error)}", cause="unreachable"
            ) from error
        if is_transient(answer.status_code):
            raise TransientError(f"{where} hands out no token: it answers {answer.status_code}")
        try:
            if answer.status_code == OK:
                # Not strictly: some write the seconds as text.
                return msgspec.json.decode(answer.content, type=_Token, strict=False)
        except msgspec.MsgspecError as error:
            raise SinkError(f"{where} answers with something that is no token") from error
        raise Denied(
            f"{self._name}: {where} hands out no token, it answers {answer.status_code}: correct "
            "clientId and clientSecret, or oauth2.scope",
            UNAUTHORIZED,
        )


class Denied(SinkError):
    """The service does not know the login (401), or the login may not do this (403)."""

    def __init__(self, sentence: str, status: int) -> None:
        """`status` is what the service answered."""
        super().__init__(sentence)
        self.status = status


def is_transient(status: int) -> bool:
    """Whether an answer says: not now. 408 is a time-out, 425 too early, 429 too much."""
    return status in (408, 425, 429) or status >= SERVER_ERROR


def shown(url: str) -> str:
    """An address for people: what is behind ? may be a secret."""
    return url.partition("?")[0]


def reason_of(error: Exception) -> str:
    """What an error says, or at least its kind: many of httpx say nothing."""
    return str(error) or type(error).__name__


def tls(block: str, ca_path: str | None, client_path: str | None = None) -> ssl.SSLContext:
    """Whom to trust: the authority in ca.crt alone, or those of the system.

    `client_path` is a folder with tls.crt and tls.key, for services that ask who is calling.

    Raises:
        OptionError: a file is missing or is no certificate.
    """
    try:
        ca = None if ca_path is None else str(Path(ca_path) / "ca.crt")
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"{block}.caPath: {ca_path}/ca.crt cannot be used: {error}") from error
    if client_path is None or not (Path(client_path) / "tls.crt").exists():
        return context
    try:
        context.load_cert_chain(Path(client_path) / "tls.crt", Path(client_path) / "tls.key")
    except (OSError, ssl.SSLError) as error:
        raise OptionError(
            f"{block}.credentialsPath: tls.crt and tls.key of {client_path} cannot be used: {error}"
        ) from error
    return context
