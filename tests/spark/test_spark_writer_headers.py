"""Columns of headers and keys → user headers as they travel."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iggy_spark import header_blocks
from iggy_spark.errors import BadRow
from iggy_spark.messages import read_headers
from iggy_wire.options import Option, options_bytes, pair_bytes

TEXTS = pa.map_(pa.string(), pa.string())
BYTES = pa.map_(pa.string(), pa.binary())
TYPED = pa.map_(pa.string(), pa.struct([("kind", pa.string()), ("value", pa.binary())]))


def encoded(column: pa.Array, *, skip_null: bool = True) -> list[bytes]:
    pairs = header_blocks.pairs_of_maps(column, skip_null=skip_null)
    blocks: list[bytes] = header_blocks.blocks(pairs, len(column)).to_pylist()
    return blocks


def test_texts_and_bytes_keep_their_kind_and_are_in_order() -> None:
    maps = [{"b": "2", "a": "1"}, None, {}, {"ключ": "значение"}, {"c": None, "d": "4"}]

    found = encoded(pa.array(maps, TEXTS))

    assert found == [
        options_bytes((Option.of("a", "1"), Option.of("b", "2"))),
        b"",
        b"",
        options_bytes((Option.of("ключ", "значение"),)),
        options_bytes((Option.of("d", "4"),)),
    ]
    raw = encoded(pa.array([{"k": b"\xff"}], BYTES))
    assert raw == [options_bytes((Option.of("k", b"\xff"),))]


def test_a_part_of_a_column_has_the_headers_of_that_part() -> None:
    column = pa.array([{"x": str(number)} for number in range(10)], TEXTS).slice(4, 2)

    assert [read_headers(memoryview(block)) for block in encoded(column)] == [
        {"x": "4"},
        {"x": "5"},
    ]


def test_typed_headers_keep_kinds_of_values_and_of_keys() -> None:
    one = (1).to_bytes(4, "little")
    maps = [
        {
            "age": {"kind": "int32", "value": one},
            "int32:01000000": {"kind": "string", "value": b"text"},
            "int32:0100": {"kind": "bool", "value": b"\x01"},  # no int32 has two bytes: a text
            "new": {"kind": "77", "value": b"?"},
        }
    ]

    assert encoded(pa.array(maps, TYPED)) == [
        pair_bytes(2, b"age", 6, one)
        + pair_bytes(2, b"int32:0100", 3, b"\x01")
        + pair_bytes(2, b"new", 77, b"?")
        + pair_bytes(6, one, 2, b"text")
    ]


def test_a_key_becomes_a_header_and_replaces_one_of_its_name() -> None:
    maps = pa.array([{"key": "old", "z": "1"}, {"a": "1"}, None], TEXTS)
    pairs = header_blocks.pairs_of_maps(maps, skip_null=True).without(b"key")
    keys = header_blocks.pairs_of_column("key", pa.array(["k0", "k1", None]))

    blocks = header_blocks.blocks(pairs.plus(keys), 3).to_pylist()

    assert [read_headers(memoryview(block)) for block in blocks] == [
        {"key": "k0", "z": "1"},
        {"a": "1", "key": "k1"},
        {},
    ]
    as_bytes = header_blocks.pairs_of_column("key", pa.array([b"k"]))
    block = header_blocks.blocks(as_bytes, 1)[0].as_py()
    assert read_headers(memoryview(block)) == {"key": b"k"}


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([{}, {"a": None}], TEXTS), "row 1: header a is null: use headers.nullValue=skip"),
        (pa.array([{}, {"a": ""}], TEXTS), "row 1: a header value has 0 bytes, 1 to 255"),
        (pa.array([{"k" * 256: "v"}], TEXTS), "row 0: a header key has 256 bytes"),
        (
            pa.array([{}, {"a": {"kind": "varchar", "value": b"1"}}], TYPED),
            "row 1: a header has kind 'varchar': use one of raw, string",
        ),
        (
            pa.array([{"a": {"kind": None, "value": b"1"}}], TYPED),
            "row 0: a header has kind None",
        ),
    ],
)
def test_what_makes_no_header_is_refused(column: pa.Array, told: str) -> None:
    with pytest.raises(BadRow, match=told):
        encoded(column, skip_null=False)
