"""How much a micro-batch may read: by number, by bytes, and not before there is enough."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from iggy_spark import options, readers
from iggy_spark.batch_size import BatchSize
from iggy_spark.connections import Connection
from iggy_spark.offsets import Kept, Offsets
from iggy_spark.topics import Topics

if TYPE_CHECKING:
    from conftest import Topic


def reader(topic: "Topic", **more: str) -> readers.IggyStreamReader:
    given = topic.options(**{"startingOffsets": "earliest", "pollIntervalMs": "0", **more})
    return readers.IggyStreamReader(options.parse(given, mode="stream"))


def positions(offset: dict[str, Any]) -> dict[int, int]:
    return dict(Offsets.from_json(offset).positions)


def batches(source: readers.IggyStreamReader) -> list[dict[int, int]]:
    """Ends of the micro-batches until nothing is left, as Spark asks for them."""
    at, found = source.initialOffset(), []
    while (end := source.latestOffset(at, source.getDefaultReadLimit())) != at:
        found.append(positions(end))
        at = end
    return found


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadMaxRows(1_000_000)),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"maxOffsetsPerTrigger": "0"}, ReadMaxBytes(1 << 30)),
        ({"maxOffsetsPerTrigger": "0", "maxBytesPerTrigger": "0"}, ReadAllAvailable()),
    ],
)
def test_what_spark_is_told(topic: "Topic", given: dict[str, str], limit: ReadLimit) -> None:
    assert reader(topic, **given).getDefaultReadLimit() == limit


def test_no_batch_is_larger_than_the_limits(topic: "Topic") -> None:
    topic.send(0, [bytes(1_000)] * 3_000, batch=500)
    topic.send(1, [bytes(100)] * 600, batch=300)

    by_number = batches(reader(topic, maxOffsetsPerTrigger="1000"))
    by_bytes = batches(reader(topic, maxBytesPerTrigger="1MiB"))
    smaller = batches(reader(topic, maxBytesPerTrigger="1MiB", maxOffsetsPerTrigger="500"))

    assert [sum(end.values()) for end in by_number] == [1_000, 2_000, 3_000, 3_600]
    assert by_bytes[-1] == smaller[-1] == {0: 3_000, 1: 600}
    assert len(smaller) == 8
    taken = [{0: 0, 1: 0}, *by_bytes]
    for before, after in pairwise(taken):
        size_bytes = 1_050 * (after[0] - before[0]) + 150 * (after[1] - before[1])
        assert size_bytes <= 1.1 * (1 << 20)
    assert 3 <= len(by_bytes) <= 6


WAITING = (6_000_000, 3_000_000, 1_000_000, 7)  # of each partition: ten millions and some


@pytest.mark.parametrize("topic", [4], indirect=True)
@pytest.mark.parametrize(("message_bytes", "at_least"), [(20, 11), (300, 11), (5_000, 47)])
def test_nobody_who_sets_no_limits_gets_the_whole_topic_at_once(
    topic: "Topic", monkeypatch: pytest.MonkeyPatch, message_bytes: int, at_least: int
) -> None:
    """What the broker would say of so many messages is said for it."""
    ends = dict(enumerate(WAITING))
    kept = {n: Kept(end, end * message_bytes) for n, end in ends.items()}
    real = Connection(options.parse(topic.options(), mode="stream")).topic_state()
    told = {
        "topic_state": replace(real, ends=ends, kept=kept),
        "find_topic": replace(real, ends=ends, kept=kept),
        "earliest": 0,
        "message_bytes": float(message_bytes),
        "taken_us": None,
    }
    for name, answer in told.items():
        monkeypatch.setattr(Connection, name, lambda *args, answer=answer, **more: answer)

    taken = [dict.fromkeys(ends, 0), *batches(reader(topic))]

    sizes = [sum(after.values()) - sum(before.values()) for before, after in pairwise(taken)]
    assert taken[-1] == ends
    assert len(sizes) >= at_least
    assert max(sizes) <= 1_000_000
    assert max(sizes) * message_bytes <= 1 << 30


def test_the_size_of_messages_is_learned_where_it_changes(topic: "Topic") -> None:
    topic.send(0, [bytes(50)] * 20_000, batch=1_000)
    topic.send(0, [bytes(100_000)] * 60, batch=10)

    ends = [0, *(end[0] for end in batches(reader(topic, maxBytesPerTrigger="2MiB")))]

    assert ends[-1] == 20_060
    assert len(ends) < 50
    for first, end in pairwise(ends):
        large = max(0, min(end, 20_060) - max(first, 20_000))
        assert 100_000 * large + 100 * (end - first - large) <= 1.5 * (2 << 20)


def test_all_that_there_is_comes_when_spark_wants_all(topic: "Topic") -> None:
    topic.send(0, [bytes(1_000)] * 3_000, batch=500)
    source = reader(topic, maxBytesPerTrigger="1MiB")

    assert positions(source.latestOffset(source.initialOffset(), ReadAllAvailable()))[0] == 3_000


@pytest.fixture
def at(topic: "Topic") -> Callable[..., BatchSize]:
    """Makes a `BatchSize` with a clock that reads `now[0]`."""

    def make(now: list[float], **more: str) -> BatchSize:
        parsed = options.parse(topic.options(**more), mode="stream")
        return BatchSize(parsed, Topics(parsed), clock=lambda: now[0])

    return make


def test_a_small_backlog_waits_but_not_for_ever(at: Callable[..., BatchSize]) -> None:
    now = [100.0]
    size = at(now, minOffsetsPerTrigger="50", maxTriggerDelay="10s")

    assert size.holds_back(49)
    assert not size.holds_back(50)
    now[0] += 9
    assert size.holds_back(49)
    now[0] += 1
    assert not size.holds_back(49)
    assert size.holds_back(10)
    now[0] += 10
    assert not size.holds_back(0)
    assert not at(now).holds_back(1)


def test_a_batch_is_held_back_and_a_run_that_ends_takes_all(topic: "Topic") -> None:
    topic.send(0, [b"x"] * 49)
    source = reader(topic, minOffsetsPerTrigger="50")
    start = source.initialOffset()

    assert source.latestOffset(start, ReadAllAvailable()) == start
    topic.send(1, [b"x"])
    end = source.latestOffset(start, ReadAllAvailable())
    assert positions(end) == {0: 49, 1: 1}
    topic.send(1, [b"x"])
    assert source.latestOffset(end, ReadAllAvailable()) == end
    source.prepareForTriggerAvailableNow()
    assert positions(source.latestOffset(end, ReadAllAvailable())) == {0: 49, 1: 2}
