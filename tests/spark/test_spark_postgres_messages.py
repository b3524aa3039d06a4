"""Values, decoding and the places of batches, without a server."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import pytest
from psycopg import postgres as known

from iggy_spark.errors import SinkError
from iggy_spark.sources.postgres_changes import IDLE_BYTES, Look, decide
from iggy_spark.sources.postgres_decode import Begin, Change, Column, Decoder, Relation, Unchanged
from iggy_spark.sources.postgres_messages import (
    BATCH_BYTES,
    BATCH_ROWS,
    Changes,
    Message,
    batches,
    lsn_number,
    lsn_text,
)
from iggy_spark.sources.postgres_slot import NAME_CHARS_MAX, default_name
from iggy_spark.sources.postgres_values import Types, UserType, array_of, text

TYPES = Types()
BEGIN = Begin(0x1_926938, 790_000_000_123_456, 729)


def written(kind: str, value: str) -> Any:
    """What becomes of the text of a type that comes with the server; numbers exactly."""
    item = known.types[kind.removesuffix("[]")]
    oid = item.array_oid if kind.endswith("[]") else item.oid
    return json.loads(TYPES.encoder(oid)(value.encode()), parse_float=Decimal)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("bool", "t", True),
        ("bool", "f", False),
        ("int2", "-32768", -32768),
        ("int8", "9223372036854775807", 9223372036854775807),
        ("float8", "0.1", Decimal("0.1")),
        ("float8", "1e+300", Decimal("1e300")),
        ("float4", "-0", 0),
        ("float8", "NaN", "NaN"),
        ("float8", "-Infinity", "-Infinity"),
        ("numeric", "1.50", "1.50"),
        ("numeric", "NaN", "NaN"),
        ("numeric", "123456789012345678901234567890.000000001",
         "123456789012345678901234567890.000000001"),
        ("text", 'a "b" \\ \n é \u2028', 'a "b" \\ \n é \u2028'),
        ("bpchar", "ab  ", "ab  "),
        ("bytea", "\\x00ff10", "AP8Q"),
        ("bytea", "\\x", ""),
        ("timestamptz", "2026-03-29 00:59:59.999999+00", "2026-03-29T00:59:59.999999Z"),
        ("timestamp", "2026-03-29 00:59:59", "2026-03-29T00:59:59"),
        ("timestamptz", "infinity", "infinity"),
        ("timestamp", "0044-03-15 12:00:00 BC", "0044-03-15 12:00:00 BC"),
        ("date", "2026-03-29", "2026-03-29"),
        ("interval", "P1DT2H", "P1DT2H"),
        ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("jsonb", '{"a": [1, 2.50, null]}', {"a": [1, Decimal("2.50"), None]}),
        ("json", '"\\ud83d\\ude00"', "\U0001f600"),
        ("int4[]", "{}", []),
        ("int4[]", "{1,NULL,3}", [1, None, 3]),
        ("int4[]", "[0:1]={1,2}", [1, 2]),
        ("int4[]", "{{1,2},{3,NULL}}", [[1, 2], [3, None]]),
        ("text[]", '{a,"b,c","NULL",NULL,"","q\\"\\\\z"}', ["a", "b,c", "NULL", None, "", 'q"\\z']),
        ("bytea[]", '{"\\\\x00ff"}', ["AP8="]),
        ("timestamptz[]", '{"2026-03-29 00:59:59+00"}', ["2026-03-29T00:59:59Z"]),
        ("jsonb[]", '{"{\\"a\\": 1}"}', [{"a": 1}]),
        ("box[]", "{(1,1),(0,0);(2,2),(1,1)}", ["(1,1),(0,0)", "(2,2),(1,1)"]),
    ],
)  # fmt: skip
def test_a_value_keeps_all_that_it_says(kind: str, value: str, wanted: object) -> None:
    assert written(kind, value) == wanted


def test_domains_are_what_is_below_them_and_arrays_of_them_too() -> None:
    int4 = known.types["int4"].oid
    types = Types([UserType(20_001, int4, True, ","), UserType(20_002, 20_001, False, ",")])

    assert types.encoder(20_001)(b"5") == b"5"
    assert types.encoder(20_002)(b"{5,NULL}") == b"[5,null]"
    assert types.encoder(29_999)(b"{of nobody}") == b'"{of nobody}"'


def test_an_element_with_many_lines_stays_one() -> None:
    assert json.loads(array_of(text)(b'{"a\nb",c}')) == ["a\nb", "c"]


@pytest.mark.parametrize("lsn", ["0/0", "0/16B3748", "1/0", "FFFFFFFF/FFFFFFFF"])
def test_a_place_in_the_log_is_a_number_and_back(lsn: str) -> None:
    assert lsn_text(lsn_number(lsn)) == lsn


@pytest.mark.parametrize(
    ("look", "wanted"),
    [
        (Look(9, 3, fitting=700, first=300), 700),  # as many as fit
        (Look(90, 50, fitting=None, first=900), 900),  # one large transaction: as a whole
        (Look(90, 50, fitting=200, first=900), 900),  # behind some without a change of ours
        (Look(100, 0, fitting=None, first=None), None),  # all before the start: look further
        (Look(0, 0, fitting=None, first=None), 100),  # nothing is new
        (Look(9, 0, fitting=400, first=None), 100),
    ],
)
def test_where_a_batch_ends(look: Look, wanted: int | None) -> None:
    assert decide(100, 1000, look, asked=100) == wanted


def test_a_log_of_others_moves_the_place_too() -> None:
    nothing = Look(0, 0, None, None)

    assert decide(100, 100 + IDLE_BYTES - 1, nothing, asked=9) == 100
    assert decide(100, 100 + IDLE_BYTES, nothing, asked=9) == 100 + IDLE_BYTES


def test_names_of_slots_are_allowed_and_differ() -> None:
    names = ["orders", "shop/orders.in", "shop/orders_in", "Orders", "x" * 200, "x" * 201, "ä"]
    made = [default_name(name) for name in names]

    assert made[0] == "iggy_orders"
    assert len(set(made)) == len(names)
    assert all(len(name) <= NAME_CHARS_MAX for name in made)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for name in made)


def test_a_message_of_another_version_is_named() -> None:
    with pytest.raises(SinkError, match="pgoutput sent 'S'"):
        list(Decoder().read([b"S\0\0\0\1\1"]))


def test_types_origins_and_strange_messages_are_passed_over() -> None:
    begin = b"B" + struct.pack(">QqI", 5, 6, 7)

    assert list(Decoder().read([b"Y....", b"O....", begin, b"M...."])) == [Begin(5, 6, 7)]


def relation(identity: str = "d") -> Relation:
    int4, words = known.types["int4"].oid, known.types["text"].oid
    whole = identity == "f"
    columns = (Column("id", int4, True), Column("a", words, whole), Column("b", words, whole))
    return Relation(1, "public", "orders", identity, columns)


def bodies(change: Change, keys: dict[str, tuple[str, ...]] | None = None) -> list[dict[str, Any]]:
    made = Changes("shop/in", TYPES, keys or {})
    return [json.loads(message.payload) for message in made.messages(BEGIN, 3, change)]


def test_an_update_tells_what_it_does_not_know() -> None:
    (body,) = bodies(Change("update", relation(), (b"1", None, Unchanged.VALUE)))

    assert body == {
        "op": "update", "table": "public.orders", "key": {"id": 1}, "after": {"id": 1, "a": None},
        "unchanged": ["b"], "lsn": "0/1926938", "index": 3, "time": "2025-01-12T12:26:40.123456Z",
    }  # fmt: skip


def test_a_large_value_that_stays_is_taken_from_the_old_row() -> None:
    change = Change(
        "update", relation("f"), (b"1", b"n", Unchanged.VALUE), (b"1", b"o", b"large"), True
    )

    (body,) = bodies(change, {"public.orders": ("id",)})

    assert body["after"] == {"id": 1, "a": "n", "b": "large"}
    assert body["before"] == {"id": 1, "a": "o", "b": "large"}
    assert body["key"] == {"id": 1}
    assert "unchanged" not in body


def test_a_large_key_that_stays_is_told() -> None:
    change = Change("update", relation(), (Unchanged.VALUE, b"n", None), (b"1", None, None))

    (body,) = bodies(change)

    assert (body["op"], body["key"], body["after"]["id"]) == ("update", {"id": 1}, 1)


def test_a_row_with_another_key_is_two_messages_with_ids_of_their_own() -> None:
    change = Change("update", relation(), (b"2", b"n", None), (b"1", None, None))
    made = list(Changes("shop/in", TYPES, {}).messages(BEGIN, 0, change))

    told = [json.loads(message.payload) for message in made]

    assert [message.key for message in made] == [b'{"id":1}', b'{"id":2}']
    assert [one["op"] for one in told] == ["delete", "update"]
    assert (told[0]["before"], told[1]["before"]) == ({"id": 1}, {"id": 1})
    assert len({message.id for message in made}) == 2


def test_rows_without_a_key_go_to_one_partition() -> None:
    change = Change("delete", relation("f"), old=(b"1", b"a", None), old_is_whole=True)

    (body,) = bodies(change)

    assert body["key"] == {}
    assert body["before"] == {"id": 1, "a": "a", "b": None}


def test_histories_that_part_have_ids_of_their_own() -> None:
    change = Change("insert", relation(), (b"1", b"a", None))
    made = Changes("shop/in", TYPES, {})
    begins = [BEGIN, Begin(BEGIN.lsn, BEGIN.time_us + 1, BEGIN.xid), Begin(1, BEGIN.time_us, 729)]

    ids = [message.id for begin in begins for message in made.messages(begin, 3, change)]

    assert len(set(ids)) == 3


def test_a_batch_is_bounded_by_rows_and_by_bytes() -> None:
    small = [Message(b"i" * 16, b"k", b"p")] * (BATCH_ROWS + 1)
    large = [Message(b"i" * 16, b"k", b"p" * (BATCH_BYTES // 2))] * 3

    assert [batch.num_rows for batch in batches(small)] == [BATCH_ROWS, 1]
    assert [batch.num_rows for batch in batches(large)] == [2, 1]
