"""Bodies of requests about who may do what: changed users, passwords, tokens; and the snapshot."""

from typing import ClassVar, Self

from iggy_wire.codes import Command
from iggy_wire.cursor import Reader, name_bytes, text8_bytes, u8_bytes, u64_bytes
from iggy_wire.options import Options, options_bytes, read_options
from iggy_wire.permissions import (
    Permissions,
    optional_permissions_bytes,
    read_optional_permissions,
)
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import EmptyRequest, Request


class UpdateUser(Request, frozen=True, gc=False):
    """A new name, a new status (1 active, 2 inactive), both, or neither."""

    command: ClassVar[Command] = Command.UPDATE_USER

    user: Identifier
    username: str | None = None
    status: int | None = None
    options: Options = ()

    def encode(self) -> bytes:
        """Identifier, then each part behind a flag, then options."""
        name = b"\x00" if self.username is None else b"\x01" + name_bytes(self.username, "username")
        status = b"\x00" if self.status is None else b"\x01" + u8_bytes(self.status, "status")
        return self.user.encode() + name + status + options_bytes(self.options)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        user = Identifier.read(reader, "user")
        username = reader.name("username") if reader.flag("has username") else None
        status = reader.u8("status") if reader.flag("has status") else None
        return cls(user, username, status, read_options(reader))


class UpdatePermissions(Request, frozen=True, gc=False):
    """All permissions of a user anew; None takes them away."""

    command: ClassVar[Command] = Command.UPDATE_PERMISSIONS

    user: Identifier
    permissions: Permissions | None = None

    def encode(self) -> bytes:
        """Identifier, then permissions behind a flag."""
        return self.user.encode() + optional_permissions_bytes(self.permissions)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(Identifier.read(reader, "user"), read_optional_permissions(reader))


class ChangePassword(Request, frozen=True, gc=False):
    """A new password for whoever knows the current one."""

    command: ClassVar[Command] = Command.CHANGE_PASSWORD

    user: Identifier
    current_password: str
    new_password: str

    def __repr__(self) -> str:
        """Without the passwords: values end up in logs."""
        return f"ChangePassword(user={self.user!r})"

    def encode(self) -> bytes:
        """Identifier, current password, new password."""
        current = text8_bytes(self.current_password, "current password")
        return self.user.encode() + current + text8_bytes(self.new_password, "new password")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        user = Identifier.read(reader, "user")
        return cls(user, reader.text8("current password"), reader.text8("new password"))


class GetPersonalAccessTokens(EmptyRequest, frozen=True, gc=False):
    """The caller's tokens, without their secrets."""

    command: ClassVar[Command] = Command.GET_PERSONAL_ACCESS_TOKENS


class CreatePersonalAccessToken(Request, frozen=True, gc=False):
    """A token for the caller. `expiry_us` counts from now; 0 or all ones: it never expires."""

    command: ClassVar[Command] = Command.CREATE_PERSONAL_ACCESS_TOKEN

    name: str
    expiry_us: int = 0

    def encode(self) -> bytes:
        """Name, expiry."""
        return name_bytes(self.name, "token name") + u64_bytes(self.expiry_us, "token expiry")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(reader.name("token name"), reader.u64("token expiry"))


class DeletePersonalAccessToken(Request, frozen=True, gc=False):
    """One token of the caller less."""

    command: ClassVar[Command] = Command.DELETE_PERSONAL_ACCESS_TOKEN

    name: str

    def encode(self) -> bytes:
        """Name."""
        return name_bytes(self.name, "token name")

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls(reader.name("token name"))


class GetSnapshot(Request, frozen=True, gc=False):
    """Files that help to find out what is wrong with a server, as one ZIP archive.

    Iggy protocol 0.11: compression 1 stored, 2 deflated, 3 bzip2, 4 zstd, 5 lzma, 6 xz; types 1
    file systems, 2 processes, 3 resources, 4 test, 5 logs, 6 configuration, 100 all (alone).
    """

    command: ClassVar[Command] = Command.GET_SNAPSHOT

    compression: int
    types: tuple[int, ...]

    def encode(self) -> bytes:
        """Compression, count, one byte for each type."""
        head = u8_bytes(self.compression, "compression") + u8_bytes(len(self.types), "types count")
        return head + b"".join(u8_bytes(kind, "snapshot type") for kind in self.types)

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        compression, count = reader.u8("compression"), reader.u8("types count")
        return cls(compression, tuple(reader.take(count, "snapshot types")))
