"""A checkpoint in an object store: what a start finds, whoever ended the job before, and when."""

import itertools
import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from iggy_spark import driver_mark, job_config, s3
from iggy_spark.errors import Fenced, OptionError, SinkError, TopicRecreated
from iggy_spark.stored_checkpoint import StoredCheckpoint
from lakes import BucketLake, table_of
from object_store import ObjectStore
from sink_jobs import PROCESS_S, Setup, documents, every, start

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.timeout(300)  # a session takes a while to start on a busy machine

LIFE = "7-1700000000000000"
_numbers = itertools.count()


class Remote:
    """A place in the store, and what lies there seen past the job."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.prefix = f"checkpoints/{next(_numbers)}"
        self.address = f"s3a://{store.common_bucket}/{self.prefix}"
        self.connection = s3.Connection(
            endpoint=store.endpoint, path_style=True, credentials_path=str(store.login)
        )
        self.bucket = s3.Bucket(self.address, self.connection)
        self._store, self._folder = store, folder

    def open(self) -> StoredCheckpoint:
        return StoredCheckpoint(self.address, self.connection)

    def put_into(self, setup: Setup) -> None:
        login = self.connection.credentials_path
        setup.value["checkpoint"] = self.address
        setup.value["checkpointStore"] = {
            "endpoint": self.connection.endpoint, "pathStyle": True, "credentialsPath": login,
        }  # fmt: skip

    def names(self) -> list[str]:
        """Below the topic's life."""
        return sorted(key.partition("/")[2] for key in self.bucket.list_keys() if "/" in key)

    def empty(self) -> None:
        for key in list(self.bucket.list_keys()):
            self.bucket.delete(key)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on this is another machine: it has none of the files that were there."""

    def move() -> None:
        folder = tmp_path / f"machine-{next(_numbers)}"
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))

    move()
    return move


@pytest.fixture
def remote(store: ObjectStore, tmp_path: Path, elsewhere: object) -> Remote:
    return Remote(store, tmp_path)


@pytest.fixture
def setup(topic: "Topic", bucket: BucketLake, remote: Remote, tmp_path: Path) -> Setup:
    """Data and checkpoint in the store."""
    made = Setup(topic, tmp_path)
    made.value["sink"]["files"] |= bucket.settings()
    remote.put_into(made)
    return made


def rows(lake: BucketLake) -> list[tuple[int, int]]:
    """(partition, offset) of every row in the bucket."""
    table = table_of(lake)
    columns = (table.column(f"iggy_{name}").to_pylist() for name in ("partition_id", "offset"))
    return sorted(zip(*columns, strict=True))


def test_a_job_goes_on_where_another_machine_stopped(
    spark: SparkSession,
    topic: "Topic",
    setup: Setup,
    bucket: BucketLake,
    remote: Remote,
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
    assert rows(bucket) == every(p0=130)
    assert topic.stored("lake", 0) == 129
    assert {"spark/offsets/2", "spark/commits/2"} < set(remote.names())


def test_a_lost_checkpoint_makes_no_duplicates(
    spark: SparkSession,
    topic: "Topic",
    setup: Setup,
    bucket: BucketLake,
    remote: Remote,
    elsewhere: Callable[[], None],
) -> None:
    topic.send(0, documents(0, 100))
    setup.run(spark)
    remote.empty()
    elsewhere()
    topic.send(0, documents(100, 150))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 7  # other ranges than before

    setup.run(spark)

    assert rows(bucket) == every(p0=150)


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
    before = rows(bucket) if bucket.files() else []
    elsewhere()
    topic.send(0, documents(50, 70))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 1000

    events = setup.run(spark)

    assert before in ([], every(p0=25, p1=15), every(p0=50, p1=30))
    assert rows(bucket) == every(p0=70, p1=30)
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
    process = start(setup, TMPDIR=str(tmp_path))
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("batch") == 3:  # the next one is being written
            process.kill()
    process.communicate(timeout=PROCESS_S)
    assert process.returncode == -signal.SIGKILL
    elsewhere()
    setup.value["sink"]["maxOffsetsPerTrigger"] = 90

    events = setup.run(spark)

    assert sum(events[0]["committed"].values()) >= 120, "what was committed is known"
    assert rows(bucket) == every(p0=300, p1=300)
    assert bucket.left() == []


def test_files_in_a_folder_with_the_checkpoint_in_a_store(
    spark: SparkSession, topic: "Topic", remote: Remote, tmp_path: Path
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


# From here on without Spark: what it writes is written by hand.


@pytest.fixture
def first(remote: Remote) -> Iterator[StoredCheckpoint]:
    with closing(remote.open()) as checkpoint:
        checkpoint.committed(LIFE)
        yield checkpoint


def plan(checkpoint: StoredCheckpoint, batch: int, text: str = "v1\n{}\n{}") -> None:
    _write(checkpoint.spark(LIFE) / "offsets" / str(batch), text)


def commit(checkpoint: StoredCheckpoint, batch: int) -> None:
    _write(checkpoint.spark(LIFE) / "commits" / str(batch), "v1\n{}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_of_two_that_do_not_know_of_one_another_the_later_one_ends(
    remote: Remote, first: StoredCheckpoint, elsewhere: Callable[[], None]
) -> None:
    plan(first, 0)
    first.keep(LIFE)
    elsewhere()
    with closing(remote.open()) as second:
        second.committed(LIFE)
        plan(second, 1, "of the second")
        second.keep(LIFE)

        plan(first, 1, "of the first, which was frozen meanwhile")
        with pytest.raises(Fenced, match=r"another run of this sink has written .*offsets/1"):
            first.keep(LIFE)

    assert remote.bucket.get(f"{LIFE}/spark/offsets/1") == b"of the second"


def test_an_answer_that_was_lost_is_no_other_driver(
    remote: Remote, first: StoredCheckpoint
) -> None:
    plan(first, 0)
    remote.bucket.put_once(f"{LIFE}/spark/offsets/0", b"v1\n{}\n{}")

    first.keep(LIFE)

    assert remote.names() == ["spark/offsets/0"]


def test_what_spark_drops_goes_from_the_store(remote: Remote, first: StoredCheckpoint) -> None:
    for batch in range(3):
        plan(first, batch)
        commit(first, batch)
    first.keep(LIFE)
    for kind in ("offsets", "commits"):
        (first.spark(LIFE) / kind / "0").unlink()

    first.keep(LIFE)

    assert remote.names() == [
        f"spark/{kind}/{n}" for kind in ("commits", "offsets") for n in (1, 2)
    ]


def test_a_copy_that_somebody_emptied_takes_nothing_from_the_store(
    remote: Remote, first: StoredCheckpoint
) -> None:
    plan(first, 0)
    commit(first, 0)
    first.keep(LIFE)
    shutil.rmtree(first.spark(LIFE))

    first.keep(LIFE)

    assert remote.names() == ["spark/commits/0", "spark/offsets/0"]


def test_an_end_counts_when_the_store_has_it(remote: Remote, first: StoredCheckpoint) -> None:
    plan(first, 0)
    assert not first.has_committed(LIFE, 0)
    commit(first, 0)

    assert first.has_committed(LIFE, 0)

    assert remote.names() == ["spark/commits/0", "spark/offsets/0"]


def test_another_life_of_the_topic_is_noticed_and_begins_anew(
    remote: Remote, first: StoredCheckpoint, elsewhere: Callable[[], None]
) -> None:
    plan(first, 0)
    first.keep(LIFE)
    elsewhere()

    with closing(remote.open()) as second:
        with pytest.raises(TopicRecreated, match=f"this sink read {LIFE}"):
            second.check_incarnation("8-1", restart=False)
        second.check_incarnation("8-1", restart=True)
        assert second.committed("8-1") is None
        second.keep("8-1")

    assert remote.names() == ["spark/offsets/0"]


def test_a_task_of_an_earlier_driver_lets_nothing_appear(remote: Remote) -> None:
    mark = driver_mark.StoreMark(remote.bucket)
    before = mark.take_over(should_stop=lambda: False)
    assert before is not None
    with mark.writing(before) as confirm:
        confirm()
        now = mark.take_over(should_stop=lambda: False)
        with pytest.raises(Fenced, match="another run of this sink has taken over"):
            confirm()
    with pytest.raises(Fenced), mark.writing(before):
        pass

    assert now is not None
    with mark.writing(now) as confirm:
        confirm()


def test_a_checkpoint_belongs_to_one_sink(
    remote: Remote, setup: Setup, elsewhere: Callable[[], None]
) -> None:
    with closing(remote.open()) as checkpoint:
        checkpoint.remember(job_config.load(setup.write()))
    elsewhere()
    setup.value["name"] = "another"

    with (
        closing(remote.open()) as checkpoint,
        pytest.raises(OptionError, match="checkpoint: it belongs to the sink 'lake'"),
    ):
        checkpoint.remember(job_config.load(setup.write()))


def test_a_second_job_on_this_machine_is_kept_out(remote: Remote, first: StoredCheckpoint) -> None:
    with pytest.raises(Fenced, match="held by another running job"):
        remote.open()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"checkpoint": "s3a://no"}, "checkpoint: 's3a://no' is no address"),
        ({"checkpoint": "gs://lake/c"}, "checkpoint: 'gs://lake/c' must be an absolute path, or"),
        ({"checkpoint": "/c"}, "checkpointStore: goes with an address"),
    ],
)
def test_a_place_that_cannot_be_is_refused(
    setup: Setup, changes: dict[str, str], told: str
) -> None:
    setup.value |= changes

    with pytest.raises(OptionError, match=told):
        job_config.load(setup.write())
