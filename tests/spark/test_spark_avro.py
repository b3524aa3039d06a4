"""Avro payloads: every type has its column, and what does not fit is set aside with its path."""

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_spark import decode, payload, schema
from iggy_spark.errors import OptionError
from message_columns import messages

EVERY: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "ok", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "id", "type": "long"},
        {"name": "ratio", "type": "float"},
        {"name": "exact", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "nothing", "type": "null"},
        {"name": "home", "type": {"type": "record", "name": "Place", "fields": [
            {"name": "city", "type": "string"}]}},
        {"name": "work", "type": ["null", "Place"]},
        {"name": "either", "type": ["int", "null", "string", "shop.Place"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "at_ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}  # fmt: skip
AT = dt.datetime(2026, 3, 29, 1, 0, 0, 123456, tzinfo=dt.UTC)
VALUE: dict[str, Any] = {
    "ok": True, "small": -5, "id": 1 << 40, "ratio": 0.5, "exact": 0.1, "raw": b"\x00\xff",
    "note": None, "size": "L", "hash": b"ab", "tags": ["x", None], "counts": {"a": 1},
    "nothing": None, "home": {"city": "Bonn"}, "work": {"city": "Kyoto"}, "either": "text",
    "price": Decimal("12.50"), "day": dt.date(2026, 3, 29), "at": AT,
    "at_ms": AT.replace(microsecond=123000), "local": AT.replace(tzinfo=None), "clock": 5,
    "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
}  # fmt: skip
ONE = {"type": "record", "name": "One", "fields": [{"name": "id", "type": "long"}]}


def encoded(avro: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(avro), value)
    return target.getvalue()


def declare(avro: Any, transforms: Any = (), columns: str | None = None) -> payload.Payload:
    return payload.parse(
        "avro", json.dumps(avro), transforms, columns=columns, names=payload.OPTION_NAMES
    )


def decoded(declared: payload.Payload, *data: bytes) -> decode.Decoded:
    decoder = decode.build(declared)
    assert decoder is not None
    return decoder.decode(pa.array(data, pa.binary()), messages(len(data)))


def test_every_type_has_its_column() -> None:
    declared = declare(EVERY)

    assert {item.name: schema.to_ddl(item.type) for item in declared.fields} == {
        "ok": "BOOLEAN", "small": "INT", "id": "BIGINT", "ratio": "FLOAT", "exact": "DOUBLE",
        "raw": "BINARY", "note": "STRING", "size": "STRING", "hash": "BINARY",
        "tags": "ARRAY<STRING>", "counts": "MAP<STRING, INT>",
        "home": "STRUCT<`city`: STRING NOT NULL>",
        "work": "STRUCT<`city`: STRING NOT NULL>",
        "either": "STRUCT<`member0`: INT, `member1`: STRING, "
                  "`member2`: STRUCT<`city`: STRING NOT NULL>>",
        "price": "DECIMAL(9,2)", "day": "DATE", "at": "TIMESTAMP", "at_ms": "TIMESTAMP",
        "local": "TIMESTAMP_NTZ", "clock": "BIGINT", "uuid": "STRING",
    }  # fmt: skip
    assert [item.name for item in declared.fields if item.nullable] == ["note", "work", "either"]


def test_every_value_comes_back() -> None:
    found = decoded(
        declare(EVERY), encoded(EVERY, VALUE), encoded(EVERY, {**VALUE, "either": None})
    )

    assert found.rejected == ()
    first, second = found.values.to_pylist()
    expected = {key: value for key, value in VALUE.items() if key != "nothing"}
    expected |= {"counts": [("a", 1)]}
    expected |= {"either": {"member0": None, "member1": "text", "member2": None}}
    assert first == expected
    assert second == {**expected, "either": None}


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (7, {"member0": 7}),
        ("x", {"member1": "x"}),
        ({"city": "Bonn"}, {"member2": {"city": "Bonn"}}),
    ],
)
def test_a_union_fills_one_member(value: Any, member: Any) -> None:
    data = encoded(EVERY, {**VALUE, "either": value})

    (row,) = decoded(declare(EVERY), data).values.to_pylist()

    nothing = {"member0": None, "member1": None, "member2": None}
    assert row["either"] == {**nothing, **member}


@pytest.mark.parametrize(
    ("data", "kind", "told"),
    [
        (b"\x80", "MalformedAvro", ""),
        (b"\x02\x02", "MalformedAvro", "1 bytes are left"),
        (b"\xff" * 11, "MalformedAvro", ""),
    ],
)
def test_bytes_that_are_no_record_are_set_aside(data: bytes, kind: str, told: str) -> None:
    found = decoded(declare(ONE), encoded(ONE, {"id": 1}), data, encoded(ONE, {"id": 3}))

    assert found.values.to_pylist() == [{"id": 1}, {"id": 3}]
    (bad,) = found.rejected
    assert (bad.row, bad.stage, bad.kind) == (1, "decode", kind)
    assert told in bad.message
    assert bad.message


def test_what_does_not_fit_has_its_path() -> None:
    lines = {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4,
                                   "scale": 2}}]}}  # fmt: skip
    avro = {"type": "record", "name": "R", "fields": [{"name": "lines", "type": lines}]}
    plain = json.loads(json.dumps(avro).replace('"logicalType": "decimal", ', ""))
    digits = (123456).to_bytes(3, "big")
    data = encoded(plain, {"lines": [{"price": b"\x01"}, {"price": digits}]})

    (bad,) = decoded(declare(avro), data).rejected

    assert bad.kind == "SchemaMismatch"
    assert bad.message == "value does not fit DECIMAL(4,2) - at `$.lines[1].price`"


def test_a_time_that_no_calendar_has_has_its_path() -> None:
    at = {"type": "long", "logicalType": "timestamp-micros"}
    avro = {"type": "record", "name": "R", "fields": [{"name": "at", "type": at}]}
    plain = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}

    (bad,) = decoded(declare(avro), encoded(plain, {"at": 1 << 62})).rejected

    assert bad.kind == "SchemaMismatch"
    assert "$.at" in bad.message


def test_the_framing_of_a_registry_is_skipped() -> None:
    record = encoded(ONE, {"id": 5})
    framed = b"\x00\x00\x00\x00\x07" + record

    for framing, good in (("auto", [framed, record]), ("registry", [framed]), ("none", [record])):
        found = decoded(declare({**ONE, "iggy.framing": framing}), framed, record)
        assert found.values.to_pylist() == [{"id": 5}] * len(good), framing
        assert len(found.rejected) == 2 - len(good)


def test_a_record_that_could_be_framed_or_not_is_set_aside() -> None:
    text = {"type": "record", "name": "T", "fields": [
        {"name": "a", "type": "string"}, {"name": "b", "type": "string"}]}  # fmt: skip
    both = encoded(text, {"a": "", "b": "\x00\x00\x00\x00\x00"})
    framed = b"\x00" + (0x0A000000).to_bytes(4, "big") + b"\x00\x00"
    assert framed == both

    (bad,) = decoded(declare(text), both).rejected
    assert bad.kind == "AmbiguousFraming"
    assert "iggy.framing" in bad.message
    found = decoded(declare({**text, "iggy.framing": "none"}), both)
    assert found.values.to_pylist() == [{"a": "", "b": "\x00" * 5}]


@pytest.mark.parametrize(
    ("avro", "told"),
    [
        ("{", "no JSON"),
        ('"string"', "of type record"),
        (json.dumps({**ONE, "iggy.framing": "maybe"}), "iggy.framing: choose from"),
        (json.dumps({"type": "record", "name": "N", "fields": [
            {"name": "next", "type": ["null", "N"]}]}), r"\$\.next: N contains itself"),
        (json.dumps({"type": "record", "name": "N", "fields": [
            {"name": "x", "type": "strang"}]}), r"\$\.x: 'strang' is no Avro type"),
        (json.dumps({"type": "record", "name": "N", "fields": []}), "there are no fields"),
        (json.dumps({"type": "record", "name": "N", "fields": [
            {"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}), "'A' is there twice"),
        (json.dumps({"type": "record", "name": "N", "fields": [
            {"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 50}}]}),
         r"\$\.p: a decimal of 50 digits"),
        (json.dumps({"type": "record", "name": "N", "fields": [
            {"name": "l", "type": {"type": "array", "items": "null"}}]}), r"\$\.l\[\]: nothing"),
        (json.dumps({"type": "record", "name": "N", "fields": [
            {"name": "l", "type": {"type": "enum", "name": "E"}}]}), "no Avro schema"),
        (json.dumps({"type": "record", "name": "N", "fields": [
            {"name": "l", "type": {"type": "fixed", "name": "F", "size": 0}}]}), "fixed of size 0"),
    ],
)  # fmt: skip
def test_a_wrong_schema_is_a_wrong_option(avro: str, told: str) -> None:
    with pytest.raises(OptionError, match=f"^payloadSchema: .*{told}"):
        payload.parse("avro", avro, names=payload.OPTION_NAMES)


def test_transforms_see_json_and_columns_may_be_declared() -> None:
    transforms = [
        {"filter_messages": {"where": {"field": "at", "greater": "2026"}}},
        {"delete_fields": {"fields": ["either"]}},
        {"rename_fields": {"fields": [{"from": "home.city", "to": "city"}]}},
        {"add_fields": {"fields": [{"key": "offset", "value": {"computed": "offset"}}]}},
    ]
    columns = "city STRING, at TIMESTAMP, raw BINARY, price DECIMAL(9,2), counts MAP<STRING, INT>"
    columns += ", offset BIGINT"
    old = {**VALUE, "at": AT.replace(year=2025)}

    found = decoded(declare(EVERY, transforms, columns), encoded(EVERY, VALUE), encoded(EVERY, old))

    assert (found.rejected, found.filtered) == ((), 1)
    assert found.values.to_pylist() == [
        {"city": "Bonn", "at": AT, "raw": b"\x00\xff", "price": Decimal("12.50"),
         "counts": [("a", 1)], "offset": 100}
    ]  # fmt: skip


def test_without_declared_columns_those_of_the_schema_stay() -> None:
    declared = declare(ONE, [{"delete_fields": {"fields": ["id"]}}])

    (bad,) = decoded(declared, encoded(ONE, {"id": 1})).rejected

    assert (bad.stage, bad.kind) == ("decode", "SchemaMismatch")
    assert "`id`" in bad.message


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=80), max_size=3), st.integers(0, 90), st.binary(max_size=3))
def test_any_bytes_are_a_row_or_a_reason(data: list[bytes], at: int, other: bytes) -> None:
    good = encoded(EVERY, VALUE)
    damaged = good[:at] + other + good[at + len(other) :]

    for framing in ("auto", "none"):
        found = decoded(declare({**EVERY, "iggy.framing": framing}), *data, damaged, good)
        assert len(found.values) + len(found.rejected) == len(data) + 2
        assert all(bad.message for bad in found.rejected)
        assert found.values[-1].as_py()["id"] == VALUE["id"]
