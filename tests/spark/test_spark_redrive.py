"""Dead letters are written again: each once, as the messages that they were, and those that fail
again are not lost.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from dead_letter_topics import letters
from iggy_wire.batch import Message
from iggy_wire.options import Option, options_bytes
from iggy_wire.primitives import Partitioning
from lakes import FolderLake, table_of
from sink_jobs import SCHEMA, Setup, documents

if TYPE_CHECKING:
    from conftest import Topic

WIDER = SCHEMA.replace("number BIGINT NOT NULL", "number BIGINT")
"""Takes messages that SCHEMA refuses."""
TRACE = options_bytes((Option.of("trace", "abc"),))


@pytest.fixture
def setup(topic: Topic, tmp_path: Path) -> Setup:
    errors = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}
    return Setup(topic, tmp_path, errors=errors)


def without_number(month: int) -> bytes:
    return json.dumps({"month": month}).encode()


def redrive(setup: Setup, spark: SparkSession, request: str, **more: Any) -> list[dict[str, Any]]:
    setup.value["redrive"] = {"request": request, **more}
    return setup.run(spark)


def heal(setup: Setup) -> None:
    setup.value["sink"]["payload"]["schema"] = WIDER


def test_letters_become_rows_with_the_places_of_their_messages(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    topic.send(0, documents(0, 3))
    where = Partitioning.partition(1)
    bad = [Message(without_number(n), id=50 + n, headers=TRACE) for n in (1, 2)]
    topic.client.send(topic.stream, topic.name, where, bad)
    setup.run(spark)
    assert setup.rows() == [(0, 0), (0, 1), (0, 2)]
    heal(setup)

    events = redrive(setup, spark, "a")

    assert setup.rows() == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    months = table_of(FolderLake(setup.lake)).filter(pc_partition(1)).column("month").to_pylist()
    assert sorted(months) == [1, 2]
    assert [e["event"] for e in events if e["event"] in ("redriving", "redriven")] == [
        "redriving",
        "redriven",
    ]
    again = redrive(setup, spark, "a")  # a restart of the job: the request is done
    assert "redriving" not in [event["event"] for event in again]
    redrive(setup, spark, "b")
    assert len(setup.rows()) == 5


def test_what_fails_again_is_kept_with_its_number_of_attempts(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    where = Partitioning.partition(0)
    topic.client.send(topic.stream, topic.name, where, [Message(b"no json", id=7, headers=TRACE)])
    setup.run(spark)

    redrive(setup, spark, "a")
    redrive(setup, spark, "b")

    found = letters(topic)
    assert [headers["iggy.dlq.attempt"] for _, headers in found] == [1, 2, 3]
    assert {letter.payload for letter, _ in found} == {b"no json"}
    assert len({letter.id for letter, _ in found}) == 1
    assert [headers["trace"] for _, headers in found] == ["abc"] * 3
    assert {headers["iggy.dlq.offset"] for _, headers in found} == {0}
    assert setup.rows_if_any() == []


def test_only_chosen_letters_are_written_and_the_others_wait(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    topic.send(0, [without_number(1), b"no json", without_number(2)])
    setup.run(spark)
    heal(setup)

    redrive(setup, spark, "a", errorClasses=["MalformedJson"])

    assert setup.rows_if_any() == []
    redrive(setup, spark, "b", errorClasses=["SchemaMismatch"], stages=["decode"])
    assert setup.rows() == [(0, 0), (0, 2)]
    kinds = [headers["iggy.dlq.error_class"] for _, headers in letters(topic)]
    assert kinds.count("MalformedJson") >= 2


def test_letters_are_chosen_by_the_times_of_their_messages(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    for month in (1, 2, 3):
        topic.send(0, [without_number(month)])
    setup.run(spark)
    heal(setup)
    times = [headers["iggy.dlq.timestamp"] for _, headers in letters(topic)]
    assert len(set(times)) == 3
    _, second, third = (iso(time) for time in sorted(times))

    redrive(setup, spark, "a", **{"from": second, "to": third})

    assert setup.rows() == [(0, 1)]
    redrive(setup, spark, "b", to=second)  # those that were put back keep their times
    assert setup.rows() == [(0, 0), (0, 1)]


def iso(time_us: Any) -> str:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (epoch + timedelta(microseconds=time_us)).isoformat()


def test_a_repeated_redrive_changes_nothing(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    topic.send(0, [without_number(n) for n in range(5)])
    setup.value["sink"]["errors"]["deadLetter"]["maxPerBatch"] = 10
    setup.run(spark)
    heal(setup)
    before = set(setup.checkpoint.glob("*/spark"))
    redrive(setup, spark, "a")
    (own,) = set(setup.checkpoint.glob("*/spark")) - before
    shutil.rmtree(own)
    (setup.checkpoint / "redrive.json").unlink()  # as if it had been killed before the end

    redrive(setup, spark, "a")

    assert setup.rows() == [(0, n) for n in range(5)]


def test_a_range_of_letters_alone_is_not_read_again_when_the_checkpoint_is_lost(
    spark: SparkSession, topic: Topic, setup: Setup
) -> None:
    topic.send(0, [without_number(1), without_number(2)])
    setup.run(spark)
    heal(setup)
    redrive(setup, spark, "a")
    topic.send(0, documents(2, 3))
    shutil.rmtree(setup.checkpoint)
    del setup.value["redrive"]

    setup.run(spark)

    assert setup.rows() == [(0, 0), (0, 1), (0, 2)]


def test_letters_of_another_sink_stay_its_own(
    spark: SparkSession, topic: Topic, setup: Setup, tmp_path: Path
) -> None:
    topic.send(0, [without_number(1)])
    setup.run(spark)
    heal(setup)
    errors = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}
    (tmp_path / "other").mkdir()
    other = Setup(topic, tmp_path / "other", errors=errors)
    other.value["name"] = "other"

    redrive(other, spark, "a")

    assert other.rows_if_any() == []
    redrive(setup, spark, "a")
    assert setup.rows() == [(0, 0)]


def pc_partition(number: int) -> Any:
    import pyarrow.compute as pc

    return pc.field("iggy_partition_id") == number
