"""What is known of the messages of a batch besides their payloads, for whoever asks."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iggy_wire.errors import WireError
from iggy_wire.kernel import Columns
from iggy_wire.options import Option, Value, ValueKind

ID_BYTES = 16
_ITEM = struct.Struct("<BI")  # kind, length


@dataclass(frozen=True)
class Messages:
    """The messages of one batch, one entry per row in each list; each list is made when asked for.

    Two messages of one broker never share incarnation, partition and offset.
    """

    columns: Columns
    stream: str
    topic: str
    incarnation: str
    partition: int

    @property
    def count(self) -> int:
        """How many there are."""
        return self.columns.count

    @cached_property
    def offsets(self) -> list[int]:
        """Offsets within the partition."""
        return _numbers(self.columns.offsets)

    @cached_property
    def timestamps_us(self) -> list[int]:
        """When the broker took them, microseconds since 1970 UTC."""
        return _numbers(self.columns.timestamps_us)

    @cached_property
    def origin_timestamps_us(self) -> list[int]:
        """When the producer made them, microseconds since 1970 UTC."""
        return _numbers(self.columns.origin_timestamps_us)

    @cached_property
    def ids(self) -> list[str]:
        """Message ids as 32 lower-case hex digits, the largest digit first."""
        raw = self.columns.ids
        # On the wire an id is a little-endian number.
        return [raw[at : at + ID_BYTES][::-1].hex() for at in range(0, len(raw), ID_BYTES)]

    @cached_property
    def headers(self) -> list[dict[str, Value]]:
        """User headers. A key that is not text is named "kind:hex"; see `read_headers`."""
        raw = memoryview(self.columns.headers)
        spans = itertools.pairwise(self._header_ends)
        return [read_headers(raw[at:end]) if end > at else {} for at, end in spans]

    def raw_headers(self, row: int) -> bytes:
        """User headers of one message, encoded as on the wire."""
        at, end = self._header_ends[row : row + 2]
        return bytes(memoryview(self.columns.headers)[at:end])

    @cached_property
    def _header_ends(self) -> list[int]:
        ends: list[int] = np.frombuffer(self.columns.header_offsets, dtype=np.int32).tolist()
        return ends


def read_headers(block: memoryview) -> dict[str, Value]:
    """User headers of one message: key → value of its kind, or its bytes if they are not that kind.

    The layout is `iggy_wire.options`'s, but here a key may have any kind. Bytes behind the last
    whole pair are left out: the broker takes headers as they come, and a message that somebody
    else sent is no reason to stop.
    """
    found: dict[str, Value] = {}
    at = 0
    while (item := _item(block, at)) is not None:
        key_kind, key, at = item
        if (item := _item(block, at)) is None:
            break
        kind, value, at = item
        found[_key(key_kind, key)] = _value(kind, value)
    return found


def header_keys(block: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each pair of a message's headers begins, and its key."""
    at, view = 0, memoryview(block)
    while (item := _item(view, at)) is not None:
        yield at, item[1]
        if (value := _item(view, item[2])) is None:
            return
        at = value[2]


def _item(block: memoryview, at: int) -> tuple[int, bytes, int] | None:
    """Kind, bytes and end of the item at `at`; None if there is no whole one."""
    start = at + _ITEM.size
    if start > len(block):
        return None
    kind, length = _ITEM.unpack_from(block, at)
    end = start + length
    return (kind, bytes(block[start:end]), end) if end <= len(block) else None


def _key(kind: int, key: bytes) -> str:
    if kind == ValueKind.STRING:
        try:
            return key.decode()
        except UnicodeDecodeError:
            pass
    try:
        name = ValueKind(kind).name.lower()
    except ValueError:
        name = str(kind)
    return f"{name}:{key.hex()}"


def _value(kind: int, value: bytes) -> Value:
    try:
        return Option("", kind, value).get()
    except WireError:
        return value


def _numbers(data: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(data, dtype=np.int64).tolist()
    return numbers
