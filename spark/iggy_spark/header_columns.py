"""User headers as they travel → an Arrow column of maps, column by column.

The layout is `iggy_wire.options`'s, but here a key may have any kind. Bytes behind the last whole
pair of a message are left out: the broker takes headers as they come.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from iggy_wire.kernel import Columns
from iggy_wire.options import ValueKind

TYPE = pa.map_(pa.string(), pa.struct([("kind", pa.string()), ("value", pa.binary())]))
DDL = "MAP<STRING, STRUCT<kind: STRING, value: BINARY>>"

_HEAD_BYTES = 5  # kind, length
_KINDS = 256
_NAMES = [str(kind) for kind in range(_KINDS)]
for _kind in ValueKind:
    _NAMES[_kind] = _kind.name.lower()

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def header_column(columns: Columns) -> pa.Array:
    """A map for each message, empty where it has no headers: key → kind and bytes of the value.

    A key that is not text appears as "kind:hex" of its bytes.
    """
    data = np.frombuffer(columns.headers, dtype=np.uint8)
    ends = np.frombuffer(columns.header_offsets, dtype=np.int32).astype(np.int64)
    rows, keys, values = _items(data, ends)
    counts = np.bincount(rows, minlength=columns.count)
    offsets = np.zeros(columns.count + 1, dtype=np.int32)
    offsets[1:] = np.cumsum(counts)
    kinds = pa.array(_NAMES).take(pa.array(data[values[0]]))
    items = pa.StructArray.from_arrays(
        [kinds, _gathered(data, values)], fields=list(TYPE.item_type)
    )
    names = _key_names(data[keys[0]], _gathered(data, keys))
    return pa.MapArray.from_arrays(pa.array(offsets), names, items)


Items = tuple[Numbers, Numbers]  # where each begins, with its head, and how many bytes follow that


def _items(data: Bytes, ends: Numbers) -> tuple[Numbers, Items, Items]:
    """The message of every pair, its key and its value, in the order of messages.

    Each turn takes one pair off every message that has one left.
    """
    rows, at, stop = np.arange(len(ends) - 1), ends[:-1], ends[1:]
    found: list[tuple[Numbers, ...]] = []
    while len(rows):
        key_bytes, value_at, whole = _item(data, at, stop)
        rows, at, stop = rows[whole], at[whole], stop[whole]
        key_bytes, value_at = key_bytes[whole], value_at[whole]
        value_bytes, next_at, whole = _item(data, value_at, stop)
        turn = (rows, at, key_bytes, value_at, value_bytes, next_at, stop)
        turn = tuple(part[whole] for part in turn)
        found.append(turn)
        rows, *_, at, stop = turn
    if not found:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, (nothing, nothing), (nothing, nothing)
    rows, at, key_bytes, value_at, value_bytes = (
        np.concatenate(parts) for parts in list(zip(*found, strict=True))[:5]
    )
    order = np.argsort(rows, kind="stable")
    return (
        rows[order],
        (at[order], key_bytes[order]),
        (value_at[order], value_bytes[order]),
    )


def _item(data: Bytes, at: Numbers, stop: Numbers) -> tuple[Numbers, Numbers, Any]:
    """Length and end of the item at each place, and which of them are whole."""
    has_head = at + _HEAD_BYTES <= stop
    safe = np.where(has_head, at, 0)
    length = np.zeros(len(at), dtype=np.int64)
    if has_head.any():
        for byte in range(4):
            length |= data[safe + 1 + byte].astype(np.int64) << (8 * byte)
    end = at + _HEAD_BYTES + length
    return length, end, has_head & (end <= stop)


def _gathered(data: Bytes, items: Items) -> pa.Array:
    """The bytes of items, one after another."""
    at, lengths = items
    ends = np.zeros(len(at) + 1, dtype=np.int64)
    ends[1:] = np.cumsum(lengths)
    index = np.arange(ends[-1]) + np.repeat(at + _HEAD_BYTES - ends[:-1], lengths)
    buffers = [None, pa.py_buffer(ends.astype(np.int32).tobytes()), pa.py_buffer(data[index])]
    return pa.Array.from_buffers(pa.binary(), len(at), buffers)


def _key_names(kinds: Bytes, keys: pa.Array) -> pa.Array:
    if (kinds == ValueKind.STRING).all():
        try:
            return keys.cast(pa.string())
        except pa.ArrowInvalid:  # not UTF-8
            pass
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64) * _KINDS + kinds
    distinct, which = np.unique(codes, return_inverse=True)
    texts = encoded.dictionary.to_pylist()
    names = [_key_name(code % _KINDS, texts[code // _KINDS]) for code in distinct.tolist()]
    return pa.array(names, pa.string()).take(pa.array(which.reshape(-1)))


def _key_name(kind: int, key: bytes) -> str:
    if kind == ValueKind.STRING:
        try:
            return key.decode()
        except UnicodeDecodeError:
            pass
    return f"{_NAMES[kind]}:{key.hex()}"
