"""Sink Mongo against a played server: what every sink promises, documents, ids, sizes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from bson.decimal128 import Decimal128

import mongo_cases
from iggy_spark.sinks import mongo_bulk, mongo_documents
from iggy_spark.sinks.base import Portion
from mongo_cases import CollectionTarget, of_values, sent, write
from played_mongo import PlayedMongo
from sink_cases import INCARNATION, NEXT_LIFE, PlayedTask, declare, portions, wanted
from sink_contract import SinkContract, Target, batch, every

server, target = mongo_cases.server, mongo_cases.target


class TestContract(SinkContract):
    """What every sink promises."""


class TestContractOfOwnIds(SinkContract):
    """The same with ids of a field."""

    @pytest.fixture
    def target(self, server: PlayedMongo) -> CollectionTarget:
        return CollectionTarget(server, id_from="Field", id_field="customer")

    def test_all_messages_of_a_batch_arrive(self, target: Target) -> None:
        """Both partitions have the same customers, so that the later ones stay."""
        batch(target, wanted(0, 10), wanted(5, 9, 1))

        assert target.rows() == every(0, 0, 5) + every(0, 9, 10) + every(1, 5, 9)

    def test_a_repeated_batch_changes_nothing(self, target: Target) -> None:
        for _ in range(2):
            batch(target, wanted(0, 6), wanted(0, 3, 1))

            assert target.rows() == every(0, 3, 6) + every(1, 0, 3)


def test_a_document_lies_under_the_place_of_its_message(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    write(target, 2)

    assert list(server.collections["orders"].values())[1] == {
        "_id": f"{INCARNATION}-0-1",
        "number": 1,
        "month": 2,
        "customer": "c1",
        "amount": Decimal128("1.25"),
        "at": datetime.datetime(2026, 3, 29, 0, 59, 59, 999000),  # noqa: DTZ001 - as bson reads it
        "iggy_partition_id": 0,
        "iggy_offset": 1,
        "iggy_timestamp": datetime.datetime(2026, 12, 31, 23, 59, 59, 999000),  # noqa: DTZ001
    }


def test_dead_letters_that_come_back_keep_their_place(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    def letters() -> Iterator[Portion]:
        for partition in (0, 1):
            for portion in portions(wanted(2, 4)):
                yield replace(portion, messages=replace(portion.messages, partition=partition))

    target.sink().write_task(wanted(9, 13, incarnation=NEXT_LIFE), letters(), PlayedTask())

    assert list(server.collections["orders"]) == [
        f"{INCARNATION}-{place}" for place in ("0-2", "0-3", "1-2", "1-3")
    ]


def test_types_of_bson(server: PlayedMongo, target: CollectionTarget) -> None:
    text = (
        "b BINARY, d DATE, n TIMESTAMP_NTZ, f DOUBLE, a ARRAY<BIGINT>, m MAP<INT,DECIMAL(38,2)>, "
        "s STRUCT<x: DATE, y: BIGINT>"
    )
    value = {"b": "AAH/", "d": "1600-02-29", "n": "2026-01-01T00:00:00", "f": 0.1, "a": [1, None],
             "m": {"1": "1.25"}, "s": {"x": None, "y": 2**60}}  # fmt: skip
    wide = {"m": {"1": "9" * 36 + ".25"}}
    texts = [json.dumps(one).encode() for one in (value, wide)]

    task = write(target, 2, payload=declare(text=text), made=lambda number: texts[number])

    (found,) = server.documents()
    assert [found[name] for name in "bdnfams"] == [
        b"\x00\x01\xff",
        datetime.datetime(1600, 2, 29),  # noqa: DTZ001
        datetime.datetime(2026, 1, 1),  # noqa: DTZ001
        0.1,
        [1, None],
        {"1": Decimal128("1.25")},
        {"x": None, "y": 2**60},
    ]
    assert [(bad.offset, bad.kind) for bad in task.refusals] == [(1, "OverflowError")]
    assert "has more than 34 digits" in task.refusals[0].message


def test_bytes_and_texts(server: PlayedMongo, target: CollectionTarget) -> None:
    write(target, 1, payload=declare("Raw", None), made=lambda number: b"\xff\x00")
    assert server.documents()[0]["payload"] == b"\xff\x00"

    server.collections.clear()
    write(target, 1, payload=declare("Text", None), made=lambda number: b"\0x")
    assert server.documents()[0]["value"] == "\0x"


def test_json_without_a_schema_is_the_document_itself(
    server: PlayedMongo, target: CollectionTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_documents, "DOCUMENT_BYTES_MAX", 500)
    values = [
        {"a": {"b": [1, 2.5, None, True]}, "iggy_offset": "mine"},
        {"n": 2**63},
        {"a\0b": 1},
        {"_id": 5},
        {"t": "x" * 500},
    ]
    task = write(target, 5, **of_values(*values))

    (found,) = server.documents()
    assert (found["a"], found["iggy_offset"]) == ({"b": [1, 2.5, None, True]}, 0)
    assert [(bad.offset, bad.kind) for bad in task.refusals] == [
        (1, "OverflowError"),
        (2, "InvalidDocument"),
        (3, "OwnId"),
        (4, "TooLarge"),
    ]


def test_ids_of_a_field(server: PlayedMongo) -> None:
    target = CollectionTarget(server, id_from="Field", id_field="key")
    values = [{"key": "a"}, {}, {"key": 7}, {"key": "a", "new": True}, {"key": 1.5}]

    task = write(target, 5, **of_values(*values))

    assert {id_: one["iggy_offset"] for id_, one in server.collections["orders"].items()} == {
        "a": 3,
        7: 2,
    }
    assert [(bad.offset, bad.kind) for bad in task.refusals] == [
        (1, "MissingId"),
        (4, "MissingId"),
    ]
    assert not target.sink(declare(text=None)).exactly_once


def test_bulks_have_a_size(
    server: PlayedMongo, target: CollectionTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_bulk, "BULK_ROWS_MAX", 2)
    write(target, 6, size=6)
    assert sent(server) == [[0, 1], [2, 3], [4, 5]]

    monkeypatch.setattr(mongo_bulk, "BULK_BYTES_MAX", 1)
    server.writes.clear()
    write(target, 3, size=6)
    assert sent(server) == [[0], [1], [2]]
