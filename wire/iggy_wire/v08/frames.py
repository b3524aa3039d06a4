"""Requests and replies of the protocol up to 0.8, without what is in them."""

from __future__ import annotations

from struct import Struct
from typing import Final

from iggy_wire.buffer import Buffer
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode

HEAD_BYTES: Final = 8
"""Of a request and of a reply."""
FIRST_BYTES: Final = 4
"""Of a connection, which tell the two framings apart."""

_HEAD: Final = Struct("<II")
_CODE_BYTES: Final = 4

_NEWER: Final = frozenset(
    {
        Command.DESCRIBE_OPTIONS,
        Command.ATTACH_CONSUMER_SESSION,
        Command.BIND_SESSION,
        Command.UPDATE_RESOURCE,
        Command.GET_METADATA_CHANGES,
        Command.LOGIN,
        Command.LOGIN_WITH_TOKEN,
        Command.GET_POLL_ROUTING,
        Command.POLL_ON_PRIMARY,
        Command.GET_PARTITION_ROUTE,
        Command.POLL_MESSAGES_DEFERRED,
        Command.WAIT_FOR_MESSAGES,
        Command.CANCEL_DEFERRED,
        Command.FETCH_MESSAGES,
        Command.GET_OFFSET_ROUTING,
        Command.SYNC_CONSUMER_GROUP,
    }
)
COMMANDS: Final = frozenset(Command) - _NEWER
"""Those that there were."""


def is_v08(first: Buffer) -> bool:
    """Whether a connection that begins with these bytes speaks this protocol.

    Of 0.11 they are the low half of a checksum that no client fills; here they are a length, which
    is 4 at least.
    """
    return any(first[:FIRST_BYTES])


def request_bytes(head: Buffer) -> int:
    """Of the whole request whose first 4 bytes are in `head`; less than 8 is nonsense."""
    return int.from_bytes(head[:_CODE_BYTES], "little") + _CODE_BYTES


def request_code(head: Buffer) -> int:
    """Its command, from the first 8 bytes."""
    return int.from_bytes(head[_CODE_BYTES:HEAD_BYTES], "little")


def encode_request(code: int, payload: bytes = b"") -> bytes:
    """As clients send it."""
    return _HEAD.pack(_CODE_BYTES + len(payload), code) + payload


def encode_reply(payload: bytes) -> bytes:
    """A success."""
    return _HEAD.pack(0, len(payload)) + payload


def encode_error(code: int) -> bytes:
    """A refusal."""
    return _HEAD.pack(code or ErrorCode.INVALID_COMMAND, 0)


def decode_reply_head(head: Buffer) -> tuple[int, int]:
    """Status (0: success) and payload length."""
    status, length = _HEAD.unpack_from(head)
    return status, length
