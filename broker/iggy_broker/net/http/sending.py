"""From the JSON of a send to a batch, and where it goes. Iggy 0.9 HTTP API, chapter on sending."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from iggy_broker.errors import Reject
from iggy_broker.net.http import bodies
from iggy_broker.net.http.query import U64_MAX
from iggy_broker.net.http.shapes import KIND_WORDS
from iggy_wire import batch
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.kernel_types import HEADERS_BYTES_MAX
from iggy_wire.options import pair_bytes
from iggy_wire.primitives import Partitioning, PartitioningKind

BALANCED, PARTITION, KEY = "balanced", "partition_id", "messages_key"

_PARTITION_BYTES: Final = 4
_ITEM_BYTES_MAX: Final = 255
_ID_BYTES: Final = 16
_U128_MAX: Final = (1 << 128) - 1
_DECIMAL: Final = re.compile(r"[0-9]{1,39}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-?)(?:[0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}")
_KINDS: Final = {word: code for code, word in enumerate(KIND_WORDS, start=1)}
# Version 4 and the variant in the 128-bit number of a UUID (RFC 9562).
_UUID_MASK: Final = _U128_MAX ^ (0xF000 << 64) ^ (0xC000 << 48)
_UUID_BITS: Final = (0x4000 << 64) | (0x8000 << 48)


def partitioning(asked: bodies.Partitioning) -> Partitioning:
    """Who picks the partition. INVALID_COMMAND, INVALID_KEY_VALUE_LENGTH."""
    if asked.kind == BALANCED:
        return Partitioning.balanced()
    if asked.kind == KEY:
        if not 1 <= len(asked.value) <= _ITEM_BYTES_MAX:
            detail = f"a messages_key has 1 to {_ITEM_BYTES_MAX} bytes, not {len(asked.value)}"
            raise Reject(ErrorCode.INVALID_KEY_VALUE_LENGTH, detail)
        return Partitioning.key(asked.value)
    if len(asked.value) < _PARTITION_BYTES:
        detail = f"a partition_id is 4 bytes, little-endian, not {len(asked.value)}"
        raise Reject(ErrorCode.INVALID_COMMAND, detail)
    return Partitioning(PartitioningKind.PARTITION, asked.value[:_PARTITION_BYTES])


def check(asked: bodies.OriginalSendMessages) -> list[Message]:
    """The messages; BadBody for words and values that their types do not refuse."""
    if asked.partitioning.kind not in (BALANCED, PARTITION, KEY):
        raise bodies.wrong_shape(f"partitioning: unknown variant `{asked.partitioning.kind}`")
    random_ids = os.urandom(_ID_BYTES * len(asked.messages))
    return [_message(one, at, random_ids) for at, one in enumerate(asked.messages)]


def build(messages: Sequence[Message], *, now_us: int) -> bytearray:
    """One sealed batch. Reject with what the first bad message is refused for."""
    if not messages:
        raise Reject(ErrorCode.INVALID_MESSAGES_COUNT, "send at least one message")
    try:
        return batch.build(messages, origin_timestamp_us=now_us)
    except WireError as error:
        raise Reject(error.code, error.detail) from None


def _message(one: bodies.Message, at: int, random_ids: bytes) -> Message:
    if not one.payload:
        raise bodies.wrong_shape(f"messages[{at}].payload: at least one byte")
    message_id = 0
    if one.id is not UNSET and one.id is not None:
        message_id = _id(one.id, at)
    if not message_id:
        random = random_ids[_ID_BYTES * at : _ID_BYTES * (at + 1)]
        message_id = int.from_bytes(random, "big") & _UUID_MASK | _UUID_BITS
    headers = one.user_headers
    if headers is UNSET or not headers:
        return Message(one.payload, message_id)
    if isinstance(headers, bytes):
        return Message(one.payload, message_id, headers)
    return Message(one.payload, message_id, _headers(headers, at))


def _id(given: int | str, at: int) -> int:
    """A number up to 2^64-1, or text: a decimal u128, or a UUID read as a big-endian number."""
    if isinstance(given, int):
        if 0 <= given <= U64_MAX:
            return given
    elif _DECIMAL.fullmatch(given):
        if (value := int(given)) <= _U128_MAX:
            return value
    elif _UUID.fullmatch(given):
        return uuid.UUID(given).int
    raise bodies.wrong_shape(
        f"messages[{at}].id: write a number up to 2^64-1, or a u128 or a UUID as text"
    )


def _headers(given: list[bodies.UserHeader], at: int) -> bytes:
    """The stored form. Widths are not checked (as the original); lengths and uniqueness are."""
    seen: set[tuple[int, bytes]] = set()
    parts = []
    for one in given:
        key = (_kind(one.key.kind, at), one.key.value)
        value_kind = _kind(one.value.kind, at)
        if key in seen:
            raise Reject(
                ErrorCode.INVALID_HEADER_KEY, f"messages[{at}]: a header key is there twice"
            )
        seen.add(key)
        for code, item in (
            (ErrorCode.INVALID_HEADER_KEY, one.key.value),
            (ErrorCode.INVALID_HEADER_VALUE, one.value.value),
        ):
            if not 1 <= len(item) <= _ITEM_BYTES_MAX:
                detail = f"messages[{at}]: keys and values have 1 to {_ITEM_BYTES_MAX} bytes"
                raise Reject(code, detail)
        parts.append(pair_bytes(*key, value_kind, one.value.value))
    block = b"".join(parts)
    if len(block) > HEADERS_BYTES_MAX:
        detail = f"messages[{at}]: user headers have {HEADERS_BYTES_MAX} bytes at most"
        raise Reject(ErrorCode.TOO_BIG_USER_HEADERS, detail)
    return block


def _kind(word: str, at: int) -> int:
    kind = _KINDS.get(word)
    if kind is None:
        raise bodies.wrong_shape(f"messages[{at}].user_headers: unknown variant `{word}`")
    return kind
