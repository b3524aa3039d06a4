"""Bodies of requests that only P12 has, or has otherwise (Iggy protocol 0.12).

Sessions outlive connections there, and one command updates resources of all kinds.
"""

from enum import IntEnum
from struct import Struct
from typing import ClassVar, Final, Self

from iggy_wire.codes import Command
from iggy_wire.cursor import Reader, name_bytes, pack, text8_bytes, text32_bytes, u8_bytes
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.options import Options, options_bytes, read_options
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import Request
from iggy_wire.requests_system import client_bytes, read_client

CLIENT_BYTES: Final = 16
SECRET_BYTES: Final = 32
RESETS_MAX: Final = 255

_SESSION: Final = Struct("<QQ")  # session, metadata watermark


class Login(Request, frozen=True, gc=False):
    """Name and password, and the secret with which the session may be bound again later."""

    command: ClassVar[Command] = Command.LOGIN
    malformed: ClassVar[ErrorCode] = ErrorCode.INVALID_FORMAT

    version: int
    sdk_name: str
    sdk_version: str
    bind_secret: bytes
    username: str
    password: str
    context: str = ""

    def __repr__(self) -> str:
        """Without the secrets: values end up in logs."""
        return f"Login(version={self.version}, sdk_name={self.sdk_name!r}, user={self.username!r})"

    def encode(self) -> bytes:
        """Version, client, secret, credentials, context."""
        return (
            client_bytes(self.version, self.sdk_name, self.sdk_version)
            + _secret_bytes(self.bind_secret)
            + name_bytes(self.username, "username")
            + text8_bytes(self.password, "password")
            + text32_bytes(self.context, "context")
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = (*read_client(reader), _read_secret(reader))
        username, password = reader.name("username"), reader.text8("password")
        return cls(*head, username, password, reader.text32("context"))


class LoginWithToken(Request, frozen=True, gc=False):
    """A personal access token, and the secret with which the session may be bound again later."""

    command: ClassVar[Command] = Command.LOGIN_WITH_TOKEN
    malformed: ClassVar[ErrorCode] = ErrorCode.INVALID_FORMAT

    version: int
    sdk_name: str
    sdk_version: str
    bind_secret: bytes
    token: str
    context: str = ""

    def __repr__(self) -> str:
        """Without the secrets: values end up in logs."""
        return f"LoginWithToken(version={self.version}, sdk_name={self.sdk_name!r})"

    def encode(self) -> bytes:
        """Version, client, secret, token, context."""
        return (
            client_bytes(self.version, self.sdk_name, self.sdk_version)
            + _secret_bytes(self.bind_secret)
            + text8_bytes(self.token, "token")
            + text32_bytes(self.context, "context")
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = (*read_client(reader), _read_secret(reader))
        return cls(*head, reader.text8("token"), reader.text32("context"))


class BindSession(Request, frozen=True, gc=False):
    """Go on with a session on another connection. `session` 0: the number was never learned."""

    command: ClassVar[Command] = Command.BIND_SESSION

    version: int
    sdk_name: str
    sdk_version: str
    client: bytes
    session: int
    metadata_watermark: int
    bind_secret: bytes

    def __repr__(self) -> str:
        """Without the secret: values end up in logs."""
        return f"BindSession(version={self.version}, session={self.session})"

    def encode(self) -> bytes:
        """Version, client, which session, secret."""
        which = pack(_SESSION, "session", self.session, self.metadata_watermark)
        head = client_bytes(self.version, self.sdk_name, self.sdk_version)
        return head + self.client + which + _secret_bytes(self.bind_secret)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        head = (*read_client(reader), bytes(reader.take(CLIENT_BYTES, "client id")))
        return cls(*(*head, *reader.unpack(_SESSION, "session"), _read_secret(reader)))


class Scope(IntEnum):
    """What kind of resource is meant."""

    TOPIC = 1
    STREAM = 2
    USER = 3


class UpdateResource(Request, frozen=True, gc=False):
    """Change a topic, stream or user by options; names and status are options, too.

    `target`: a user, a stream, or a topic behind its stream. `resets` go back to their defaults.
    """

    command: ClassVar[Command] = Command.UPDATE_RESOURCE

    scope: Scope
    target: tuple[Identifier, ...]
    resets: tuple[str, ...] = ()
    options: Options = ()

    @property
    def stream(self) -> Identifier | None:
        """The stream, or that of the topic."""
        return None if self.scope is Scope.USER else self.target[0]

    @property
    def topic(self) -> Identifier | None:
        """The topic."""
        return self.target[1] if self.scope is Scope.TOPIC else None

    @property
    def user(self) -> Identifier | None:
        """The user."""
        return self.target[0] if self.scope is Scope.USER else None

    def encode(self) -> bytes:
        """Scope, identifiers, keys to reset behind their count, options."""
        if len(self.resets) > RESETS_MAX:
            detail = f"resets: at most {RESETS_MAX}, are {len(self.resets)}"
            raise WireError(ErrorCode.INVALID_COMMAND, detail)
        keys = b"".join(name_bytes(key, "option key") for key in self.resets)
        target = b"".join(one.encode() for one in self.target)
        head = u8_bytes(self.scope, "scope") + target
        return head + u8_bytes(len(self.resets), "resets") + keys + options_bytes(self.options)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        number = reader.u8("scope")
        if number not in _SCOPES:
            reader.fail(f"scope: must be 1 (topic), 2 (stream) or 3 (user), is {number}")
        scope = Scope(number)
        names = ("stream", "topic") if scope is Scope.TOPIC else (scope.name.lower(),)
        target = tuple(Identifier.read(reader, name) for name in names)
        resets = tuple(reader.name("option key") for _ in range(reader.u8("resets")))
        options = read_options(reader)
        keys = [*resets, *(option.key for option in options)]
        if not keys:
            reader.fail("update: name at least one option to change or to reset")
        if len(set(keys)) < len(keys):
            reader.fail("update: name each option once, to change or to reset")
        return cls(scope, target, resets, options)


_SCOPES: Final = frozenset(Scope)


def _secret_bytes(secret: bytes) -> bytes:
    if len(secret) != SECRET_BYTES:
        detail = f"bind secret: must have {SECRET_BYTES} bytes, has {len(secret)}"
        raise WireError(ErrorCode.INVALID_FORMAT, detail)
    return secret


def _read_secret(reader: Reader) -> bytes:
    return bytes(reader.take(SECRET_BYTES, "bind secret"))
