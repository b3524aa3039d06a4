"""What every reply body has in common."""

from abc import abstractmethod
from typing import Self

import msgspec

from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The body of one reply, behind the result section where there is one."""

    @abstractmethod
    def encode(self) -> bytes:
        """The body. Raises `WireError` naming a field that does not fit its layout."""

    @classmethod
    def decode(cls, body: Buffer) -> Self:
        """The reply of this body. Bytes behind it are ignored: a newer server may add some."""
        return cls._read(Reader(body, ErrorCode.INVALID_FORMAT))

    @classmethod
    def take(cls, reader: Reader) -> Self:
        """The same as a part of a longer body."""
        return cls._read(reader)

    @classmethod
    @abstractmethod
    def _read(cls, reader: Reader) -> Self: ...


class EmptyReply(Reply, frozen=True, gc=False):
    """Success without anything to say."""

    def encode(self) -> bytes:
        """Nothing."""
        return b""

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls()
