"""Sink Elasticsearch against a played one: what every sink promises, and what bulks need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iggy_spark import blocks
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.sinks import elasticsearch
from iggy_spark.sinks.base import Portion
from iggy_spark.sinks.elasticsearch import ElasticsearchSink
from iggy_spark.sinks.elasticsearch_index import IndexName
from played_server import LOST, Reply
from played_targets import Document, PlayedElasticsearch
from quick_retry import quick
from sink_cases import INCARNATION, NEXT_LIFE, TIMESTAMP_US, PlayedTask, declare, portions, wanted
from sink_contract import REFUSED, Row, SinkContract, Target

REJECTED = (429, "es_rejected_execution_exception", "queue capacity = 200")


class ElasticsearchTarget:
    """An index. The sink's two addresses lead to one server."""

    def __init__(self, server: PlayedElasticsearch, *, seconds: float = 20.0, **block: Any) -> None:
        self.server, self.seconds, self.block = server, seconds, block

    def sink(self, payload: Payload | None = None) -> ElasticsearchSink:
        urls = [self.server.url, self.server.url]
        block = blocks.Elasticsearch(**{"urls": urls, "index": "orders", **self.block})
        return ElasticsearchSink(block, payload or declare(), retry=quick(self.seconds))

    def rows(self) -> list[Row]:
        found = self.server.documents()
        return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in found)

    def refusing(self) -> Target:
        def judge(id_: str, document: Document) -> tuple[int, str, str] | None:
            if document["iggy_offset"] != REFUSED:
                return None
            return 400, "document_parsing_exception", "failed to parse field [amount]"

        self.server.judge = judge
        return self

    def away(self) -> Target:
        self.server.faults += [Reply(503)] * 1000
        return ElasticsearchTarget(self.server, seconds=0.2)


@pytest.fixture
def server() -> Iterator[PlayedElasticsearch]:
    with PlayedElasticsearch() as running:
        yield running


@pytest.fixture
def target(server: PlayedElasticsearch) -> ElasticsearchTarget:
    return ElasticsearchTarget(server)


class TestContract(SinkContract):
    """What every sink promises."""


class TestContractOfCreate(SinkContract):
    """The same, where documents are never replaced."""

    @pytest.fixture
    def target(self, server: PlayedElasticsearch) -> ElasticsearchTarget:
        return ElasticsearchTarget(server, op_type="Create")


class TestContractOfGeneratedIds(SinkContract):
    """The same, where the target makes the ids."""

    @pytest.fixture
    def target(self, server: PlayedElasticsearch) -> ElasticsearchTarget:
        return ElasticsearchTarget(server, id_from="Generated")


def write(target: ElasticsearchTarget, end: int = 6, **more: Any) -> PlayedTask:
    task = PlayedTask()
    payload = more.get("payload")
    span = wanted(0, end)
    written = target.sink(payload).write_task(span, portions(span, **more), task)
    assert written.rows == end - len(task.refusals)
    return task


def sent_ids(server: PlayedElasticsearch) -> list[list[str]]:
    """The ids in each bulk."""
    return [
        [
            json.loads(line)[action]["_id"].rpartition("-")[2]
            for line in request.body.splitlines()[::2]
            for action in json.loads(line)
        ]
        for request in server.sent()
    ]


def test_a_document_lies_under_the_place_of_its_message(
    server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    write(target, 1)

    ((id_, document),) = server.indexes["orders"].items()
    assert id_ == f"{INCARNATION}-0-0"
    assert document["customer"] == "c0"
    assert document["iggy_timestamp"] == "2026-12-31T23:59:59.999999Z"


def test_dead_letters_that_come_back_keep_their_place(
    server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    def letters() -> Iterator[Portion]:
        for partition in (0, 1):
            for portion in portions(wanted(2, 4)):
                yield replace(portion, messages=replace(portion.messages, partition=partition))

    target.sink().write_task(wanted(9, 13, incarnation=NEXT_LIFE), letters(), PlayedTask())

    assert list(server.indexes["orders"]) == [
        f"{INCARNATION}-{place}" for place in ("0-2", "0-3", "1-2", "1-3")
    ]


def test_what_the_target_has_no_room_for_is_sent_again_and_nothing_else(
    server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    busy = {1: 2, 2: 1}  # offset → how often

    def judge(id_: str, document: Document) -> tuple[int, str, str] | None:
        left = busy.get(document["iggy_offset"], 0)
        busy[document["iggy_offset"]] = left - 1
        return REJECTED if left > 0 else None

    server.judge = judge
    task = write(target, 3)

    assert sent_ids(server) == [["0", "1", "2"], ["1", "2"], ["1"]]
    assert target.rows() == [(0, 0), (0, 1), (0, 2)]
    assert task.refusals == []


@pytest.mark.parametrize("kind", ["mapper_parsing_exception", "nobody_has_heard_of_it"])
def test_a_refusal_is_told_by_its_status_with_the_targets_words(
    kind: str, server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    server.judge = lambda id_, document: (
        (400, kind, "failed to parse") if document["iggy_offset"] == 1 else None
    )

    task = write(target, 3)

    (refusal,) = task.refusals
    assert (refusal.offset, refusal.stage, refusal.kind) == (1, "write", kind)
    assert refusal.message == f"400 {kind}: failed to parse"
    assert len(server.sent()) == 1  # not tried again


@pytest.mark.parametrize("op_type", ["Index", "Create"])
def test_a_bulk_whose_answer_is_lost_is_no_error(op_type: str, server: PlayedElasticsearch) -> None:
    target = ElasticsearchTarget(server, op_type=op_type)
    server.faults.append(LOST)

    task = write(target, 3)

    assert len(server.sent()) == 2
    assert target.rows() == [(0, 0), (0, 1), (0, 2)]
    assert task.refusals == []


def test_a_document_that_is_there_stops_none_of_the_others(server: PlayedElasticsearch) -> None:
    target = ElasticsearchTarget(server, op_type="Create")
    server.indexes["orders"] = {f"{INCARNATION}-0-1": {"iggy_partition_id": 0, "iggy_offset": 1}}

    task = write(target, 3)

    assert target.rows() == [(0, 0), (0, 1), (0, 2)]
    assert task.refusals == []
    assert len(server.sent()) == 1


@pytest.mark.parametrize(
    "fault", [Reply(503), Reply(200, b"<html>"), Reply(200, {"errors": True, "items": []}), LOST]
)
def test_an_outage_is_waited_for(
    fault: Reply | str, server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    server.faults += [fault] * 4

    task = write(target, 3)

    assert target.rows() == [(0, 0), (0, 1), (0, 2)]
    assert task.refusals == []


def test_bulks_have_a_size(
    server: PlayedElasticsearch, target: ElasticsearchTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elasticsearch, "BULK_ROWS_MAX", 2)
    write(target, 6, size=6)
    assert [len(ids) for ids in sent_ids(server)] == [2, 2, 2]

    monkeypatch.setattr(elasticsearch, "BULK_BYTES_MAX", 700)
    server.seen.clear()
    write(target, 6, size=6)
    assert all(len(request.body) <= 700 for request in server.sent())


def test_a_bulk_that_is_too_large_is_halved(
    server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    server.bulk_bytes_max = 600

    task = write(target, 6, size=6)

    assert target.rows() == [(0, offset) for offset in range(6)]
    assert task.refusals == []
    server.bulk_bytes_max = 100
    assert [one.kind for one in write(target, 2).refusals] == ["TooLarge"] * 2


def test_indexes_follow_the_time_of_the_message(
    server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    write(ElasticsearchTarget(server, index="orders-{timestamp:%Y.%m}"))

    assert list(server.indexes) == ["orders-2026.12"]


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("orders", "orders"),
        ("{timestamp:%G-w%V}-x", "2026-w53-x"),
        ("o-{timestamp:%Y}.{timestamp:%m%d%H}", "o-2026.123123"),
    ],
)
def test_names_of_indexes(template: str, name: str) -> None:
    assert IndexName("x", template).of(TIMESTAMP_US) == name


@pytest.mark.parametrize(
    "template",
    ["{offset}", "o-{timestamp}", "{timestamp:%M}", "{timestamp:%c}", "Orders", "_o", "a b", "o{"],
)
def test_names_that_no_index_has(template: str) -> None:
    with pytest.raises(OptionError, match=r"^elasticsearch\.index: "):
        IndexName("elasticsearch.index", template)


def test_ids_of_a_field(server: PlayedElasticsearch) -> None:
    target = ElasticsearchTarget(server, id_from="Field", id_field="customer")

    write(target, 3)
    write(target, 3)

    assert list(server.indexes["orders"]) == ["c0", "c1", "c2"]
    assert not target.sink().exactly_once


def test_a_message_without_the_field_is_refused(server: PlayedElasticsearch) -> None:
    target = ElasticsearchTarget(server, id_from="Field", id_field="key")
    values = [b'{"key": "a"}', b"{}", b'{"key": 7}', b'{"key": "%s"}' % (b"x" * 513)]

    task = write(target, 4, payload=declare(text=None), made=lambda number: values[number])

    assert list(server.indexes["orders"]) == ["a", "7"]
    assert [(one.offset, one.kind) for one in task.refusals] == [(1, "MissingId"), (3, "LongId")]


def test_the_last_message_of_an_id_stays_the_last(server: PlayedElasticsearch) -> None:
    """One that was put off must not overwrite a later one."""
    target = ElasticsearchTarget(server, id_from="Field", id_field="key")
    busy = [True]

    def judge(id_: str, document: Document) -> tuple[int, str, str] | None:
        return REJECTED if document["iggy_offset"] == 0 and busy and busy.pop() else None

    server.judge = judge
    write(target, 3, payload=declare(text=None), made=lambda number: b'{"key": "a"}')

    assert server.indexes["orders"]["a"]["iggy_offset"] == 2


@pytest.mark.parametrize("status", [401, 403, 404])
def test_an_index_that_may_not_be_written_is_no_bad_message(
    status: int, server: PlayedElasticsearch, target: ElasticsearchTarget
) -> None:
    server.judge = lambda id_, document: (status, "index_not_found_exception", "no such index")
    task = PlayedTask()
    span = wanted(0, 2)

    with pytest.raises(SinkError, match=rf"elasticsearch\.index: .*{status}.*no such index"):
        target.sink().write_task(span, portions(span), task)

    assert task.refusals == []


def test_the_check_names_what_is_wrong(server: PlayedElasticsearch, tmp_path: Path) -> None:
    server.login = "ApiKey right"
    (tmp_path / "apiKey").write_text("wrong")
    target = ElasticsearchTarget(server, credentials_path=str(tmp_path))

    with pytest.raises(OptionError, match=r"elasticsearch\.credentialsPath: .* answers 401"):
        target.sink().check()

    (tmp_path / "apiKey").write_text("right")
    target.sink().check()
    server.streams.add("orders")
    with pytest.raises(OptionError, match=r"elasticsearch\.opType: orders is a data stream"):
        target.sink().check()
    ElasticsearchTarget(server, op_type="Create", credentials_path=str(tmp_path)).sink().check()


def test_the_check_does_not_wait_for_a_target_that_is_away() -> None:
    with PlayedElasticsearch() as gone:
        pass

    with pytest.raises(SinkError, match=gone.url):
        ElasticsearchTarget(gone, seconds=600).sink().check()


@pytest.mark.parametrize(
    ("block", "payload", "field"),
    [
        ({"id_from": "Field"}, declare(), "idField"),
        ({"id_field": "customer"}, declare(), "idField"),
        ({"id_from": "Field", "id_field": "amount"}, declare(), "idField"),
        ({"id_from": "Field", "id_field": "nothing"}, declare(), "idField"),
        ({}, declare("Raw", None), "payload.format"),
    ],
)
def test_settings_that_cannot_be(
    block: dict[str, Any], payload: Payload, field: str, server: PlayedElasticsearch
) -> None:
    with pytest.raises(OptionError, match=field):
        ElasticsearchTarget(server, **block).sink(payload)
