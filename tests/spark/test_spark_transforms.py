"""Transforms: what each does to a document."""

import datetime as dt
import hashlib
import hmac
import json
import os
import struct
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iggy_spark import decode, payload
from message_columns import (
    FIRST_OFFSET,
    INCARNATION,
    ORIGIN_US,
    PARTITION,
    STREAM,
    TIMESTAMP_US,
    TOPIC,
    messages,
)
from transform_cases import Document, declare, one, run


@pytest.mark.parametrize(
    ("transform", "before", "after"),
    [
        ({"add_fields": {"fields": [{"key": "a.b", "value": {"static": [1]}}]}},
         {}, {"a": {"b": [1]}}),
        ({"add_fields": {"fields": [{"key": "a", "value": {"static": 2}}]}}, {"a": 1}, {"a": 2}),
        ({"add_fields": {"fields": [{"key": r"a\.b", "value": {"static": 2}}]}}, {}, {"a.b": 2}),
        ({"delete_fields": {"fields": ["a", "card.number", "x.y"]}},
         {"a": 1, "card": {"number": 5, "name": "n"}, "x": 1}, {"card": {"name": "n"}, "x": 1}),
        ({"delete_fields": {"fields": ["lines.sku", "tmp_*", "o.*"]}},
         {"lines": [{"sku": 1, "n": 2}, {"n": 3}, 5], "tmp_a": 1, "tmp_b": 2, "o": {"p": 1}},
         {"lines": [{"n": 2}, {"n": 3}, 5], "o": {}}),
        ({"rename_fields": {"fields": [{"from": "a", "to": "b.c"}, {"from": "none", "to": "x"}]}},
         {"a": 1}, {"b": {"c": 1}}),
        ({"unwrap_envelope": {"field": "data.after"}},
         {"data": {"after": {"id": 1}}, "op": "u"}, {"id": 1}),
        ({"unwrap_envelope": {"field": "data"}}, {"op": "u"}, {"op": "u"}),
        ({"flatten": {}}, {"a": {"b": {"c": 1}, "d": [{"e": 1}]}, "f": {}},
         {"a_b_c": 1, "a_d": [{"e": 1}], "f": {}}),
        ({"flatten": {"separator": ".", "depth": 1}}, {"a": {"b": {"c": 1}}}, {"a.b": {"c": 1}}),
        ({"mask_fields": {"fields": ["a.*", "l.x"], "fixed": "***"}},
         {"a": {"b": 1, "c": None}, "l": [{"x": 1}]},
         {"a": {"b": "***", "c": None}, "l": [{"x": "***"}]}),
    ],
)  # fmt: skip
def test_fields_change(transform: Any, before: Document, after: Document) -> None:
    assert one([transform], before) == after


@pytest.mark.parametrize(
    ("condition", "before", "after"),
    [
        (None, {}, {"a": 9}),
        ("always", {"a": 1}, {"a": 9}),
        ("key_exists", {"a": None}, {"a": 9}),
        ("key_exists", {}, {}),
        ("key_not_exists", {}, {"a": 9}),
        ("key_not_exists", {"a": None}, {"a": None}),
    ],
)
def test_a_field_is_updated_on_a_condition(
    condition: str | None, before: Document, after: Document
) -> None:
    field = {"key": "a", "value": {"static": 9}}
    if condition is not None:
        field["condition"] = condition

    assert one([{"update_fields": {"fields": [field]}}], before) == after


WIDE = {
    "id": 1, "meta_at": "t", "meta_by": "u", "n": 5, "ok": True, "none": None,
    "in": {"id": 2, "meta_x": {"y": 1}, "other": 3}, "list": [{"meta_z": 1}, {"q": 1}, 7],
}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, list(WIDE)),
        ({"keep_fields": ["id", "n"]}, ["id", "n"]),
        ({"patterns": [{"key_pattern": {"starts_with": "meta_"}}]}, ["meta_at", "meta_by"]),
        ({"patterns": [{"key_pattern": {"ends_with": "_by"}}], "keep_fields": ["id"]},
         ["id", "meta_by"]),
        ({"patterns": [{"key_pattern": {"contains": "ta_"}}], "include_matching": False},
         ["id", "n", "ok", "none", "in", "list"]),
        ({"patterns": [{"key_pattern": {"regex": "^(id|n)$"}}]}, ["id", "n"]),
        ({"patterns": [{"key_pattern": {"exact": "id"}}, {"value_pattern": "is_boolean"}]},
         ["id", "ok"]),
        ({"patterns": [{"value_pattern": "is_number"}]}, ["id", "n"]),
        ({"patterns": [{"value_pattern": "is_null"}]}, ["none"]),
        ({"patterns": [{"value_pattern": "is_object"}, {"value_pattern": "is_array"}]},
         ["in", "list"]),
        ({"patterns": [{"value_pattern": {"greater_than": 1}}]}, ["n"]),
        ({"patterns": [{"value_pattern": {"less_than": 2}}]}, ["id"]),
        ({"patterns": [{"value_pattern": {"between": [1, 5]}}]}, ["id", "n"]),
        ({"patterns": [{"value_pattern": {"equals": 1.0}}]}, ["id"]),
        ({"patterns": [{"value_pattern": {"contains": "t"}}]}, ["meta_at"]),
        ({"patterns": [{"key_pattern": {"starts_with": "m"}, "value_pattern": {"regex": "u|x"}}]},
         ["meta_by"]),
    ],
)  # fmt: skip
def test_fields_are_kept_by_pattern(arguments: Any, names: list[str]) -> None:
    assert list(one([{"filter_fields": arguments}], WIDE)) == names


def test_patterns_reach_into_objects_if_they_shall() -> None:
    meta = {"patterns": [{"key_pattern": {"starts_with": "meta_"}}], "deep": True}

    kept = one([{"filter_fields": {**meta, "keep_fields": ["in.id"]}}], WIDE)
    left = one([{"filter_fields": {**meta, "include_matching": False}}], WIDE)

    assert kept == {
        "meta_at": "t", "meta_by": "u", "in": {"id": 2, "meta_x": {"y": 1}},
        "list": [{"meta_z": 1}],
    }  # fmt: skip
    assert left == {
        "id": 1, "n": 5, "ok": True, "none": None, "in": {"id": 2, "other": 3},
        "list": [{}, {"q": 1}, 7],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ({"field": "status", "not": {"equals": "test"}}, [1, 2, 3]),
        ({"field": "status", "equals": "paid"}, [1]),
        ({"field": "amount", "greater": 5}, [1]),
        ({"field": "amount", "less": 5, "is_number": True}, [2]),
        ({"field": "amount", "between": [1, 10]}, [1, 2]),
        ({"field": "status", "contains": "ai"}, [1]),
        ({"field": "status", "regex": "^(paid|new)$"}, [1, 2]),
        ({"field": "amount", "is_string": True}, [3]),
        ({"field": "amount", "is_number": False}, [0, 3]),
        ({"field": "customer.city", "is_not_null": True}, [2]),
        ({"field": "customer", "is_null": True}, [0, 1, 3]),
        ({"field": "customer", "exists": False}, [0, 1]),
        ({"or": [{"field": "amount", "greater_than": 5}, {"field": "status", "equals": "new"}]},
         [1, 2]),
        ({"field": "status", "or": [{"equals": "new"}, {"equals": "test"}]}, [0, 2]),
        ({"and": [{"field": "status", "is_string": True}, {"not": {"field": "amount", "less": 9}}]},
         [0, 1]),
        ({"field": "status", "greater": "o"}, [0, 1]),
    ],
)  # fmt: skip
def test_messages_are_filtered(where: Any, kept: list[int]) -> None:
    documents: list[Document] = [
        {"n": 0, "status": "test"},
        {"n": 1, "status": "paid", "amount": 9.5},
        {"n": 2, "status": "new", "amount": 1, "customer": {"city": "x"}},
        {"n": 3, "amount": "7", "customer": None},
    ]

    found = run([{"filter_messages": {"where": where}}], *documents)

    assert [json.loads(value)["n"] for value in found.values.to_pylist()] == kept
    assert (found.rejected, found.filtered) == ((), 4 - len(kept))
    good = range(4) if found.good_rows is None else found.good_rows.to_pylist()
    assert list(good) == kept


@pytest.mark.parametrize(
    ("to", "value", "result"),
    [
        ("string", 5, "5"),
        ("string", 1.50, "1.5"),
        ("string", True, "true"),
        ("string", {"a": [1]}, '{"a":[1]}'),
        ("integer", "42", 42),
        ("integer", 42.0, 42),
        ("integer", True, 1),
        ("number", "1.25", 1.25),
        ("number", "7", 7),
        ("boolean", "false", False),
        ("boolean", 1, True),
        ("timestamp", "2026-03-29T03:00:00.5+02:00", "2026-03-29T01:00:00.500000Z"),
        ("timestamp", "2026-03-29T01:00:00", "2026-03-29T01:00:00.000000Z"),
        ("timestamp", 1774746000123, "2026-03-29T01:00:00.123000Z"),
        ("date", "2026-03-29T23:30:00-01:00", "2026-03-30"),
        ("date", "2026-03-29", "2026-03-29"),
        ("json", '{"a": 1}', {"a": 1}),
        ("integer", None, None),
    ],
)
def test_values_are_cast(to: str, value: Any, result: Any) -> None:
    found = one([{"cast_fields": {"fields": [{"key": "v", "to": to}]}}], {"v": value})

    assert found == {"v": result}
    assert type(found["v"]) is type(result)


def test_numbers_survive_transforms_to_the_last_digit() -> None:
    text = b'{"price":12345678901234567.89,"count":123456789012345678901234567890,"x":0.1}'
    transforms = [{"delete_fields": {"fields": ["x"]}}]
    data = pa.array([text], pa.binary())

    def value(schema: str | None) -> Any:
        decoder = decode.build(declare(transforms, schema))
        assert decoder is not None
        return decoder.decode(data, messages(1)).values[0].as_py()

    assert value(None) == '{"price":12345678901234567.89,"count":123456789012345678901234567890}'
    found = value("price DECIMAL(20,2), count DECIMAL(38,0)")
    assert str(found["price"]) == "12345678901234567.89"
    assert str(found["count"]) == "123456789012345678901234567890"
    assert value("price DOUBLE") == {"price": 12345678901234567.89}


def test_values_come_from_the_message_and_again_the_same() -> None:
    kinds = [
        "broker_timestamp_millis", "broker_timestamp_micros", "broker_timestamp_nanos",
        "broker_timestamp_seconds", "origin_timestamp_micros", "offset", "partition", "message_id",
        "uuid_v5", "stream", "topic",
    ]  # fmt: skip
    fields = [{"key": kind, "value": {"computed": kind}} for kind in kinds]
    transforms = [{"add_fields": {"fields": fields}}]

    first, again = (run(transforms, {}, {}).values.to_pylist() for _ in range(2))

    assert first == again
    _, second = map(json.loads, first)
    assert uuid.UUID(second.pop("uuid_v5")).version == 5
    assert second == {
        "broker_timestamp_millis": TIMESTAMP_US // 1000,
        "broker_timestamp_micros": TIMESTAMP_US + 1,
        "broker_timestamp_nanos": (TIMESTAMP_US + 1) * 1000,
        "broker_timestamp_seconds": TIMESTAMP_US // 1_000_000,
        "origin_timestamp_micros": ORIGIN_US + 1,
        "offset": FIRST_OFFSET + 1,
        "partition": PARTITION,
        "message_id": f"{2:032x}",
        "stream": STREAM,
        "topic": TOPIC,
    }
    assert INCARNATION not in first[1]
    assert payload.unrepeatable(declare(transforms)) == ()


def test_values_that_a_replay_changes_are_named() -> None:
    kinds = ["date_time", "timestamp_millis", "uuid_v4", "uuid_v7", "offset"]
    fields = [{"key": kind, "value": {"computed": kind}} for kind in kinds]
    transforms = [{"flatten": {}}, {"update_fields": {"fields": fields}}]

    found = one(transforms, {})

    assert [uuid.UUID(found[kind]).version for kind in ("uuid_v4", "uuid_v7")] == [4, 7]
    assert uuid.UUID(found["uuid_v7"]).variant == uuid.RFC_4122
    assert abs(
        dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(found["date_time"])
    ) < dt.timedelta(hours=1)
    assert payload.unrepeatable(declare(transforms)) == tuple(
        f"transforms[1].update_fields.fields[{number}]: {kind}"
        for number, kind in enumerate(kinds[:-1])
    )


def pair(key: bytes, kind: int, value: bytes, key_kind: int = 2) -> bytes:
    return (
        struct.pack("<BI", key_kind, len(key)) + key + struct.pack("<BI", kind, len(value)) + value
    )


def test_headers_become_fields() -> None:
    block = (
        pair(b"kind", 2, b"order") + pair(b"count", 11, struct.pack("<I", 7))
        + pair(b"raw", 1, b"\xff") + pair(b"\x01\0\0\0", 3, b"\x01", key_kind=6)
    )  # fmt: skip
    every = {"headers_to_fields": {}}
    some = {"headers_to_fields": {"headers": ["k*", "count"], "into": "headers"}}

    assert one([every], {"a": 1}, headers=[block]) == {
        "a": 1, "iggy_kind": "order", "iggy_count": 7, "iggy_raw": "/w==",
        "iggy_int32:01000000": True,
    }  # fmt: skip
    assert one([some], {}, headers=[block]) == {"headers": {"kind": "order", "count": 7}}
    assert one([every], {"a": 1}) == {"a": 1}


def test_metadata_becomes_fields() -> None:
    assert one([{"metadata_to_fields": {}}], {}) == {
        "iggy_id": f"{1:032x}", "iggy_offset": FIRST_OFFSET, "iggy_timestamp": TIMESTAMP_US,
        "iggy_origin_timestamp": ORIGIN_US, "iggy_stream": STREAM, "iggy_topic": TOPIC,
        "iggy_partition_id": PARTITION,
    }  # fmt: skip
    chosen = {"fields": ["timestamp", "offset"], "prefix": "m_", "times": "text"}
    assert one([{"metadata_to_fields": chosen}], {}) == {
        "m_timestamp": "2026-03-29T01:00:00.123456Z", "m_offset": FIRST_OFFSET,
    }  # fmt: skip


def test_masks_are_hashes_with_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = os.urandom(16).hex()
    (tmp_path / "key").write_text(f"{key}\n")
    monkeypatch.setenv("MASK_KEY", key)
    document = {"card": "4111", "n": [1, 2], "none": None}

    def masked(**source: str) -> Any:
        return one([{"mask_fields": {"fields": ["card", "n", "none"], "sha256": source}}], document)

    by_file, by_variable = masked(keyPath=str(tmp_path / "key")), masked(keyEnv="MASK_KEY")

    assert by_file == by_variable
    assert by_file["card"] == hmac.new(key.encode(), b"4111", hashlib.sha256).hexdigest()
    assert by_file["n"] == hmac.new(key.encode(), b"[1,2]", hashlib.sha256).hexdigest()
    assert by_file["none"] is None
