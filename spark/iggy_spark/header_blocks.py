"""A column of headers, or of keys, → encoded user headers, column by column.

A block has its pairs in ascending order of their keys (Iggy protocol 0.11, tagged key/value list).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iggy_spark.encode import BYTES
from iggy_spark.errors import BadRow
from iggy_wire.options import ValueKind

ITEM_BYTES_MAX = 255  # Iggy protocol 0.11: of a key and of a value, and at least 1
_ITEM_HEAD = np.dtype([("kind", "u1"), ("length", "<u4")])

KINDS = {kind.name.lower(): int(kind) for kind in ValueKind}
_WIDTHS = {"bool": 1, "float32": 4, "float64": 8} | {
    f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64, 128)
}
# How the source's column `headers` shows a key that is no text, such as int32:01000000.
_TYPED_KEY = re.compile(r"([a-z]+[0-9]*|[0-9]{1,3}):((?:[0-9a-f]{2})+)")

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Headers of many messages, one entry per header in each array, in any order."""

    rows: Numbers  # which message
    key_kinds: Numbers
    keys: pa.Array  # large_binary
    kinds: Numbers
    values: pa.Array  # large_binary

    def without(self, key: bytes) -> Pairs:
        """Without the headers of that text key."""
        same = pc.equal(self.keys, pa.scalar(key, BYTES)).to_numpy(zero_copy_only=False)
        return self.take(np.flatnonzero(~(same & (self.key_kinds == ValueKind.STRING))))

    def take(self, which: Numbers) -> Pairs:
        """These, in this order."""
        chosen = pa.array(which, pa.int64())
        return Pairs(
            self.rows[which],
            self.key_kinds[which],
            self.keys.take(chosen),
            self.kinds[which],
            self.values.take(chosen),
        )

    def plus(self, more: Pairs) -> Pairs:
        """Both."""
        return Pairs(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.key_kinds, more.key_kinds]),
            pa.concat_arrays([self.keys, more.keys]),
            np.concatenate([self.kinds, more.kinds]),
            pa.concat_arrays([self.values, more.values]),
        )


def blocks(pairs: Pairs, count: int) -> pa.Array:
    """The encoded user headers of `count` messages, empty for those without any.

    Raises:
        BadRow: a key or a value has not 1 to 255 bytes.
    """
    _check("header key", pairs.keys, pairs.rows)
    _check("header value", pairs.values, pairs.rows)
    order = pc.sort_indices(
        pa.table({"row": pairs.rows, "kind": pairs.key_kinds, "key": pairs.keys}),
        sort_keys=[("row", "ascending"), ("kind", "ascending"), ("key", "ascending")],
    )
    encoded = pc.binary_join_element_wise(
        _heads(pairs.key_kinds, pairs.keys),
        pairs.keys,
        _heads(pairs.kinds, pairs.values),
        pairs.values,
        pa.scalar(b"", BYTES),
    ).take(order)
    ends = np.zeros(count + 1, dtype=np.int64)
    ends[1:] = np.cumsum(np.bincount(pairs.rows, minlength=count))
    listed = pa.LargeListArray.from_arrays(pa.array(ends), encoded)
    return pc.binary_join(listed, pa.scalar(b"", BYTES))


def pairs_of_maps(column: pa.Array, *, skip_null: bool) -> Pairs:
    """The headers of a column of maps: from text to text, to bytes, or to struct<kind, value> as
    the source's column `headers` has them. A null map has none.

    `skip_null`: leave out headers whose value is null.

    Raises:
        BadRow: a null value that is not left out, a kind that does not exist.
    """
    column = pc.fill_null(column, pa.scalar([], column.type)) if column.null_count else column
    ends = column.offsets.to_numpy()
    rows: Numbers = np.repeat(np.arange(len(column)), np.diff(ends))
    keys = column.keys.slice(ends[0], ends[-1] - ends[0])
    items = column.items.slice(ends[0], ends[-1] - ends[0])
    typed = pa.types.is_struct(items.type)
    values = pc.struct_field(items, "value") if typed else items
    absent = pc.is_null(values).to_numpy(zero_copy_only=False)
    if absent.any() and not skip_null:
        row, key = rows[absent][0], keys.filter(pa.array(absent))[0]
        raise BadRow(f"row {row}: header {key} is null: use headers.nullValue=skip, or a value")
    kept = pa.array(np.flatnonzero(~absent), pa.int64())
    rows, keys, values = rows[~absent], keys.take(kept), values.take(kept)
    if typed:
        kinds = _kinds(pc.struct_field(items, "kind").take(kept), rows)
        key_kinds, key_bytes = _typed_keys(keys)
    else:
        kinds = np.full(len(rows), _kind_of(values.type))
        key_kinds, key_bytes = np.full(len(rows), int(ValueKind.STRING)), keys.cast(BYTES)
    return Pairs(rows, key_kinds, key_bytes, kinds, values.cast(BYTES))


def pairs_of_column(name: str, column: pa.Array) -> Pairs:
    """A header of that name from each value of a column of texts or bytes that is not null."""
    rows: Numbers = np.flatnonzero(pc.is_valid(column).to_numpy(zero_copy_only=False))
    kinds = np.full(len(rows), _kind_of(column.type))
    text = np.full(len(rows), int(ValueKind.STRING))
    keys = pa.repeat(pa.scalar(name.encode(), BYTES), len(rows))
    return Pairs(rows, text, keys, kinds, column.take(pa.array(rows, pa.int64())).cast(BYTES))


def _kind_of(kind: pa.DataType) -> int:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return int(ValueKind.STRING if is_text else ValueKind.RAW)


def _kinds(names: pa.Array, rows: Numbers) -> Numbers:
    encoded = names.dictionary_encode(null_encoding="encode")
    numbers = []
    for name in encoded.dictionary.to_pylist():
        number = _kind_number(name)
        if number is None:
            known = pa.scalar(name, names.type)
            row = rows[pc.index(names, known).as_py()] if name is not None else rows[0]
            raise BadRow(f"row {row}: a header has kind {name!r}: use one of {', '.join(KINDS)}")
        numbers.append(number)
    found: Numbers = np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]
    return found


def _kind_number(name: str | None) -> int | None:
    """The number of a kind: by name, or as it is, for one that a later protocol may have."""
    if name is not None and name.isdecimal() and 0 < int(name) <= ITEM_BYTES_MAX:
        return int(name)
    return KINDS.get(name or "")


def _typed_keys(keys: pa.Array) -> tuple[Numbers, pa.Array]:
    encoded = keys.dictionary_encode()
    distinct = [_typed_key(key) for key in encoded.dictionary.to_pylist()]
    kinds = np.array([kind for kind, _ in distinct], dtype=np.int64)
    data = pa.array([key for _, key in distinct], BYTES)
    return kinds[encoded.indices.to_numpy()], data.take(encoded.indices)


def _typed_key(key: str) -> tuple[int, bytes]:
    found = _TYPED_KEY.fullmatch(key)
    if found is not None and (number := _kind_number(found[1])) is not None:
        data = bytes.fromhex(found[2])
        if len(data) == _WIDTHS.get(found[1], len(data)):
            return number, data
    return int(ValueKind.STRING), key.encode()


def _heads(kinds: Numbers, items: pa.Array) -> pa.Array:
    heads = np.zeros(len(kinds), _ITEM_HEAD)
    heads["kind"] = kinds
    heads["length"] = pc.binary_length(items).to_numpy(zero_copy_only=False)
    size = _ITEM_HEAD.itemsize
    ends = np.arange(0, size * (len(kinds) + 1), size, dtype=np.int64)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(heads.tobytes())]
    return pa.Array.from_buffers(BYTES, len(kinds), buffers)


def _check(what: str, items: pa.Array, rows: Numbers) -> None:
    lengths = pc.binary_length(items).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((lengths < 1) | (lengths > ITEM_BYTES_MAX))
    if len(wrong):
        at = wrong[0]
        raise BadRow(
            f"row {rows[at]}: a {what} has {lengths[at]} bytes, 1 to {ITEM_BYTES_MAX} are allowed: "
            "change it, or leave it out"
        )
