"""Decoding: each payload becomes its values or a reason, and no row moves."""

import datetime as dt
import decimal
import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_spark import decode, schema
from message_columns import messages

DDL = "id BIGINT NOT NULL, at TIMESTAMP, note STRING, ratio DOUBLE, ok BOOLEAN"


def decoder(ddl: str = DDL) -> decode.JsonDecoder:
    return decode.JsonDecoder(schema.parse(ddl, name="payloadSchema"))


def decoded(found: decode.Decoder, data: pa.Array) -> decode.Decoded:
    return found.decode(data, messages(len(data)))


def payloads(*values: bytes | dict[str, Any]) -> pa.Array:
    data = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return pa.array(data, pa.binary())


def test_a_full_a_sparse_and_a_wider_document() -> None:
    found = decoded(
        decoder(),
        payloads(
            {"id": 1, "at": "2026-03-29T01:00:00Z", "note": "\u00fc", "ratio": 2, "ok": True},
            {"id": 2, "at": None},
            {"id": 3, "new": {"field": [1, 2]}},
        ),
    )

    at = dt.datetime(2026, 3, 29, 1, tzinfo=dt.UTC)
    assert found.rejected == ()
    assert found.values.to_pylist() == [
        {"id": 1, "at": at, "note": "\u00fc", "ratio": 2.0, "ok": True},
        {"id": 2, "at": None, "note": None, "ratio": None, "ok": None},
        {"id": 3, "at": None, "note": None, "ratio": None, "ok": None},
    ]


@pytest.mark.parametrize(
    ("payload", "kind", "told"),
    [
        ({"id": "1"}, "SchemaMismatch", r"`\$.id`"),
        ({"id": 1.0}, "SchemaMismatch", r"`\$.id`"),
        ({"id": 1 << 63}, "SchemaMismatch", r"`\$.id`"),
        ({"id": True}, "SchemaMismatch", r"`\$.id`"),
        ({"id": None}, "SchemaMismatch", r"`\$.id`"),
        ({}, "SchemaMismatch", "`id`"),
        ({"id": 1, "note": {"a": 1}}, "SchemaMismatch", r"`\$.note`"),
        ({"id": 1, "note": 5}, "SchemaMismatch", r"`\$.note`"),
        ({"id": 1, "at": 1774746000}, "SchemaMismatch", r"`\$.at`"),
        ({"id": 1, "at": "yesterday"}, "SchemaMismatch", r"`\$.at`"),
        (b'{"id": 1, "ratio": NaN}', "MalformedJson", "malformed"),
        (b"", "MalformedJson", "truncated"),
        (b"null", "SchemaMismatch", "object"),
        (b"[]", "SchemaMismatch", "object"),
        (b'{"id": 1}{"id": 2}', "MalformedJson", "trailing"),
        (b'{"id": 1', "MalformedJson", "truncated"),
        (b'{"id": 1, "note": "\xff"}', "MalformedJson", "utf-8"),
        (b'{"id": 1, "x": ' + b"[" * 100_000, "MalformedJson", "recursion|truncated"),
    ],
)
def test_a_payload_that_does_not_fit_is_set_aside_alone(
    payload: bytes | dict[str, Any], kind: str, told: str
) -> None:
    found = decoded(decoder(), payloads({"id": 1}, payload, {"id": 3}))

    assert [row["id"] for row in found.values.to_pylist()] == [1, 3]
    (bad,) = found.rejected
    assert (bad.row, bad.kind) == (1, kind)
    assert re.search(told, bad.message)


def test_times_are_instants_to_the_microsecond() -> None:
    texts = [
        "2026-03-29T00:59:59.999999Z",
        "2026-03-29T02:59:59.999999+02:00",
        "2026-03-29T00:59:59.999999",
        "2026-03-28T21:29:59.999999-03:30",
    ]

    found = decoded(decoder("at TIMESTAMP"), payloads(*({"at": text} for text in texts)))

    instant = dt.datetime(2026, 3, 29, 0, 59, 59, 999999, tzinfo=dt.UTC)
    assert [row["at"] for row in found.values.to_pylist()] == [instant] * 4


def test_decimals_are_exact_or_refused() -> None:
    found = decoded(decoder("price DECIMAL(6,2)"),
        payloads(b'{"price": 1.5}', b'{"price": "2.25"}', b'{"price": 1.555}', b'{"price": 99999}',
                 b'{"price": "NaN"}', b'{"price": null}')
    )  # fmt: skip

    values = [row["price"] for row in found.values.to_pylist()]
    assert values == [decimal.Decimal("1.50"), decimal.Decimal("2.25"), None]
    assert [bad.row for bad in found.rejected] == [2, 3, 4]
    assert all("$.price" in bad.message for bad in found.rejected)


def test_nested_values_and_nulls_at_every_level() -> None:
    found = decoded(
        decoder(
            "who STRUCT<name: STRING, at: DATE>, tags ARRAY<STRING>, "
            "lines ARRAY<STRUCT<n INT NOT NULL>>"
        ),
        payloads(
            {
                "who": {"name": "a", "at": "2026-01-02"},
                "tags": ["x", None],
                "lines": [{"n": 1}, None],
            },
            {"who": None, "tags": [], "lines": None},
        ),
    )

    assert found.rejected == ()
    assert found.values.to_pylist() == [
        {"who": {"name": "a", "at": dt.date(2026, 1, 2)}, "tags": ["x", None],
         "lines": [{"n": 1}, None]},
        {"who": None, "tags": [], "lines": None},
    ]  # fmt: skip


def test_rows_and_reasons_stay_in_line() -> None:
    found = decoded(decoder(), payloads(b"x", {"id": 1}, b"y", {"id": 2}))

    rows, values, errors = decode.aligned_columns(found, 4)

    assert rows is None

    assert [value and value["id"] for value in values.to_pylist()] == [None, 1, None, 2]
    assert [error and error["class"] for error in errors.to_pylist()] == [
        "MalformedJson", None, "MalformedJson", None,
    ]  # fmt: skip


def test_text_that_is_not_utf_8_is_set_aside() -> None:
    found = decoded(decode.TextDecoder(), payloads(b"a", b"\xff", b"", "\u00e9".encode()))

    assert found.values.to_pylist() == ["a", "", "\u00e9"]
    assert [bad.row for bad in found.rejected] == [1]


def test_nothing_to_decode() -> None:
    found = decoded(decoder(), payloads())

    assert (len(found.values), found.rejected) == (0, ())


@given(st.lists(st.binary(max_size=40)))
def test_every_payload_is_a_row_or_a_reason(data: list[bytes]) -> None:
    found = decoded(decoder(), pa.array(data, pa.binary()))

    assert len(found.values) + len(found.rejected) == len(data)
