"""Where reads start and end: times, stored offsets, and starts that move and are written down."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from iggy_spark import options, readers
from iggy_spark.connections import Connection
from iggy_spark.errors import OffsetFormatError, OptionError
from iggy_spark.offsets import Offsets
from iggy_wire.primitives import Consumer

if TYPE_CHECKING:
    from conftest import Source, Topic


def payloads(count: int) -> list[bytes]:
    return [b"m%d" % number for number in range(count)]


def positions(offset: dict[str, Any]) -> dict[int, int]:
    return dict(Offsets.from_json(offset).positions)


def reader(topic: "Topic", **more: str) -> readers.IggyStreamReader:
    given = topic.options(**{"pollIntervalMs": "0", **more})
    return readers.IggyStreamReader(options.parse(given, mode="stream"))


def spans(topic: "Topic", **more: str) -> list[tuple[int, int, int]]:
    """Partition, first offset and end of every task of a batch read."""
    parsed = options.parse(topic.options(**more), mode="batch")
    tasks = readers.IggyBatchReader(parsed).partitions()
    return [(item.partition, item.first, item.end) for item in (task.wanted for task in tasks)]


@pytest.fixture
def times(topic: "Topic") -> list[dt.datetime]:
    """When each of ten batches of ten messages was taken, in partition 0; partition 1 has one."""
    topic.send(0, payloads(100), batch=10)
    topic.send(1, payloads(1))
    source = reader(topic, startingOffsets="earliest", columns="timestamp,offset,partition")
    start = source.initialOffset()
    tasks = source.partitions(start, source.latestOffset(start, ReadAllAvailable()))
    rows = [row for task in tasks for rows in source.read(task) for row in rows.to_pylist()]
    return [row["timestamp"] for row in rows if row["partition"] == 0 and row["offset"] % 10 == 0]


FUTURE = "2100-01-01T00:00:00Z"


def test_a_read_starts_and_ends_at_times(topic: "Topic", times: list[dt.datetime]) -> None:
    first, last = (times[n].isoformat() for n in (3, 7))

    assert spans(topic, startingTimestamp=first)[0] == (0, 30, 100)
    assert spans(topic, startingTimestamp=first, endingTimestamp=last) == [(0, 30, 70)]
    assert spans(topic, endingTimestamp=FUTURE) == [(0, 0, 100), (1, 0, 1)]
    later = (times[3] + dt.timedelta(microseconds=1)).isoformat()
    assert spans(topic, startingTimestamp=later)[0] == (0, 40, 100)
    by_partition = json.dumps({"0": last, "1": 0})
    assert spans(topic, startingOffsetsByTimestamp=by_partition) == [(0, 70, 100), (1, 0, 1)]
    by_partition = json.dumps({"0": first, "1": FUTURE})
    assert spans(topic, endingOffsetsByTimestamp=by_partition) == [(0, 0, 30), (1, 0, 1)]
    # Milliseconds, as Kafka has them; the message was taken within that one.
    milliseconds = str(int(times[0].timestamp() * 1000))
    assert spans(topic, startingTimestamp=milliseconds) == [(0, 0, 100), (1, 0, 1)]


def test_a_time_that_no_message_has(topic: "Topic", times: list[dt.datetime]) -> None:
    with pytest.raises(OptionError, match=r"partition 0 of .* has no message from 2100-01-01"):
        spans(topic, startingTimestamp=FUTURE)
    with pytest.raises(OptionError, match="endingTimestamp: partition 0 would end at 30, before"):
        spans(
            topic, startingTimestamp=times[7].isoformat(), endingTimestamp=times[3].isoformat(),
        )  # fmt: skip
    with pytest.raises(OptionError, match=r"startingOffsetsByTimestamp: partitions \[1\] are mis"):
        spans(topic, startingOffsetsByTimestamp='{"0": 0}')

    latest = {"startingTimestamp": FUTURE, "startingOffsetsByTimestampStrategy": "latest"}
    assert positions(reader(topic, **latest, unsafeMovingStart="true").initialOffset()) == {
        0: 100, 1: 1,
    }  # fmt: skip


def test_partitions_that_a_time_leaves_out_start_at_the_earliest_in_a_stream(
    topic: "Topic", times: list[dt.datetime], state: str
) -> None:
    start = json.dumps({"0": times[2].isoformat()})

    source = reader(topic, startingOffsetsByTimestamp=start, stateLocation=state)

    assert positions(source.initialOffset()) == {0: 20, 1: 0}


def test_a_start_that_moves_is_kept_at_the_broker_until_the_first_batch_is_done(
    topic: "Topic", source: "Source", caplog: pytest.LogCaptureFixture
) -> None:
    topic.send(0, payloads(5))
    moving = {"startingOffsets": "latest"}
    first = source(**moving)
    start = first.initialOffset()
    first.stop()  # killed before its first batch was done
    topic.send(0, payloads(4))
    topic.send(1, payloads(3))

    again = source(**moving)

    assert positions(start) == {0: 5, 1: 0}
    assert again.initialOffset() == start
    assert caplog.text.count("there is no stateLocation") == 1
    end = again.latestOffset(start, ReadAllAvailable())
    assert topic.client.get_group(topic.stream, topic.name, "g.start") is not None
    again.latestOffset(end, ReadAllAvailable())
    assert topic.client.get_group(topic.stream, topic.name, "g.start") is None
    whose = Consumer.plain("g.start")
    assert topic.client.get_offset(whose, topic.stream, topic.name, 0) is None


def test_a_topic_that_came_after_the_start_was_kept_is_read_whole(
    topic: "Topic", source: "Source"
) -> None:
    topic.send(0, payloads(5))
    name = f"{topic.stream}/.*"
    select = {"subscribePattern": name, "startingOffsets": "latest", "consumerGroup": "h"}
    given = {k: v for k, v in topic.options(**select).items() if k not in ("stream", "topic")}

    def start() -> dict[str, Any]:
        return readers.IggyStreamReader(options.parse(given, mode="stream")).initialOffset()

    before = start()
    topic.client.create_topic(topic.stream, "later", 1)
    replace(topic, name="later").send(0, payloads(4))

    after = start()

    assert after["topics"].pop(f"{topic.stream}/later")["0"] == 0
    assert after == before


def test_a_start_that_moves_and_cannot_be_written_down_is_refused(topic: "Topic") -> None:
    with pytest.raises(
        OptionError, match=r"startingOffsets=latest needs stateLocation.*or consume"
    ):
        reader(topic, startingOffsets="latest").initialOffset()
    with pytest.raises(
        OptionError, match=r"consumerGroup, with \.start behind it=.*1 to 255 bytes"
    ):
        reader(topic, startingOffsets="latest", consumerGroup="g" * 255).initialOffset()
    with pytest.raises(OptionError, match="startingTimestamp, a time, needs stateLocation"):
        reader(topic, startingTimestamp="0").initialOffset()


def test_the_written_start_is_whole_or_told(topic: "Topic", state: str) -> None:
    topic.send(0, payloads(5))
    given = {"startingOffsets": "latest", "stateLocation": state}
    reader(topic, **given).initialOffset()

    (Path(state) / "initial.json").write_text('{"v": 1, "topics":')

    with pytest.raises(OffsetFormatError, match=r"initial\.json cannot be read"):
        reader(topic, **given).initialOffset()


def test_progress_that_another_program_stored_is_where_committed_starts(
    topic: "Topic", state: str
) -> None:
    topic.send(0, payloads(9))
    topic.send(1, payloads(9))
    connection = Connection(options.parse(topic.options(), mode="stream"))
    connection.store_plain("other", 1, 6)

    source = reader(
        topic, startingOffsets='{"0": 2, "1": -3}', consumerGroup="other", stateLocation=state
    )

    assert positions(source.initialOffset()) == {0: 2, 1: 7}
