"""Bodies of requests about the server, sessions and users."""

from typing import ClassVar, Self

from iggy_wire.codes import Command
from iggy_wire.cursor import Reader, name_bytes, text8_bytes, text32_bytes, u8_bytes, u32_bytes
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Options, options_bytes, read_options
from iggy_wire.permissions import (
    Permissions,
    optional_permissions_bytes,
    read_optional_permissions,
)
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import EmptyRequest, Request


class Ping(EmptyRequest, frozen=True, gc=False):
    """Are you there? Also the heartbeat. Whatever its body is, it is ignored."""

    command: ClassVar[Command] = Command.PING


class GetStats(EmptyRequest, frozen=True, gc=False):
    """How the server is doing."""

    command: ClassVar[Command] = Command.GET_STATS


class GetClusterMetadata(EmptyRequest, frozen=True, gc=False):
    """Which nodes there are."""

    command: ClassVar[Command] = Command.GET_CLUSTER_METADATA


class DescribeOptions(Request, frozen=True, gc=False):
    """Which options there are: scope 1 topic, 2 stream, 3 user."""

    command: ClassVar[Command] = Command.DESCRIBE_OPTIONS

    scope: int

    def encode(self) -> bytes:
        """One byte."""
        return u8_bytes(self.scope, "scope")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(reader.u8("scope"))


class GetMe(EmptyRequest, frozen=True, gc=False):
    """How the server sees this connection."""

    command: ClassVar[Command] = Command.GET_ME


class GetClient(Request, frozen=True, gc=False):
    """One connection, by the server's own number for it."""

    command: ClassVar[Command] = Command.GET_CLIENT

    client_id: int

    def encode(self) -> bytes:
        """Four bytes."""
        return u32_bytes(self.client_id, "client id")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(reader.u32("client id"))


class GetClients(EmptyRequest, frozen=True, gc=False):
    """All connections."""

    command: ClassVar[Command] = Command.GET_CLIENTS


class Logout(EmptyRequest, frozen=True, gc=False):
    """Ends the session, not the connection."""

    command: ClassVar[Command] = Command.LOGOUT


class Login(Request, frozen=True, gc=False):
    """Name and password. `version` is packed, see `dialect.pack_version`."""

    command: ClassVar[Command] = Command.LOGIN
    malformed: ClassVar[ErrorCode] = ErrorCode.INVALID_FORMAT

    version: int
    sdk_name: str
    sdk_version: str
    username: str
    password: str
    context: str = ""

    def __repr__(self) -> str:
        """Without the password: values end up in logs."""
        return f"Login(version={self.version}, sdk_name={self.sdk_name!r}, user={self.username!r})"

    def encode(self) -> bytes:
        """Version, client, credentials, context."""
        return (
            client_bytes(self.version, self.sdk_name, self.sdk_version)
            + name_bytes(self.username, "username")
            + text8_bytes(self.password, "password")
            + text32_bytes(self.context, "context")
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        version, sdk_name, sdk_version = read_client(reader)
        username = reader.name("username")
        password = reader.text8("password")
        return cls(version, sdk_name, sdk_version, username, password, reader.text32("context"))


class LoginWithToken(Request, frozen=True, gc=False):
    """A personal access token."""

    command: ClassVar[Command] = Command.LOGIN_WITH_TOKEN
    malformed: ClassVar[ErrorCode] = ErrorCode.INVALID_FORMAT

    version: int
    sdk_name: str
    sdk_version: str
    token: str
    context: str = ""

    def __repr__(self) -> str:
        """Without the token: values end up in logs."""
        return f"LoginWithToken(version={self.version}, sdk_name={self.sdk_name!r})"

    def encode(self) -> bytes:
        """Version, client, token, context."""
        return (
            client_bytes(self.version, self.sdk_name, self.sdk_version)
            + text8_bytes(self.token, "token")
            + text32_bytes(self.context, "context")
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        version, sdk_name, sdk_version = read_client(reader)
        return cls(version, sdk_name, sdk_version, reader.text8("token"), reader.text32("context"))


def login_version(body: bytes | bytearray | memoryview) -> int:
    """The packed protocol version that a login body starts with, whatever follows."""
    return Reader(body, ErrorCode.INVALID_FORMAT).u32("protocol version")


class UserRequest(Request, frozen=True, gc=False):
    """A command whose body is one user."""

    user: Identifier

    def encode(self) -> bytes:
        """Identifier."""
        return self.user.encode()

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(Identifier.read(reader, "user"))


class GetUser(UserRequest, frozen=True, gc=False):
    """One user."""

    command: ClassVar[Command] = Command.GET_USER


class GetUsers(EmptyRequest, frozen=True, gc=False):
    """All users."""

    command: ClassVar[Command] = Command.GET_USERS


class DeleteUser(UserRequest, frozen=True, gc=False):
    """Remove a user."""

    command: ClassVar[Command] = Command.DELETE_USER


class CreateUser(Request, frozen=True, gc=False):
    """A new user. Status 1 active, 2 inactive."""

    command: ClassVar[Command] = Command.CREATE_USER

    username: str
    password: str
    status: int = 1
    permissions: Permissions | None = None
    options: Options = ()

    def __repr__(self) -> str:
        """Without the password: values end up in logs."""
        return f"CreateUser(username={self.username!r}, status={self.status})"

    def encode(self) -> bytes:
        """Name, password, status, permissions, options."""
        return (
            name_bytes(self.username, "username")
            + text8_bytes(self.password, "password")
            + u8_bytes(self.status, "status")
            + optional_permissions_bytes(self.permissions)
            + options_bytes(self.options)
        )

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        username, password = reader.name("username"), reader.text8("password")
        status = reader.u8("status")
        permissions = read_optional_permissions(reader)
        return cls(username, password, status, permissions, read_options(reader))


def client_bytes(version: int, sdk_name: str, sdk_version: str) -> bytes:
    """What every login body starts with: protocol version and client."""
    return (
        u32_bytes(version, "protocol version")
        + name_bytes(sdk_name, "sdk name")
        + name_bytes(sdk_version, "sdk version")
    )


def read_client(reader: Reader) -> tuple[int, str, str]:
    """Packed protocol version, name and version of the client."""
    return reader.u32("protocol version"), reader.name("sdk name"), reader.name("sdk version")
