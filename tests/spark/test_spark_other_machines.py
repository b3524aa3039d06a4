"""A sink job whose checkpoint is in an object store: it goes on wherever it is started next."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from iggy_spark import driver_mark, s3
from iggy_spark.errors import SinkError
from lakes import BucketLake, rows_of
from remote_checkpoint import RemoteCheckpoint
from sink_jobs import Setup, documents, every, is_over, kill_while_it_writes
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic


@pytest.fixture
def setup(topic: "Topic", bucket: BucketLake, remote: RemoteCheckpoint, tmp_path: Path) -> Setup:
    """Data and checkpoint in the store."""
    made = Setup(topic, tmp_path)
    made.value["sink"]["files"] |= bucket.settings()
    remote.put_into(made)
    return made


def test_a_job_goes_on_where_another_machine_stopped(
    spark: SparkSession,
    topic: "Topic",
    setup: Setup,
    bucket: BucketLake,
    remote: RemoteCheckpoint,
    elsewhere: Callable[[], None],
) -> None:
    topic.send(0, documents(0, 100))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 60
    assert setup.run(spark)[-1]["lag"] == 0
    names = [f"spark/{kind}/{n}" for kind in ("commits", "offsets") for n in (0, 1)]
    assert remote.names() == sorted([*names, "spark/metadata", "state/initial.json"])

    elsewhere()
    topic.send(0, documents(100, 130))
    events = setup.run(spark)

    assert events[0]["committed"] == {"0": 100, "1": 0}
    assert [event["rows"] for event in events if event["event"] == "progress"] == [30]
    assert rows_of(bucket) == every(p0=130)
    assert topic.stored("lake", 0) == 129
    assert {"spark/offsets/2", "spark/commits/2"} < set(remote.names())


def test_a_lost_checkpoint_makes_no_duplicates(
    spark: SparkSession,
    topic: "Topic",
    setup: Setup,
    bucket: BucketLake,
    remote: RemoteCheckpoint,
    elsewhere: Callable[[], None],
) -> None:
    topic.send(0, documents(0, 100))
    setup.run(spark)
    remote.empty()
    elsewhere()
    topic.send(0, documents(100, 150))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 7  # other ranges than before

    setup.run(spark)

    assert rows_of(bucket) == every(p0=150)


# Where the job ends, whether its object is made by then, and what the batch that is repeated holds.
STEPS = [
    ("state/initial.json", True, None),
    ("spark/offsets/0", True, 40),
    ("spark/commits/0", False, 40),
    ("spark/offsets/1", False, None),
    ("spark/offsets/1", True, 40),
    ("spark/commits/1", False, 40),
]


def dying(step: str, *, is_made: bool) -> Callable[[s3.Bucket, str, bytes], bool]:
    """Makes objects, up to this one."""
    real = s3.Bucket.put_once

    def put_once(self: s3.Bucket, key: str, data: bytes) -> bool:
        if not key.endswith(step):
            return real(self, key, data)
        if is_made:
            real(self, key, data)
        raise s3.StoreError("the machine is gone")

    return put_once


@pytest.mark.parametrize("end", STEPS, ids=str)
def test_a_job_that_ends_at_any_step_repeats_its_batch_as_it_was_planned(
    spark: SparkSession,
    topic: "Topic",
    setup: Setup,
    bucket: BucketLake,
    elsewhere: Callable[[], None],
    end: tuple[str, bool, int | None],
) -> None:
    step, is_made, planned = end
    topic.send(0, documents(0, 50))
    topic.send(1, documents(0, 30))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 40
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(s3.Bucket, "put_once", dying(step, is_made=is_made))
        with pytest.raises(SinkError, match="checkpoint: the machine is gone"):
            setup.run(spark)
    before = rows_of(bucket) if bucket.files() else []
    elsewhere()
    topic.send(0, documents(50, 70))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 1000

    events = setup.run(spark)

    assert before in ([], every(p0=25, p1=15), every(p0=50, p1=30))
    assert rows_of(bucket) == every(p0=70, p1=30)
    assert bucket.left() == []
    batches = [event for event in events if event["event"] == "progress"]
    if planned:  # it is the one that was planned, however much there is by now
        assert batches[0]["rows"] + batches[0]["skipped"] == planned


def test_a_killed_job_is_taken_over_by_another_machine(
    spark: SparkSession,
    topic: "Topic",
    setup: Setup,
    bucket: BucketLake,
    elsewhere: Callable[[], None],
    tmp_path: Path,
) -> None:
    topic.send(0, documents(0, 300))
    topic.send(1, documents(0, 300))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 40
    killed = kill_while_it_writes(setup, TMPDIR=str(tmp_path))
    elsewhere()
    setup.value["sink"]["maxOffsetsPerTrigger"] = 90

    events = setup.run(spark)

    assert sum(events[0]["committed"].values()) >= 120, "what was committed is known"
    assert rows_of(bucket) == every(p0=300, p1=300)
    # A task that outlived its driver may have uploaded meanwhile; the next start drops that.
    wait_until(lambda: is_over(killed), "the end of the killed job's processes")
    setup.run(spark)
    assert rows_of(bucket) == every(p0=300, p1=300)
    assert bucket.left() == []


def test_files_in_a_folder_with_the_checkpoint_in_a_store(
    spark: SparkSession, topic: "Topic", remote: RemoteCheckpoint, tmp_path: Path
) -> None:
    setup = Setup(topic, tmp_path)
    remote.put_into(setup)
    topic.send(0, documents(0, 20))

    setup.run(spark)

    assert setup.rows() == every(p0=20)
    assert (setup.lake / "_iggy" / driver_mark.NAME).exists(), "where a lock holds"
    assert "driver" not in remote.bucket.list_keys()


def test_a_store_that_is_not_there_is_named(spark: SparkSession, setup: Setup) -> None:
    setup.value["checkpointStore"]["endpoint"] = "http://127.0.0.1:9"

    with pytest.raises(SinkError, match=r"checkpoint: s3a://tests/.*:9"):
        setup.run(spark)
