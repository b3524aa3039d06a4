"""A broker that comes back with an older copy of its data, and gives offsets a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import broker_copies
import stored
from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_spark import connections, options, readers
from iggy_spark.errors import DataLoss, OffsetFormatError
from iggy_spark.offsets import Offsets

GIVEN_TWICE = r"partition 0: offsets 6\u20139 were read, and other messages have them now"
LOST = r"partition 0: the broker lost its tail, offsets 6\u20139 were read but .* ends at 6"

Make = Callable[..., readers.IggyStreamReader]


class Place:
    """A broker of a test's own with a topic of two partitions."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        with broker.client() as client:
            client.create_stream("shop")
            client.create_topic("shop", "orders", 2, {"segment_size": 1 << 20})

    def send(self, count: int, partition: int = 0, size: int = 1) -> None:
        with self.broker.client() as client:
            for _ in range(count):
                stored.send(client, "shop", "orders", bytes(size), partition=partition)

    def copy(self) -> Path:
        return broker_copies.taken(self.broker, self.folder / "copy")

    def put_back(self, copy: Path, count: int = 0) -> None:
        """The older copy, with so many new messages before anybody else can look at it."""
        broker_copies.put_back(self.broker, copy, before=lambda: self.send(count))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with running_broker(tmp_path / "broker", shards=1) as broker:
        yield Place(broker, tmp_path)
        connections.close_all()


@pytest.fixture
def reader(place: Place) -> Make:
    def make(**more: str) -> readers.IggyStreamReader:
        given = {
            "servers": place.broker.address, "username": USERNAME, "password": PASSWORD,
            "stream": "shop", "topic": "orders", "startingOffsets": "earliest",
            "retryTimeoutMs": "30s", **more,
        }  # fmt: skip
        return readers.IggyStreamReader(options.parse(given, mode="stream"))

    return make


def planned(source: readers.IggyStreamReader, start: Any) -> Any:
    return source.latestOffset(start, ReadAllAvailable())


def positions(value: Any) -> dict[int, int]:
    return dict(Offsets.from_json(value).positions)


@pytest.mark.parametrize(("count", "told"), [(0, LOST), (4, GIVEN_TWICE), (9, GIVEN_TWICE)])
@pytest.mark.parametrize("is_running", [True, False])
def test_offsets_that_are_given_a_second_time_are_no_old_ones(
    place: Place, reader: Make, count: int, told: str, is_running: bool
) -> None:
    place.send(6)
    place.send(3, partition=1)
    copy = place.copy()
    place.send(4)
    source = reader()
    end = planned(source, source.initialOffset())
    assert positions(end) == {0: 10, 1: 3}

    place.put_back(copy, count)

    with pytest.raises(DataLoss, match=told):
        planned(source if is_running else reader(), end)


def test_a_batch_that_was_planned_before_is_not_repeated(place: Place, reader: Make) -> None:
    place.send(6)
    copy = place.copy()
    place.send(4)
    source = reader()
    start = source.initialOffset()
    end = planned(source, start)

    place.put_back(copy, count=9)

    with pytest.raises(DataLoss, match=GIVEN_TWICE):
        reader().partitions(start, end)


def test_who_wants_to_goes_on_and_is_told_once(
    place: Place, reader: Make, caplog: pytest.LogCaptureFixture
) -> None:
    place.send(6)
    copy = place.copy()
    place.send(4)
    source = reader(failOnDataLoss="false")
    end = planned(source, source.initialOffset())
    place.put_back(copy, count=9)

    assert positions(planned(source, end)) == {0: 15, 1: 0}
    planned(source, planned(source, end))

    told = [record.getMessage() for record in caplog.records]
    assert [text for text in told if "other messages have them now" in text] == told


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_restart_is_no_loss(place: Place, reader: Make, is_killed: bool) -> None:
    place.send(6)
    source = reader()
    end = planned(source, source.initialOffset())
    if is_killed:
        place.broker.kill()
    else:
        place.broker.stop()
    place.broker.start()

    assert planned(source, end) == end
    place.send(2)
    assert positions(planned(reader(), end)) == {0: 8, 1: 0}


def test_a_last_message_that_retention_took_is_no_loss(place: Place, reader: Make) -> None:
    place.send(3, size=900_000)
    source = reader()
    end = planned(source, source.initialOffset())
    place.send(2, size=900_000)
    with place.broker.client() as client:
        client.delete_segments("shop", "orders", 0, 2)

    assert positions(planned(reader(), end)) == {0: 5, 1: 0}


def test_checkpoints_of_older_versions_go_on(place: Place, reader: Make) -> None:
    place.send(6)
    source = reader()
    end = planned(source, source.initialOffset())
    older = {name: value for name, value in end.items() if name != "last_us"}

    assert planned(reader(), older) == older
    place.send(1)
    newer = planned(reader(), older)
    assert (positions(newer), list(newer["last_us"]["shop/orders"])) == ({0: 7, 1: 0}, ["0"])
    with pytest.raises(OffsetFormatError, match="not offsets of Iggy topics"):
        planned(reader(), {**end, "last_us": 3})
