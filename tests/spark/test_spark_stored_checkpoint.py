"""A checkpoint in an object store: what a start finds, whoever ended the job before, and when.

What Spark writes is written by hand; with Spark: test_spark_other_machines.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iggy_spark import driver_mark, job_config
from iggy_spark.errors import Fenced, OptionError, TopicRecreated
from iggy_spark.stored_checkpoint import StoredCheckpoint
from remote_checkpoint import RemoteCheckpoint
from sink_jobs import Setup

if TYPE_CHECKING:
    from conftest import Topic

LIFE = "7-1700000000000000"


@pytest.fixture
def setup(topic: "Topic", remote: RemoteCheckpoint, tmp_path: Path) -> Setup:
    made = Setup(topic, tmp_path)
    remote.put_into(made)
    return made


@pytest.fixture
def first(remote: RemoteCheckpoint) -> Iterator[StoredCheckpoint]:
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
    remote: RemoteCheckpoint, first: StoredCheckpoint, elsewhere: Callable[[], None]
) -> None:
    plan(first, 0)
    first.keep(LIFE)
    elsewhere()
    with closing(remote.open()) as second:
        second.committed(LIFE)
        plan(second, 1, "of the second")
        second.keep(LIFE)

        plan(first, 1, "of the first, which was frozen meanwhile")
        with pytest.raises(Fenced, match=r"another run of this job has written .*offsets/1"):
            first.keep(LIFE)

    assert remote.bucket.get(f"{LIFE}/spark/offsets/1") == b"of the second"


def test_an_answer_that_was_lost_is_no_other_driver(
    remote: RemoteCheckpoint, first: StoredCheckpoint
) -> None:
    plan(first, 0)
    remote.bucket.put_once(f"{LIFE}/spark/offsets/0", b"v1\n{}\n{}")

    first.keep(LIFE)

    assert remote.names() == ["spark/offsets/0"]


def test_what_spark_drops_goes_from_the_store(
    remote: RemoteCheckpoint, first: StoredCheckpoint
) -> None:
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
    remote: RemoteCheckpoint, first: StoredCheckpoint
) -> None:
    plan(first, 0)
    commit(first, 0)
    first.keep(LIFE)
    shutil.rmtree(first.spark(LIFE))

    first.keep(LIFE)

    assert remote.names() == ["spark/commits/0", "spark/offsets/0"]


def test_an_end_counts_when_the_store_has_it(
    remote: RemoteCheckpoint, first: StoredCheckpoint
) -> None:
    plan(first, 0)
    assert not first.has_committed(LIFE, 0)
    commit(first, 0)

    assert first.has_committed(LIFE, 0)

    assert remote.names() == ["spark/commits/0", "spark/offsets/0"]


def test_another_life_of_the_topic_is_noticed_and_begins_anew(
    remote: RemoteCheckpoint, first: StoredCheckpoint, elsewhere: Callable[[], None]
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


def test_a_task_of_an_earlier_driver_lets_nothing_appear(remote: RemoteCheckpoint) -> None:
    mark = driver_mark.StoreMark(remote.bucket)
    before = mark.take_over(should_stop=lambda: False)
    assert before is not None
    with mark.writing(before) as confirm:
        confirm()
        now = mark.take_over(should_stop=lambda: False)
        with pytest.raises(Fenced, match="another run of this job has taken over"):
            confirm()
    with pytest.raises(Fenced), mark.writing(before):
        pass

    assert now is not None
    with mark.writing(now) as confirm:
        confirm()


def test_a_checkpoint_belongs_to_one_sink(
    remote: RemoteCheckpoint, setup: Setup, elsewhere: Callable[[], None]
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


def test_a_second_job_on_this_machine_is_kept_out(
    remote: RemoteCheckpoint, first: StoredCheckpoint
) -> None:
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
