"""What every request body has in common."""

from abc import abstractmethod
from typing import ClassVar, Self

import msgspec

from iggy_wire.buffer import Buffer
from iggy_wire.codes import OPERATION_OF_COMMAND, Command, Operation
from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode


class Request(msgspec.Struct, frozen=True, gc=False):
    """The body of one command. Subclasses are the commands; their fields come in wire order."""

    command: ClassVar[Command]
    # What a body that does not decode is refused with (Iggy protocol 0.11, common reactions).
    malformed: ClassVar[ErrorCode] = ErrorCode.INVALID_COMMAND

    @classmethod
    def operation(cls) -> Operation:
        """The operation byte of this request's header."""
        return OPERATION_OF_COMMAND.get(cls.command, Operation.NON_REPLICATED)

    @abstractmethod
    def encode(self) -> bytes:
        """The body. Raises `WireError` naming a field that does not fit its layout."""

    @classmethod
    def decode(cls, body: Buffer) -> Self:
        """The request of this body. Bytes behind it are ignored, as real servers do."""
        return cls._read(Reader(body, cls.malformed))

    @classmethod
    @abstractmethod
    def _read(cls, reader: Reader) -> Self: ...


class EmptyRequest(Request, frozen=True, gc=False):
    """A command without a body."""

    def encode(self) -> bytes:
        """Nothing."""
        return b""

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        return cls()
