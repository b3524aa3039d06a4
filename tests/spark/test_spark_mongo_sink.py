"""Sink Mongo against a played server: what every sink promises, documents, ids, errors."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson.decimal128 import Decimal128

from iggy_spark import blocks
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.sinks import mongo, mongo_documents, mongo_server
from iggy_spark.sinks.base import Portion
from iggy_spark.sinks.mongo import MongoSink
from played_mongo import CLOSED, LOST, Document, PlayedMongo
from quick_retry import quick
from sink_cases import INCARNATION, NEXT_LIFE, PlayedTask, declare, portions, wanted
from sink_contract import REFUSED, Row, SinkContract, Target, batch
from sink_contract import every as every_row
from tls_front import authority, tls_front

INVALID = {
    "code": 121,
    "errmsg": "Document failed validation",
    "errInfo": {"details": {"operatorName": "$jsonSchema", "missingProperties": ["customer"]}},
}
AWAY = {"ok": 0, "code": 189, "errmsg": "primary stepped down", "codeName": "PrimarySteppedDown"}
LABELLED = {"ok": 0, "code": 4711, "errmsg": "busy", "errorLabels": ["RetryableWriteError"]}
UNSURE = {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}}


class CollectionTarget:
    """A collection."""

    def __init__(self, server: PlayedMongo, *, seconds: float = 20.0, **block: Any) -> None:
        self.server, self.seconds, self.block = server, seconds, block

    def sink(self, payload: Payload | None = None) -> MongoSink:
        where = {"url": self.server.url, "database": "shop", "collection": "orders"}
        return MongoSink(
            blocks.Mongo(**{**where, **self.block}), payload or declare(), retry=quick(self.seconds)
        )

    def rows(self) -> list[Row]:
        found = self.server.documents()
        return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in found)

    def refusing(self) -> Target:
        self.server.judge = lambda document: INVALID if document["iggy_offset"] == REFUSED else None
        return self

    def away(self) -> Target:
        self.server.faults += [AWAY] * 1000
        return CollectionTarget(self.server, seconds=0.2, **self.block)


@pytest.fixture
def server() -> Iterator[PlayedMongo]:
    with PlayedMongo() as running:
        yield running


@pytest.fixture
def target(server: PlayedMongo) -> CollectionTarget:
    return CollectionTarget(server)


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

        assert target.rows() == every_row(0, 0, 5) + every_row(0, 9, 10) + every_row(1, 5, 9)

    def test_a_repeated_batch_changes_nothing(self, target: Target) -> None:
        for _ in range(2):
            batch(target, wanted(0, 6), wanted(0, 3, 1))

            assert target.rows() == every_row(0, 3, 6) + every_row(1, 0, 3)


def write(target: CollectionTarget, end: int = 6, **more: Any) -> PlayedTask:
    task = PlayedTask()
    span = wanted(0, end)
    written = target.sink(more.get("payload")).write_task(span, portions(span, **more), task)
    assert written.rows == end - len(task.refusals)
    return task


def sent(server: PlayedMongo) -> list[list[int]]:
    """The offsets in each command."""
    return [
        [one.get("u", one)["iggy_offset"] for one in command.get("documents") or command["updates"]]
        for command in server.writes
    ]


def every(*values: Document) -> dict[str, Any]:
    """How to send these values, without a schema."""
    texts = [json.dumps(value).encode() for value in values]
    return {"payload": declare(text=None), "made": lambda number: texts[number]}


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
    task = write(target, 5, **every(*values))

    (found,) = server.documents()
    assert (found["a"], found["iggy_offset"]) == ({"b": [1, 2.5, None, True]}, 0)
    assert [(bad.offset, bad.kind) for bad in task.refusals] == [
        (1, "OverflowError"),
        (2, "InvalidDocument"),
        (3, "OwnId"),
        (4, "TooLarge"),
    ]


@pytest.mark.parametrize("fault", [LOST, CLOSED, AWAY, LABELLED, UNSURE])
@pytest.mark.parametrize("block", [{}, {"id_from": "Field", "id_field": "customer"}])
def test_trouble_is_waited_for(
    fault: str | Document, block: dict[str, Any], server: PlayedMongo
) -> None:
    target = CollectionTarget(server, **block)
    server.faults += [fault, fault]

    task = write(target, 3)

    assert target.rows() == [(0, 0), (0, 1), (0, 2)]
    assert task.refusals == []
    assert len(server.writes) == 3


def test_only_what_was_put_off_is_sent_again(server: PlayedMongo, target: CollectionTarget) -> None:
    busy = [1]
    conflict = {"code": 112, "errmsg": "WriteConflict"}

    def judge(document: Document) -> Document | None:
        return conflict if document["iggy_offset"] == 1 and busy and busy.pop() else None

    server.judge = judge
    task = write(target, 3)

    assert sent(server) == [[0, 1, 2], [1]]
    assert task.refusals == []


def test_a_refusal_is_told_with_the_servers_words(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    server.judge = lambda document: INVALID if document["iggy_offset"] == 1 else None

    task = write(target, 3)

    (refusal,) = task.refusals
    assert (refusal.offset, refusal.stage) == (1, "write")
    assert refusal.kind == "DocumentValidationFailure"
    assert refusal.message.startswith("121 Document failed validation {'details': ")
    assert len(server.writes) == 1  # not tried again


def test_a_unique_index_of_somebody_else_refuses(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    """Not every duplicate is a document that is there already."""
    taken = {"code": 11000, "errmsg": "E11000 duplicate key error collection: shop.orders index: n"}
    told = taken | {"keyPattern": {"number": 1}}
    server.judge = lambda document: {0: taken, 2: told}.get(document["iggy_offset"])

    task = write(target, 3)

    assert [(bad.offset, bad.kind) for bad in task.refusals] == [
        (0, "DuplicateKey"),
        (2, "DuplicateKey"),
    ]


def test_a_server_that_does_not_say_which_index_is_asked(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    write(target, 2)
    vague = {"code": 11000, "errmsg": "E11000 duplicate key error collection: shop.orders"}
    server.judge = lambda document: vague if document["iggy_offset"] in (1, 2) else None

    task = write(target, 4)

    assert [bad.offset for bad in task.refusals] == [2]
    assert target.rows() == [(0, 0), (0, 1), (0, 3)]


def test_ids_of_a_field(server: PlayedMongo) -> None:
    target = CollectionTarget(server, id_from="Field", id_field="key")
    values = [{"key": "a"}, {}, {"key": 7}, {"key": "a", "new": True}, {"key": 1.5}]

    task = write(target, 5, **every(*values))

    assert {id_: one["iggy_offset"] for id_, one in server.collections["orders"].items()} == {
        "a": 3,
        7: 2,
    }
    assert [(bad.offset, bad.kind) for bad in task.refusals] == [
        (1, "MissingId"),
        (4, "MissingId"),
    ]
    assert not target.sink(declare(text=None)).exactly_once


def test_the_last_message_of_an_id_stays_the_last(server: PlayedMongo) -> None:
    """One that is put off, or refused, must not overtake or hold up others."""
    target = CollectionTarget(server, id_from="Field", id_field="_id")
    busy = [1]
    taken = {"code": 11000, "keyPattern": {"_id": 1}, "errmsg": "another one was quicker"}

    def judge(document: Document) -> Document | None:
        if document["iggy_offset"] == 1:
            return INVALID
        return taken if busy and busy.pop() else None

    server.judge = judge
    task = write(target, 3, **every({"_id": "a"}, {"_id": "a"}, {"_id": "a"}))

    assert server.collections["orders"]["a"]["iggy_offset"] == 2
    assert [bad.offset for bad in task.refusals] == [1]
    assert sent(server) == [[0, 1, 2], [0, 1, 2], [2]]


def test_bulks_have_a_size(
    server: PlayedMongo, target: CollectionTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo, "BULK_ROWS_MAX", 2)
    write(target, 6, size=6)
    assert sent(server) == [[0, 1], [2, 3], [4, 5]]

    monkeypatch.setattr(mongo, "BULK_BYTES_MAX", 1)
    server.writes.clear()
    write(target, 3, size=6)
    assert sent(server) == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("code", "field"), [(13, "mongo.credentialsPath"), (26, "mongo.collection")]
)
def test_settings_of_the_server_are_no_bad_message(
    code: int, field: str, server: PlayedMongo, target: CollectionTarget
) -> None:
    server.faults.append({"ok": 0, "code": code, "errmsg": "no"})
    task, span = PlayedTask(), wanted(0, 3)

    with pytest.raises(SinkError, match=f"^{field}: "):
        target.sink().write_task(span, portions(span), task)

    assert task.refusals == []
    assert len(server.writes) == 1


def test_the_login_is_checked(server: PlayedMongo, tmp_path: Path) -> None:
    server.login = ("writer", "right secret")
    (tmp_path / "username").write_text("writer\n")
    (tmp_path / "password").write_text("wrong secret")
    target = CollectionTarget(server, credentials_path=str(tmp_path))

    with pytest.raises(OptionError, match=r"^mongo\.credentialsPath: .* let this login") as error:
        target.sink().check()

    assert "wrong secret" not in str(error.value)
    (tmp_path / "password").write_text("right secret\n")
    target.sink().check()
    write(target, 3)
    assert len(server.documents()) == 3
    (tmp_path / "username").unlink()
    with pytest.raises(OptionError, match=r"mongo\.credentialsPath: needs the files username and"):
        target.sink().check()


def test_the_authority_is_trusted_and_no_other(
    server: PlayedMongo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongo_server, "CONNECT_TIMEOUT_MS", 500)
    ours, other = (authority(tmp_path / name, "127.0.0.1") for name in ("ours", "other"))
    ca = tmp_path / "ca"
    ca.mkdir()
    with tls_front(server.address, ours) as front:
        url = f"mongodb://{front.address}/?directConnection=true"
        target = CollectionTarget(server, url=url, ca_path=str(ca))
        (ca / "ca.crt").write_text(ours.pem)
        target.sink().check()
        write(target, 3)

        (ca / "ca.crt").write_text(other.pem)
        with pytest.raises(SinkError, match="certificate verify failed"):
            target.sink().check()

        (ca / "ca.crt").write_text("nothing")
        with pytest.raises(OptionError, match=r"^mongo\.caPath: "):
            target.sink().check()
    assert len(server.documents()) == 3


@pytest.mark.parametrize("kind", ["view", "timeseries"])
def test_a_collection_must_be_a_plain_one(
    kind: str, server: PlayedMongo, target: CollectionTarget
) -> None:
    target.sink().check()  # there is none yet
    server.kinds["orders"] = "collection"
    target.sink().check()

    server.kinds["orders"] = kind
    with pytest.raises(OptionError, match=rf"^mongo\.collection: shop\.orders is a {kind}"):
        target.sink().check()


def test_the_check_does_not_wait_for_a_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mongo_server, "CONNECT_TIMEOUT_MS", 300)
    with PlayedMongo() as gone:
        pass

    with pytest.raises(SinkError, match=gone.address) as error:
        CollectionTarget(gone, seconds=600).sink().check()

    assert "Topology" not in str(error.value)


@pytest.mark.parametrize(
    ("block", "payload", "field"),
    [
        ({"id_from": "Field"}, declare(), r"mongo\.idField"),
        ({"id_field": "customer"}, declare(), r"mongo\.idField"),
        ({"id_from": "Field", "id_field": "amount"}, declare(), r"mongo\.idField"),
        ({}, declare(text="_id BIGINT"), r"mongo\.idField"),
        ({"url": "mongodb://writer:secret@mongo"}, declare(), r"^mongo\.url: a login stands in it"),
    ],
)
def test_settings_that_cannot_be(
    block: dict[str, Any], payload: Payload, field: str, server: PlayedMongo
) -> None:
    with pytest.raises(OptionError, match=field):
        CollectionTarget(server, **block).sink(payload)


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"url": "mongodb://h:x"}, r"mongo\.url"),
        ({"database": "a.b"}, r"mongo\.collection"),
        ({"ca_path": "/nowhere"}, r"mongo\.caPath"),
    ],
)
def test_settings_that_the_check_finds(
    block: dict[str, Any], field: str, server: PlayedMongo
) -> None:
    with pytest.raises(OptionError, match=field):
        CollectionTarget(server, **block).sink().check()
