"""The data source, and a job, on the Sparks of the variants of the image, against a real broker.

They are no part of the environment: `make older-sparks` makes them and runs this. One program does
it all (`older_spark_program.py`), and the tests look at what it has seen.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import older_spark
import spark_tables
from broker_process import PASSWORD, USERNAME, running_broker
from iggy_spark.errors import EXIT_CONFIGURATION
from iggy_wire.primitives import Partitioning
from object_store import ObjectStore
from older_spark import OlderSpark
from sink_jobs import LOGIN

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = [pytest.mark.older_spark, pytest.mark.timeout(older_spark.PROGRAM_S + 60)]

SENT, LIMIT = 150, 60
TABLES = older_spark.ROOT / "docs/samples/spark-applications/tables.py"


@dataclass(frozen=True)
class Seen:
    """What the program has seen, and where its topic still is."""

    spark: OlderSpark
    broker: str
    parts: dict[str, Any]


@pytest.fixture(scope="module", params=["4.1", "4.2"])
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    spark = OlderSpark(request.param)
    assert spark.python  # there is one, or the test ends before a broker is started
    folder = tmp_path_factory.mktemp("older-spark")
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield Seen(spark, broker.address, spark.seen(broker.address, folder))


def only(version: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seen", [version], indirect=True)


def test_it_is_that_spark(seen: Seen) -> None:
    assert seen.parts["version"].startswith(f"{seen.spark.version}.")


def test_a_batch_has_every_message_and_filters_are_pushed_down(seen: Seen) -> None:
    found = seen.parts["batch_read"]

    assert found["ids"] == [*range(0, SENT, 2), *range(1, SENT, 2)]
    assert found["pushed"] == [[1, offset] for offset in range(5)]


def test_a_stream_keeps_its_limit_goes_on_where_it_was_and_tells_the_broker(
    seen: Seen,
) -> None:
    found = seen.parts["limited"]

    assert found["lives"] == [[60, 40], [50]]
    assert found["stored"] == found["last"] == [74, 74]


def test_a_run_that_ends_by_itself_goes_to_the_end_or_is_one_batch(seen: Seen) -> None:
    # The first one repeats the batch that had failed.
    first, second, third = [0, LIMIT], [1, LIMIT], [2, SENT - 2 * LIMIT]
    of = {"4.1": [[first], [second], [third], []], "4.2": [[first, second, third], []]}

    assert seen.parts["available_now"]["runs"] == of[seen.spark.version]
    assert seen.parts["available_now"]["unlimited"] == [[0, SENT]]


def test_a_stream_and_a_frame_are_written(seen: Seen) -> None:
    found = seen.parts["write"]

    assert found["streamed"] == list(range(SENT))
    assert found["all"] == 3 * SENT


def test_a_stream_and_sql_write_a_table_of_delta(seen: Seen) -> None:
    streamed, merged = seen.parts["delta"]

    assert streamed == list(range(SENT))
    assert merged == {"rows": SENT, "seen": SENT - 10}


@only("4.1")
def test_a_stream_and_sql_write_a_table_of_iceberg(seen: Seen) -> None:
    streamed, merged = seen.parts["iceberg"]

    assert streamed == list(range(SENT))
    assert merged == {"rows": SENT, "seen": SENT - 10}


@only("4.1")
def test_what_this_spark_cannot_is_refused_by_its_version(seen: Seen) -> None:
    held, wrapped = seen.parts["refused"]["said"]

    assert held.startswith("minOffsetsPerTrigger needs Spark 4.2 or newer, and this is 4.1.")
    assert wrapped.startswith("spark.sql.streaming.triggerAvailableNowWrapper.enabled cannot be")
    assert seen.parts["refused"]["read"] == []


def job(seen: Seen, folder: Path) -> Path:
    """The file of a job that carries the program's topic into files."""
    value = {
        "name": "lake",
        "broker": {"address": seen.broker},
        "stream": "shop",
        "topic": "orders",
        "sink": {
            "type": "Files",
            "files": {"path": str(folder / "lake")},
            "payload": {"format": "Json", "schema": "id BIGINT, name STRING"},
        },
        "checkpoint": str(folder / "checkpoint"),
        "once": True,
    }
    file = folder / "job.json"
    file.write_text(json.dumps(value))
    return file


@only("4.2")
def test_a_job_carries_a_topic_into_files(seen: Seen, tmp_path: Path) -> None:
    file = job(seen, tmp_path)
    words = ("-m", "iggy_spark.sink_job", "--config", str(file))

    done = seen.spark.run(*words, folder=tmp_path, more=LOGIN)

    assert done.returncode == 0, done.stderr
    rows = ds.dataset(tmp_path / "lake", format="parquet").to_table().sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == list(range(SENT))
    assert rows[-1]["name"] == f"order {SENT - 1}"


@only("4.1")
def test_a_job_is_refused(seen: Seen, tmp_path: Path) -> None:
    file = job(seen, tmp_path)
    words = ("-m", "iggy_spark.sink_job", "--config", str(file))

    done = seen.spark.run(*words, folder=tmp_path, more=LOGIN)

    assert done.returncode == EXIT_CONFIGURATION
    assert "spark: jobs need Spark 4.2 or newer, and this is 4.1." in done.stderr


def test_the_program_of_the_page_keeps_two_tables_in_a_bucket(
    topic: "Topic", store: ObjectStore, tmp_path: Path
) -> None:
    login = {"username": USERNAME, "password": PASSWORD}
    for name, text in login.items():
        (tmp_path / name).write_text(text)
    store.make_bucket(spark_tables.BUCKET)
    topic.client.create_stream("flights")
    topic.client.create_topic("flights", "departures", spark_tables.PARTITIONS)
    words = (
        f"--servers={topic.address}", f"--credentials={tmp_path}",
        f"--delta={spark_tables.DELTA}", f"--checkpoint={spark_tables.CHECKPOINT}",
    )  # fmt: skip

    spark = OlderSpark("4.1")
    for partition in range(spark_tables.PARTITIONS):
        where = Partitioning.partition(partition)
        topic.client.send("flights", "departures", where, spark_tables.flights(partition))
        done = spark.submit(TABLES, *words, conf=spark_tables.settings(store.endpoint),
            env=store.environment, folder=tmp_path)  # fmt: skip
        assert done.returncode == 0, done.stderr

    assert spark_tables.in_iceberg(store) == spark_tables.rows()
    assert spark_tables.in_delta(store) == spark_tables.rows()
