"""The sink job: exactly once through stops, crashes and lost checkpoints; exit codes; progress."""

import io
import json
import re
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from broker_process import PASSWORD
from iggy_spark import job_config
from iggy_spark.errors import EXIT_FAILED, BadPayload, DataLoss, SinkError, TopicRecreated
from iggy_spark.job import Job
from iggy_spark.progress import Reporter
from iggy_spark.sinks.files import FilesSink
from iggy_spark.stop import Stop
from sink_jobs import LOGIN, PROCESS_S, Setup, documents, every, start
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic


@pytest.fixture
def setup(topic: "Topic", tmp_path: Path) -> Setup:
    return Setup(topic, tmp_path)


@pytest.mark.parametrize("topic", [6], indirect=True)
def test_six_partitions_end_in_the_lake_with_lag_0(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    for partition in range(6):
        topic.send(partition, documents(0, 200))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 700

    events = setup.run(spark)

    assert setup.rows() == every(**{f"p{n}": 200 for n in range(6)})
    assert [event["event"] for event in events] == ["started", "progress", "progress", "stopped"]
    assert [event["rows"] for event in events[1:3]] == [700, 500]
    assert [event["lag"] for event in events[1:]] == [500, 0, 0]
    assert events[-1]["committed"] == {str(n): 200 for n in range(6)}
    assert [topic.stored("lake", n) for n in range(6)] == [199] * 6
    table = ds.dataset(setup.lake, format="parquet", partitioning="hive").to_table()
    for row in table.slice(0, 50).to_pylist():
        assert row["month"] == row["number"] % 12 + 1
        assert row["delay"] == (None if row["number"] % 3 == 0 else row["number"] / 2)
        assert row["at"].isoformat() == "2026-03-29T00:59:59.999999+00:00"


def test_spark_reads_the_lake_back(spark: SparkSession, topic: "Topic", setup: Setup) -> None:
    topic.send(0, documents(0, 24))
    setup.run(spark)

    frame = spark.read.parquet(str(setup.lake))

    assert frame.count() == 24
    assert frame.where("month = 3").count() == 2
    assert frame.where("delay IS NULL").count() == 8
    assert frame.where("isnan(delay)").count() == 0
    assert frame.selectExpr("unix_micros(at)").distinct().collect()[0][0] == 1774745999999999


def test_a_deleted_checkpoint_makes_no_duplicates_and_no_gaps(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    topic.send(0, documents(0, 100))
    topic.send(1, documents(0, 10))
    setup.run(spark)
    shutil.rmtree(setup.checkpoint)
    topic.send(0, documents(100, 150))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 7  # other ranges than before

    events = setup.run(spark)

    assert setup.rows() == every(p0=150, p1=10)
    assert events[0]["by"] == {"0": "target", "1": "target"}
    assert sum(event["rows"] for event in events if event["event"] == "progress") == 50


def test_a_batch_that_is_repeated_is_written_once(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    topic.send(0, documents(0, 100))
    setup.run(spark)
    (commits,) = setup.checkpoint.glob("*/spark/commits")
    for file in commits.iterdir():
        file.unlink()  # as after a crash between the target's and Spark's commit

    events = setup.run(spark)

    assert setup.rows() == every(p0=100)
    (progress,) = (event for event in events if event["event"] == "progress")
    assert (progress["rows"], progress["skipped"]) == (0, 100)


def test_a_lake_and_checkpoint_that_are_gone_are_made_again(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    topic.send(0, documents(0, 20))
    setup.run(spark)
    shutil.rmtree(setup.checkpoint)
    shutil.rmtree(setup.lake)

    setup.run(spark)

    assert setup.rows() == every(p0=20)


def test_a_bad_message_stops_the_job_and_is_named(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    topic.send(0, [*documents(0, 3), b'{"number": "three"}', *documents(4, 6)])

    with pytest.raises(BadPayload, match=r"partition 0 offset 3: .*`\$\.number`"):
        setup.run(spark)

    assert topic.stored("lake", 0) is None


def test_tolerated_bad_messages_are_set_aside(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    bad = b'{"number": "three"}'
    topic.send(0, [*documents(0, 3), bad, *documents(4, 6)])
    setup.value["sink"]["errors"] = {"tolerance": "Data"}

    events = setup.run(spark)

    assert setup.rows() == [(0, n) for n in (0, 1, 2, 4, 5)]
    assert (events[1]["rows"], events[1]["rejected"], events[-1]["lag"]) == (5, 1, 0)
    (rejected,) = (setup.lake / "_rejected").glob("*.parquet")
    (row,) = pq.read_table(rejected).to_pylist()
    assert (row["payload"], row["iggy_offset"]) == (bad, 3)
    assert "$.number" in row["error"]


def test_a_recreated_topic_stops_the_job_or_is_read_anew(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    topic.send(0, documents(0, 5))
    setup.run(spark)
    topic.recreate(2)
    topic.send(0, documents(0, 3))

    with pytest.raises(TopicRecreated, match="onTopicRecreated to Restart"):
        setup.run(spark)
    assert len(setup.rows()) == 5
    setup.value["sink"]["onTopicRecreated"] = "Restart"
    setup.run(spark)
    assert len(setup.rows()) == 8


def test_a_purged_topic_is_a_loss(spark: SparkSession, topic: "Topic", setup: Setup) -> None:
    topic.send(0, documents(0, 9))
    setup.run(spark)
    topic.client.purge_topic(topic.stream, topic.name)
    topic.send(0, documents(0, 2))

    with pytest.raises(DataLoss, match=r"the target holds offsets up to 8.*purged"):
        setup.run(spark)


def test_an_exception_inside_the_batch_function_fails_the_job(
    spark: SparkSession, topic: "Topic", setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: FilesSink, results: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(FilesSink, "commit", broken)
    topic.send(0, documents(0, 5))

    with pytest.raises(SinkError, match="ZeroDivisionError: a bug of ours") as caught:
        setup.run(spark)

    assert caught.value.exit_code == EXIT_FAILED
    assert (topic.stored("lake", 0), topic.members("lake")) == (None, 0)


def test_raw_and_text_payloads(spark: SparkSession, topic: "Topic", tmp_path: Path) -> None:
    topic.send(0, ["\u00e9".encode(), b"b"])
    found = []
    for form in ("Raw", "Text"):
        setup = Setup(topic, tmp_path / form, payload={"format": form})
        (tmp_path / form).mkdir()
        setup.value["sink"]["files"]["partitionBy"] = []
        setup.run(spark)
        table = ds.dataset(setup.lake, format="parquet").to_table()
        found.append(table.column(0).to_pylist())

    assert found == [["\u00e9".encode(), b"b"], ["\u00e9", "b"]]


def test_the_console_shows_the_first_rows(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    topic.send(0, documents(0, 30))
    del setup.value["sink"]["files"]
    setup.value["sink"]["type"] = "Console"

    events = setup.run(spark)

    shown = [event["row"]["number"] for event in events if event["event"] == "row"]
    assert shown == list(range(20))
    assert events[-1]["lag"] == 0


# From here on in processes of their own, as whoever starts the job sees it.


def test_sigterm_finishes_the_batch_and_the_next_run_goes_on(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    topic.send(0, documents(0, 400))
    topic.send(1, documents(0, 400))
    setup.value |= {"once": False}
    setup.value["sink"]["maxOffsetsPerTrigger"] = 50

    process = start(setup)
    assert process.stdout is not None
    events = []
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["event"] == "progress" and events[-1]["batch"] == 2:
            process.send_signal(signal.SIGTERM)
    _, noise = process.communicate(timeout=PROCESS_S)

    assert (process.returncode, noise) == (0, "")
    stopped = events[-1]
    assert (stopped["event"], stopped["reason"]) == ("stopped", "signal")
    done = {int(number): end for number, end in stopped["committed"].items()}
    assert 0 < sum(done.values()) < 800
    assert setup.rows() == every(p0=done[0], p1=done[1])
    assert {n: topic.stored("lake", n) for n in done} == {n: end - 1 for n, end in done.items()}
    written = [path for path in setup.checkpoint.rglob("*") if path.is_file()]
    assert any(path.name == "spark.log" for path in written)
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []
    setup.value |= {"once": True}
    setup.value["sink"]["maxOffsetsPerTrigger"] = 500
    assert setup.run(spark)[-1]["lag"] == 0
    assert setup.rows() == every(p0=400, p1=400)


def test_sigterm_before_spark_is_imported_ends_it_at_once(setup: Setup) -> None:
    setup.value |= {"once": False}

    process = start(setup)
    wait_until(lambda: listens(process.pid, signal.SIGTERM), "a handler for SIGTERM")
    process.send_signal(signal.SIGTERM)
    out, noise = process.communicate(timeout=PROCESS_S)

    assert (process.returncode, noise) == (0, "")
    (event,) = [json.loads(line) for line in out.splitlines()]
    assert (event["event"], event["reason"]) == ("stopped", "signal")
    assert not setup.checkpoint.exists()


def listens(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal (proc(5), `SigCgt`)."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (caught,) = re.findall(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return bool(int(caught, 16) & 1 << number - 1)


@pytest.mark.parametrize(
    ("changes", "environ", "code", "told"),
    [
        ({}, {"IGGY_PASSWORD": "not-the-password"}, 1, "refuses the login"),
        ({}, {"IGGY_PASSWORD": ""}, 2, "IGGY_PASSWORD is not set"),
        ({"topic": "none"}, {}, 1, "topic 'none' in stream"),
        ({"checkpoint": "/proc/none"}, {}, 1, "checkpoint: /proc/none cannot be written"),
        ({"files": {"path": "/proc/lake"}}, {}, 1, "files.path: /proc/lake cannot be written"),
        ({}, {"JAVA_HOME": "/none"}, 1, "Java 17 or newer"),
        ({"sink": {"type": "Kafka"}}, {}, 2, "sink.type: Kafka"),
        ({"colour": "red"}, {}, 2, "unknown field `colour`"),
    ],
)
def test_a_job_that_cannot_start_says_why_and_ends_with_its_code(
    setup: Setup, changes: dict[str, Any], environ: dict[str, str], code: int, told: str
) -> None:
    if "files" in changes:
        setup.value["sink"] |= changes
    else:
        setup.value |= changes
    began = time.monotonic()

    process = start(setup, **environ)
    out, reason = process.communicate(timeout=PROCESS_S)

    assert process.returncode == code
    assert told in reason
    assert len(reason.splitlines()) == 1
    assert json.loads(out)["event"] == "failed"
    assert "not-the-password" not in out + reason
    assert time.monotonic() - began < PROCESS_S


def test_a_second_job_on_the_same_checkpoint_is_kept_out(setup: Setup) -> None:
    from iggy_spark.checkpoint import Checkpoint

    held = Checkpoint(setup.checkpoint)
    process = start(setup)
    _, reason = process.communicate(timeout=PROCESS_S)
    held.close()

    assert process.returncode == 3
    assert "held by another running job" in reason


def test_an_unreachable_broker_fails_the_job(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iggy_spark.job.CONTACT_MS", 50)
    setup.value["broker"]["address"] = "127.0.0.1:9"
    config = job_config.load(setup.write())

    from iggy_spark.errors import BrokerUnavailable

    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9 was not reached within 0\.05 s"):
        Job(config, LOGIN, Reporter(io.StringIO()), stop=Stop(signals=False)).run()
