"""The sink job as it runs in a cluster: into a bucket, with a login from files, ended by others."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.sql import SparkSession

from iggy_spark import alive
from iggy_spark.errors import EXIT_STOPPED, BrokerRefused, SinkError
from lakes import BucketLake, rows_of
from quick_java import QUICK
from sink_jobs import (
    LOGIN,
    PROCESS_S,
    Setup,
    documents,
    every,
    is_over,
    kill_while_it_writes,
    start,
)
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.timeout(600)  # Javas of their own, on a busy machine


@pytest.fixture
def setup(topic: "Topic", bucket: BucketLake, tmp_path: Path) -> Setup:
    made = Setup(topic, tmp_path)
    made.value["sink"]["files"] |= bucket.settings()
    return made


def test_a_topic_ends_in_a_bucket_also_with_a_lost_checkpoint(
    spark: SparkSession, topic: "Topic", setup: Setup, bucket: BucketLake
) -> None:
    topic.send(0, documents(0, 100))
    topic.send(1, documents(0, 10))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 60

    assert setup.run(spark)[-1]["lag"] == 0
    assert rows_of(bucket) == every(p0=100, p1=10)
    shutil.rmtree(setup.checkpoint)
    topic.send(0, documents(100, 150))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 7  # other ranges than before
    events = setup.run(spark)

    assert rows_of(bucket) == every(p0=150, p1=10)
    assert sum(event["rows"] for event in events if event["event"] == "progress") == 50
    assert bucket.left() == []


@pytest.mark.long  # a Java of its own; at each request of a task: test_spark_bucket
def test_a_job_that_is_killed_at_any_moment_writes_everything_once(
    spark: SparkSession, topic: "Topic", setup: Setup, bucket: BucketLake
) -> None:
    topic.send(0, documents(0, 300))
    topic.send(1, documents(0, 300))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 40
    killed = kill_while_it_writes(setup)
    shutil.rmtree(setup.checkpoint)
    setup.value["sink"]["maxOffsetsPerTrigger"] = 90

    setup.run(spark)

    assert rows_of(bucket) == every(p0=300, p1=300)
    # A task that outlived its driver may have uploaded meanwhile; the next start drops that.
    wait_until(lambda: is_over(killed), "the end of the killed job's processes")
    setup.run(spark)
    assert rows_of(bucket) == every(p0=300, p1=300)
    assert bucket.left() == []


def test_a_bucket_that_is_not_there_is_named(
    spark: SparkSession, topic: "Topic", setup: Setup
) -> None:
    setup.value["sink"]["files"]["s3"]["endpoint"] = "http://127.0.0.1:9"

    with pytest.raises(SinkError, match=r"files\.path: s3a://tests/.* cannot be written: .*:9"):
        setup.run(spark)


def test_a_login_from_files_may_be_rotated(
    spark: SparkSession, topic: "Topic", setup: Setup, tmp_path: Path
) -> None:
    login = topic.user(read_topic=True)
    folder = tmp_path / "secret"
    folder.mkdir()
    for name, text in login.items():
        (folder / name).write_text(text)
    setup.value["broker"]["credentialsPath"] = str(folder)
    setup.login = {}
    topic.send(0, documents(0, 5))
    assert setup.run(spark)[-1]["lag"] == 0

    topic.client.change_password(login["username"], login["password"], "another-one")
    topic.send(0, documents(5, 9))
    with pytest.raises(BrokerRefused, match="refuses the login"):
        setup.run(spark)
    (folder / "password").write_text("another-one")

    assert setup.run(spark)[-1]["committed"]["0"] == 9


def test_a_job_for_what_is_there_that_is_stopped_early_says_so(
    spark: SparkSession, topic: "Topic", setup: Setup, bucket: BucketLake, tmp_path: Path
) -> None:
    topic.send(0, documents(0, 400))
    setup.value["sink"]["maxOffsetsPerTrigger"] = 20
    setup.value["aliveFile"] = str(tmp_path / "alive.json")
    process = start(setup)
    assert process.stdout is not None
    signs = []
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "progress" and event["batch"] == 2:
            signs.append(alive.is_well(tmp_path / "alive.json"))
            process.send_signal(signal.SIGTERM)
    _, noise = process.communicate(timeout=PROCESS_S)

    assert (process.returncode, noise, signs) == (EXIT_STOPPED, "", [True])
    assert event["reason"] == "signal"
    assert event["lag"] > 0
    setup.value["sink"]["maxOffsetsPerTrigger"] = 500
    assert setup.run(spark)[-1]["lag"] == 0
    assert rows_of(bucket) == every(p0=400)


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The machine's clock, in a list of one."""
    clock = [1000.0]
    monkeypatch.setattr(alive.time, "monotonic", lambda: clock[0])
    return clock


def test_a_job_is_well_while_batches_end_or_there_is_nothing_to_do(
    tmp_path: Path, now_s: list[float]
) -> None:
    file = tmp_path / "alive.json"
    sign = alive.Sign(str(file), interval_ms=1000)
    assert not alive.is_well(file)
    sign.moved()
    sign.write()
    assert alive.is_well(file)

    now_s[0] += alive.STUCK_S_MIN - 1
    sign.write()
    assert alive.is_well(file)
    now_s[0] += 2  # the query is stuck, and the job knows it
    sign.write()
    assert not alive.is_well(file)
    sign.moved()
    sign.write()
    assert not alive.is_well(file)  # as a second has not passed
    now_s[0] += 2
    sign.write()
    assert alive.is_well(file)


def test_long_intervals_are_allowed_for_and_frozen_jobs_are_not(
    tmp_path: Path, now_s: list[float]
) -> None:
    file = tmp_path / "alive.json"
    sign = alive.Sign(str(file), interval_ms=3_600_000)
    sign.moved()
    sign.write()
    now_s[0] += alive.TRIGGERS_MAX * 3600 - 1
    assert not alive.is_well(file)  # nobody has renewed the word

    sign.write()

    assert alive.is_well(file)


def test_the_word_of_an_earlier_container_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "alive.json"
    sign = alive.Sign(str(file), interval_ms=1000)
    sign.moved()
    sign.write()
    program = [sys.executable, "-m", "iggy_spark.alive", str(file)]
    assert run(program, check=False).returncode == 0

    monkeypatch.setattr(alive, "_life", lambda: "another")

    assert not alive.is_well(file)


@pytest.mark.long  # three Javas
def test_under_spark_submit_the_executors_do_the_work(
    topic: "Topic", setup: Setup, bucket: BucketLake, tmp_path: Path
) -> None:
    """Executors are processes of their own here, as they are pods in a cluster."""
    topic.send(0, documents(0, 60))
    home = tmp_path / "spark"  # its executors leave their folders there
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    program = tmp_path / "program.py"
    program.write_text("import sys\nfrom iggy_spark.sink_job import main\nsys.exit(main())\n")
    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master=local-cluster[1,1,1024]",
        "--conf=spark.executor.memory=512m", "--conf=spark.ui.enabled=false", str(program),
        "--config", str(setup.write()),
    ]  # fmt: skip
    environment = {
        **os.environ, **LOGIN, **QUICK, "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip

    done = run(
        command, env=environment, capture_output=True, text=True, timeout=PROCESS_S, check=False
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert len(list((home / "work").glob("app-*/*"))) == 1, "one executor"
    assert rows_of(bucket) == every(p0=60)
