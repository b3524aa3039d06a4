"""From polled batches to the JSON of an answer, message by message, as text: the hot part of polls.

Iggy 0.9 HTTP API, chapter on polling. Numbers are written as they are, a 128-bit id too; payloads
and user headers are base64.
"""

from __future__ import annotations

from binascii import b2a_base64
from struct import Struct
from typing import Final

from iggy_broker.net.http.shapes import KIND_WORDS
from iggy_wire.header import PartitionContext
from iggy_wire.kernel_types import BATCH_HEADER_BYTES, FRAME_HEADER_BYTES

# base offset, append time, origin time, length, - , count of a batch header, from byte 8
_BATCH: Final = Struct("<8xQQQQ8xI")
# checksum, id low and high, offset delta, time delta, headers length, payload length, reserved
_FRAME: Final = Struct("<QQQIIIIQ")
_ITEM: Final = Struct("<BI")
_ITEM_BYTES_MAX: Final = 255
_STRING: Final = 2
_BOOL: Final = 3

# Bytes that a value of a kind must have, where that is fixed.
_WIDTHS: Final[dict[int, int]] = {
    3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8,
}  # fmt: skip
_WORDS: Final = {kind: word.encode() for kind, word in enumerate(KIND_WORDS, start=1)}

_HEAD: Final = b'"partition_id":%d,"current_offset":%d,"count":%d,"messages":['
_CONTEXT: Final = b'"context":{"incarnation":%d,"owner_generation":%d,"metadata_op":%d},'
# Before the payload: what differs from message to message, then what hardly ever does.
_MESSAGE: Final = b'{"header":{"checksum":%d,"id":%d,"offset":%d,"timestamp":'
_ALIKE: Final = (
    b'%d,"origin_timestamp":%d,"user_headers_length":%d,"payload_length":%d,"reserved":%d},'
    b'"payload":"'
)
# Between it and the user headers.
_BEHIND: Final = b'","user_headers":'
_NO_HEADERS: Final = b'","user_headers":[]},'
_HEADER: Final = b'{"key":{"kind":"%b","value":"%b"},"value":{"kind":"%b","value":"%b"}}'


def polled_json(
    partition_id: int,
    current_offset: int,
    count: int,
    region: memoryview,
    context: PartitionContext | None = None,
) -> bytes:
    """The body of the answer. `region` holds whole batches, which the broker has admitted."""
    served = b"" if context is None else _CONTEXT % context
    parts = [b"{" + served + _HEAD % (partition_id, current_offset, count)]
    at = 0
    while at < len(region):
        base_offset, time_us, origin_us, length, messages = _BATCH.unpack_from(region, at)
        frame = at + BATCH_HEADER_BYTES
        before, alike = None, b""
        for _ in range(messages):
            (checksum, low, high, delta, later_us, headers_bytes, payload_bytes,
             reserved) = _FRAME.unpack_from(region, frame)  # fmt: skip
            payload = frame + FRAME_HEADER_BYTES
            headers = payload + payload_bytes
            frame = headers + headers_bytes
            numbers = later_us, headers_bytes, payload_bytes, reserved
            if numbers != before:
                before = numbers
                alike = _ALIKE % (
                    time_us,
                    origin_us + later_us,
                    headers_bytes,
                    payload_bytes,
                    reserved,
                )
            parts += (
                _MESSAGE % (checksum, high << 64 | low, base_offset + delta),
                alike,
                b2a_base64(region[payload:headers], newline=False),
            )
            if headers_bytes:
                parts += (_BEHIND, headers_json(bytes(region[headers:frame])), b"},")
            else:
                parts.append(_NO_HEADERS)
        at += length
    if len(parts) > 1:
        parts[-1] = parts[-1][:-1]  # no comma behind the last
    parts.append(b"]}")
    return b"".join(parts)


def headers_json(block: bytes) -> bytes:
    """User headers, ascending by kind and bytes of their keys; base64 of all if they are none."""
    found = _parsed(block)
    if found is None:
        return b'"%b"' % b2a_base64(block, newline=False)
    shown = (
        _HEADER % (
            _WORDS[key_kind], b2a_base64(key, newline=False),
            _WORDS[value_kind], b2a_base64(value, newline=False),
        )
        for (key_kind, key), (value_kind, value) in sorted(found.items())
    )  # fmt: skip
    return b"[" + b",".join(shown) + b"]"


def _parsed(block: bytes) -> dict[tuple[int, bytes], tuple[int, bytes]] | None:
    found: dict[tuple[int, bytes], tuple[int, bytes]] = {}
    at = 0
    while at < len(block):
        key, at = _item(block, at)
        value, at = _item(block, at) if key is not None else (None, at)
        if key is None or value is None or key in found:
            return None
        found[key] = value
    return found


def _item(block: bytes, at: int) -> tuple[tuple[int, bytes] | None, int]:
    """A key or value and what follows; None if it is no value of its kind."""
    start = at + _ITEM.size
    if start > len(block):
        return None, at
    kind, length = _ITEM.unpack_from(block, at)
    end = start + length
    item = block[start:end]
    if kind not in _WORDS or not 1 <= length <= _ITEM_BYTES_MAX or end > len(block):
        return None, at
    if length != _WIDTHS.get(kind, length) or (kind == _BOOL and item[0] > 1):
        return None, at
    if kind == _STRING:
        try:
            item.decode()
        except UnicodeDecodeError:
            return None, at
    return (kind, item), end
