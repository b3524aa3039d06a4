"""The sink job into a real PostgreSQL: crashes, replays, a lost checkpoint, outages, bad rows."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from dead_letter_topics import letters
from iggy_spark.errors import BadPayload, DataLoss
from jdbc_cases import Scene
from postgres import Postgres, running_postgres
from sink_jobs import PROCESS_S, Setup, documents, every, is_over, start
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.timeout(600)  # Javas of their own, on a busy machine


@pytest.fixture
def scene(postgres: Postgres) -> Scene:
    return Scene(postgres)


def setup_of(topic: Topic, scene: Scene, folder: Path, **sink: Any) -> Setup:
    block = {
        "url": scene.server.url,
        "table": scene.table,
        "credentialsPath": str(scene.server.login),
        **sink.pop("jdbc", {}),
    }
    return Setup(topic, folder, **{"type": "Jdbc", "files": None, "jdbc": block, **sink})


@pytest.fixture
def setup(topic: Topic, scene: Scene, tmp_path: Path) -> Setup:
    return setup_of(topic, scene, tmp_path)


def rows(scene: Scene) -> list[tuple[int, int]]:
    """(partition, offset) of every row in the table."""
    query = f"select iggy_partition_id, iggy_offset from {scene.table} order by 1, 2"
    return [(partition, offset) for partition, offset in scene.run(query)]


def total(events: list[dict[str, Any]], name: str) -> int:
    return sum(event[name] for event in events if event["event"] == "progress")


def forget_the_last_batch(setup: Setup) -> None:
    """As if the job had died after the target's commit, before Spark's commit log."""
    (folder,) = setup.checkpoint.glob("*/spark/commits")
    newest = max((path for path in folder.iterdir() if path.name.isdigit()), key=_number)
    newest.unlink()
    (folder / f".{newest.name}.crc").unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.name)


def test_a_repeated_batch_and_a_lost_checkpoint_change_nothing(
    spark: SparkSession, topic: Topic, setup: Setup, scene: Scene
) -> None:
    topic.send(0, documents(0, 300))
    topic.send(1, documents(0, 40))
    setup.value["sink"] |= {"maxOffsetsPerTrigger": 150, "delivery": "ExactlyOnce"}
    assert setup.run(spark)[-1]["lag"] == 0
    assert rows(scene) == every(p0=300, p1=40)

    forget_the_last_batch(setup)
    topic.send(1, documents(40, 50))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 7  # another plan than before
    events = setup.run(spark)

    assert rows(scene) == every(p0=300, p1=50)
    assert (total(events, "rows"), total(events, "skipped") > 0) == (10, True)

    shutil.rmtree(setup.checkpoint)
    topic.send(0, documents(300, 310))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 1000
    events = setup.run(spark)

    assert rows(scene) == every(p0=310, p1=50)
    assert (total(events, "rows"), events[-1]["lag"]) == (10, 0)
    found = scene.run(f"select number, month, delay from {scene.table} where iggy_offset = 35")
    assert found == [(35, 12, 17.5)] * 2


def test_a_purged_topic_is_a_loss(
    spark: SparkSession, topic: Topic, setup: Setup, scene: Scene
) -> None:
    topic.send(0, documents(0, 9))
    setup.run(spark)
    shutil.rmtree(setup.checkpoint)
    topic.client.purge_topic(topic.stream, topic.name)

    with pytest.raises(DataLoss, match=r"the target holds offsets up to 8.*purged"):
        setup.run(spark)


def test_a_row_that_violates_a_constraint_becomes_a_dead_letter(
    spark: SparkSession, topic: Topic, setup: Setup, scene: Scene
) -> None:
    scene.make("number bigint, month int, delay float8, at timestamptz, iggy_partition_id int, "
               "iggy_offset bigint, check (number <> 617)")  # fmt: skip
    topic.send(0, documents(0, 1000))
    setup.value["sink"]["errors"] = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}

    events = setup.run(spark)

    assert rows(scene) == [row for row in every(p0=1000) if row[1] != 617]
    assert [total(events, name) for name in ("rows", "rejected", "dead")] == [999, 1, 1]
    ((letter, headers),) = letters(topic)
    assert letter.payload == documents(617, 618)[0]
    assert headers["iggy.dlq.offset"] == 617
    assert (headers["iggy.dlq.stage"], headers["iggy.dlq.error_class"]) == ("write", "23514")
    assert "orders_number_check" in str(headers["iggy.dlq.error"])


def test_what_was_refused_comes_before_what_was_sent_later(
    spark: SparkSession, topic: Topic, setup: Setup, scene: Scene
) -> None:
    """Refused, stopped, healed, and only then the next message: none is skipped."""
    scene.make("number bigint check (number < 3), month int, delay float8, at timestamptz, "
               "iggy_partition_id int, iggy_offset bigint, serial bigint "
               "generated always as identity")  # fmt: skip
    topic.send(0, documents(0, 4))
    with pytest.raises(BadPayload, match=r"partition 0 offset 3: the target refuses .*23514"):
        setup.run(spark)
    assert rows(scene) == []

    scene.run(f"alter table {scene.table} drop constraint orders_number_check")
    topic.send(0, documents(4, 6))
    setup.run(spark)

    found = scene.run(f"select iggy_offset from {scene.table} order by serial")
    assert found == [(n,) for n in range(6)]


def test_an_outage_sets_nothing_aside(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    with running_postgres(fsync="off") as server:
        scene = Scene(server)
        errors = {"tolerance": "Data", "deadLetter": {"topic": "dead"}}
        setup = setup_of(topic, scene, tmp_path, errors=errors)
        topic.send(0, documents(0, 100))
        setup.run(spark)
        topic.send(0, documents(100, 200))
        server.kill()
        back = threading.Timer(5, server.start)
        back.start()

        events = setup.run(spark)

        back.join()
        assert rows(scene) == every(p0=200)
        assert [total(events, name) for name in ("rows", "dead", "rejected")] == [100, 0, 0]
        assert letters(topic) == []


def test_the_last_state_of_each_key(
    spark: SparkSession, topic: Topic, scene: Scene, tmp_path: Path
) -> None:
    setup = setup_of(
        topic, scene, tmp_path, jdbc={"mode": "Upsert", "keyColumns": ["month"]},
        payload={"format": "Json", "schema": "month INT NOT NULL, number BIGINT"},
    )  # fmt: skip
    setup.value["sink"]["maxOffsetsPerTrigger"] = 50
    topic.send(0, documents(0, 120))
    setup.run(spark)

    forget_the_last_batch(setup)
    setup.value["sink"]["maxOffsetsPerTrigger"] = 1000
    setup.run(spark)
    shutil.rmtree(setup.checkpoint)
    setup.run(spark)

    found = scene.run(f"select month, number from {scene.table} order by month")
    assert found == [(n % 12 + 1, n) for n in range(108, 120)]


# A crash after the commit, before Spark knows of it, is `forget_the_last_batch`.
WAIT = 7_041  # number of the lock that a killed job's statements wait for
STEPS = {
    "before the rows": ("before insert", "orders"),
    "before the commit": ("after update", "iggy_sink_offsets"),
}


@pytest.mark.parametrize(
    "step", [pytest.param("before the rows", marks=pytest.mark.long), "before the commit"]
)
def test_a_job_that_is_killed_writes_everything_once(
    spark: SparkSession, topic: Topic, setup: Setup, scene: Scene, step: str
) -> None:
    topic.send(0, documents(0, 100))
    setup.run(spark)
    topic.send(0, documents(100, 300))
    topic.send(1, documents(0, 50))
    stop_at(scene, *STEPS[step])
    setup.value["sink"]["spark"] = {"driver": {"cores": 3}}  # another number than afterwards

    with lock_held(scene):
        process = start(setup)
        wait_until(lambda: waiting(scene), f"the job comes to: {step}", PROCESS_S)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PROCESS_S)
        wait_until(lambda: is_over(process.pid), "its processes end")
    assert process.returncode == -signal.SIGKILL
    assert rows(scene) == every(p0=100)

    setup.run(spark)

    assert rows(scene) == every(p0=300, p1=50)


def stop_at(scene: Scene, event: str, table: str) -> None:
    """From now on a statement of this kind waits for whoever holds the lock."""
    scene.run(
        f"create function {scene.schema}.wait() returns trigger language plpgsql as $$ begin "
        f"perform pg_advisory_xact_lock_shared({WAIT}); return null; end $$",
        f"create trigger waiting {event} on {scene.schema}.{table} for each statement "
        f"execute function {scene.schema}.wait()",
    )


def waiting(scene: Scene) -> bool:
    query = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    return scene.run(query) != [(0,)]


@contextmanager
def lock_held(scene: Scene) -> Iterator[None]:
    with scene.server.connect() as other, other.transaction():
        other.execute(f"select pg_advisory_xact_lock({WAIT})".encode())
        yield
