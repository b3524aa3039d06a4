"""Whole sink jobs on a real broker and a real Spark, with played web services as targets."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from dead_letter_topics import CONTEXT, messages_in, told_of
from iggy_spark.errors import BadPayload, SinkError
from iggy_spark.messages import read_headers
from iggy_wire.batch import Message
from iggy_wire.options import Option, options_bytes
from iggy_wire.primitives import Partitioning
from played_server import LOST, Reply, Request
from played_targets import (
    Document,
    PlayedElasticsearch,
    PlayedQuickwit,
    PlayedService,
    messages_of,
)
from sink_jobs import Setup, documents, every

if TYPE_CHECKING:
    from conftest import Topic

ERRORS = {
    "tolerance": "Data",
    "deadLetter": {"topic": "dead"},
    "retry": {"timeout": "1s", "initialDelay": "50ms", "maxDelay": "100ms"},
}
QUICKWIT = "version: 0.8\nindex_id: orders\ndoc_mapping:\n  mode: dynamic\n"
NO_ROOM = (429, "es_rejected_execution_exception", "queue capacity = 200")


@pytest.fixture
def search() -> Iterator[PlayedElasticsearch]:
    with PlayedElasticsearch() as server:
        yield server


@pytest.fixture
def setup(topic: Topic, tmp_path: Path, search: PlayedElasticsearch) -> Setup:
    block = {"urls": [search.url], "index": "orders-{timestamp:%Y}"}
    return job(topic, tmp_path, type="Elasticsearch", elasticsearch=block)


def job(topic: Topic, folder: Path, **sink: Any) -> Setup:
    return Setup(topic, folder, files=None, errors=ERRORS, maxOffsetsPerTrigger=60, **sink)


def rows(found: list[Document]) -> list[tuple[int, int]]:
    return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in found)


def test_what_is_repeated_changes_nothing(
    spark: SparkSession, topic: Topic, setup: Setup, search: PlayedElasticsearch
) -> None:
    topic.send(0, documents(0, 100))
    topic.send(1, documents(0, 20))
    setup.run(spark)
    first = rows(search.documents())
    setup.forget_last_commit()

    events = setup.run(spark)
    repeated = [event["rows"] for event in events if event["event"] == "progress"]
    shutil.rmtree(setup.checkpoint)
    topic.send(1, documents(20, 30))
    setup.run(spark)

    assert first == every(p0=100, p1=20)
    assert repeated == [60]
    assert rows(search.documents()) == every(p0=100, p1=30)
    assert topic.stored("lake", 1) == 29


def run_with_repetition(spark: SparkSession, topic: Topic, setup: Setup) -> list[tuple[int, int]]:
    """Forget the last commit of a job, then its checkpoint, whose loss repeats nothing. The places
    of the batch that came twice.
    """
    topic.send(0, documents(0, 100))
    topic.send(1, documents(100, 120))
    setup.run(spark)
    before, after = (event["committed"] for event in setup.progress()[-2:])
    setup.forget_last_commit()
    setup.run(spark)
    assert [(event["rows"], event["committed"]) for event in setup.progress()] == [(60, after)]
    shutil.rmtree(setup.checkpoint)
    topic.send(1, documents(120, 130))
    setup.run(spark)
    assert [event["rows"] for event in setup.progress()] == [10]
    return [(int(number), at) for number in after for at in range(before[number], after[number])]


def test_quickwit_gets_the_last_batch_twice_and_nothing_else(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """It knows no ids: a reader tells by partition and offset."""
    with PlayedQuickwit() as server:
        block = {"url": server.url, "index": "orders", "indexConfig": QUICKWIT}
        last = run_with_repetition(
            spark, topic, job(topic, tmp_path, type="Quickwit", quickwit=block)
        )

        found = server.indexes["orders"]
    assert rows(found) == sorted(every(p0=100, p1=30) + last)
    assert sorted({one["number"] for one in found}) == list(range(130))


@pytest.mark.parametrize("body", ["NdJson", "Individual"])
def test_a_service_gets_the_last_requests_again_with_their_keys(
    spark: SparkSession, topic: Topic, tmp_path: Path, body: str
) -> None:
    with PlayedService() as server:
        block = {"url": server.url, "metadata": True, "body": body}
        last = run_with_repetition(spark, topic, job(topic, tmp_path, type="Http", http=block))

        sent = server.sent()
    times = Counter(request.headers["Idempotency-Key"] for request in sent)
    assert len({request.body for request in sent}) == len(times)  # one body, one key
    remembered = {request.headers["Idempotency-Key"]: request for request in sent}
    again = [request for key, request in remembered.items() if times[key] == 2]
    assert len(sent) == len(remembered) + len(again)
    assert places(remembered.values()) == every(p0=100, p1=30)
    assert places(again) == sorted(last)


def places(requests: Iterable[Request]) -> list[tuple[int, int]]:
    found = [message["metadata"] for request in requests for message in messages_of(request)]
    return sorted((one["partition"], one["offset"]) for one in found)


def test_an_outage_loses_nothing_and_makes_no_dead_letter(
    spark: SparkSession, topic: Topic, setup: Setup, search: PlayedElasticsearch
) -> None:
    topic.send(0, documents(0, 100))
    too_far = []

    def judge(id_: str, document: Document) -> None:
        """Whether the broker is told more than what is here, seen at the first of each batch."""
        offset = document["iggy_offset"]
        stored = topic.stored("lake", 0) if offset % 60 == 0 else None
        if stored is not None and stored >= offset:
            too_far.append((stored, offset))

    search.judge = judge
    search.faults += [Reply(503)] * 1000

    with pytest.raises(SinkError, match=r"elasticsearch: http.* answers 503.*errors\.retry"):
        setup.run(spark)
    assert [event for event in setup.events if event["event"] == "progress"] == []
    assert topic.stored("lake", 0) is None
    search.faults.clear()
    search.faults += [Reply(503), LOST, Reply(200, b"<html>")]
    setup.run(spark)

    assert rows(search.documents()) == every(p0=100)
    assert topic.stored("lake", 0) == 99
    assert too_far == []
    assert messages_in(topic.client, topic.stream, "dead") == []


def test_a_document_that_is_refused_becomes_a_dead_letter(
    spark: SparkSession, topic: Topic, setup: Setup, search: PlayedElasticsearch
) -> None:
    trace = options_bytes((Option.of("trace", "abc"),))
    payloads = documents(0, 10)
    payloads[3] = b" " + payloads[3].replace(b": ", b" :\t") + b"\n"  # as nobody else writes it
    where = Partitioning.partition(0)
    sent = [Message(text, id=n + 1, headers=trace) for n, text in enumerate(payloads)]
    topic.client.send(topic.stream, topic.name, where, sent)
    busy = [True]

    def judge(id_: str, document: Document) -> tuple[int, str, str] | None:
        if document["iggy_offset"] == 3:
            return 400, "document_parsing_exception", "failed to parse field [delay]"
        return NO_ROOM if document["iggy_offset"] == 5 and busy and busy.pop() else None

    search.judge = judge
    events = setup.run(spark)

    assert rows(search.documents()) == [row for row in every(p0=10) if row[1] != 3]
    (letter,) = messages_in(topic.client, topic.stream, "dead")
    assert letter.payload == payloads[3]
    headers = read_headers(memoryview(letter.headers))
    assert headers["trace"] == "abc"
    assert told_of(headers).keys() == CONTEXT
    assert (headers["iggy.dlq.stage"], headers["iggy.dlq.offset"]) == ("write", 3)
    assert headers["iggy.dlq.error_class"] == "document_parsing_exception"
    assert "failed to parse field [delay]" in str(headers["iggy.dlq.error"])
    (progress,) = (event for event in events if event["event"] == "progress")
    assert (progress["rows"], progress["dead"], progress["retries"]) == (9, 1, 1)


def test_quickwit_gets_documents_without_a_schema(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.send(0, documents(0, 30))
    with PlayedQuickwit() as server:
        block = {"url": server.url, "index": "orders", "indexConfig": QUICKWIT}
        setup = job(topic, tmp_path, type="Quickwit", quickwit=block, payload={"format": "Json"})
        setup.run(spark)

        assert rows(server.indexes["orders"]) == every(p0=30)
        assert server.indexes["orders"][3]["number"] == 3


def test_a_service_gets_all_but_the_message_that_it_does_not_want(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.send(0, documents(0, 50))
    with PlayedService() as server:
        server.judge = lambda message: 422 if message["payload"]["number"] == 17 else None
        block = {"url": server.url, "metadata": True}
        setup = job(topic, tmp_path, type="Http", http=block)
        setup.run(spark)

        offsets = [message["metadata"]["offset"] for message in server.messages]
    assert offsets == [n for n in range(50) if n != 17]
    assert [
        letter.payload for letter in messages_in(topic.client, topic.stream, "dead")
    ] == documents(17, 18)


def test_a_lost_checkpoint_goes_on_where_the_broker_says_that_the_job_was(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """The target keeps no place: all that is read again would be there twice."""
    with PlayedService() as server:
        setup = job(topic, tmp_path, type="Http", http={"url": server.url, "metadata": True})

        def begun() -> tuple[dict[str, Any], dict[str, str], list[int]]:
            """A run: where it began, by what, and the offsets of partition 0 that it sent."""
            server.messages.clear()
            started = setup.run(spark)[0]
            found = [message["metadata"] for message in server.messages]
            sent = [place["offset"] for place in found if place["partition"] == 0]
            return started["start"], started["by"], sent

        topic.send(0, documents(0, 40))
        nothing = {"0": "settings", "1": "settings"}
        assert begun() == ({"0": "earliest", "1": "earliest"}, nothing, list(range(40)))
        topic.send(0, documents(40, 50))
        known = {"0": "checkpoint", "1": "checkpoint"}
        assert begun() == ({"0": 40, "1": 0}, known, list(range(40, 50)))

        shutil.rmtree(setup.checkpoint)
        setup.value["sink"]["startingOffsets"] = "Latest"
        topic.send(0, documents(50, 60))
        topic.send(1, documents(0, 1))
        mirrored = {"0": "group", "1": "settings"}
        assert begun() == ({"0": 50, "1": "latest"}, mirrored, list(range(50, 60)))


def test_a_refused_message_waits_for_its_turn(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Refused, stopped, healed: it comes before those that were sent meanwhile."""
    topic.send(0, documents(0, 5))
    with PlayedService() as server:
        server.judge = lambda message: 422 if message["payload"]["number"] == 4 else None
        block = {"url": server.url, "metadata": True}
        setup = job(topic, tmp_path, type="Http", http=block)
        setup.value["sink"]["errors"] = {}
        with pytest.raises(BadPayload, match=r"offset 4: the target refuses .*errors\.tolerance"):
            setup.run(spark)
        assert topic.stored("lake", 0) is None

        topic.send(0, documents(5, 7))
        server.judge = lambda message: None
        server.messages.clear()
        setup.run(spark)

        offsets = [message["metadata"]["offset"] for message in server.messages]
    assert offsets == [0, 1, 2, 3, 4, 5, 6]
