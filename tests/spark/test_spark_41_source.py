"""The data source on Spark 4.1, with the jars of Iceberg and Delta, against a real broker.

Spark 4.1 is no part of the environment, so one program does it all (`spark_41_program.py`), and the
tests look at what it has seen.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import spark_41
import spark_tables
from broker_process import PASSWORD, USERNAME, running_broker
from iggy_spark.errors import EXIT_CONFIGURATION
from iggy_wire.primitives import Partitioning
from object_store import ObjectStore

if TYPE_CHECKING:
    from conftest import Topic

pytestmark = pytest.mark.timeout(spark_41.PROGRAM_S + 60)

SENT, LIMIT = 150, 60
TABLES = spark_41.ROOT / "docs/samples/spark-applications/tables.py"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    spark_41.interpreter()
    folder = tmp_path_factory.mktemp("spark-41")
    with running_broker(tmp_path_factory.mktemp("broker-41")) as broker:
        yield spark_41.seen(broker.address, folder)


def test_it_is_spark_41(seen: dict[str, Any]) -> None:
    assert seen["version"].startswith("4.1.")


def test_a_batch_has_every_message_and_filters_are_pushed_down(seen: dict[str, Any]) -> None:
    found = seen["batch_read"]

    assert found["ids"] == [*range(0, SENT, 2), *range(1, SENT, 2)]
    assert found["pushed"] == [[1, offset] for offset in range(5)]


def test_a_stream_keeps_its_limit_goes_on_where_it_was_and_tells_the_broker(
    seen: dict[str, Any],
) -> None:
    found = seen["limited"]

    assert found["lives"] == [[60, 40], [50]]
    assert found["stored"] == found["last"] == [74, 74]


def test_a_run_that_ends_by_itself_is_one_batch(seen: dict[str, Any]) -> None:
    # The first one repeats the batch that had failed, and that is all.
    found = seen["available_now"]

    assert found["runs"] == [[[0, LIMIT]], [[1, LIMIT]], [[2, 30]], []]
    assert found["unlimited"] == [[0, SENT]]


def test_a_stream_and_a_frame_are_written(seen: dict[str, Any]) -> None:
    found = seen["write"]

    assert found["streamed"] == list(range(SENT))
    assert found["all"] == 3 * SENT


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_a_stream_and_sql_write_a_table(seen: dict[str, Any], form: str) -> None:
    streamed, merged = seen[form]

    assert streamed == list(range(SENT))
    assert merged == {"rows": SENT, "seen": SENT - 10}


def test_what_this_spark_cannot_is_refused_by_its_version(seen: dict[str, Any]) -> None:
    held, wrapped = seen["refused"]["said"]

    assert held.startswith("minOffsetsPerTrigger needs Spark 4.2 or newer, and this is 4.1.")
    assert wrapped.startswith("spark.sql.streaming.triggerAvailableNowWrapper.enabled cannot be")
    assert seen["refused"]["read"] == []


def test_a_job_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(
        json.dumps(
            {
                "name": "shown",
                "broker": {"address": "127.0.0.1:1", "credentialsPath": str(tmp_path)},
                "stream": "shop",
                "topic": "orders",
                "sink": {"type": "Console"},
                "checkpoint": str(tmp_path / "checkpoint"),
            }
        )
    )

    done = spark_41.run("-m", "iggy_spark.sink_job", "--config", str(file), folder=tmp_path)

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

    for partition in range(spark_tables.PARTITIONS):
        where = Partitioning.partition(partition)
        topic.client.send("flights", "departures", where, spark_tables.flights(partition))
        done = spark_41.submit(TABLES, *words, conf=spark_tables.settings(store.endpoint),
            env=store.environment, folder=tmp_path)  # fmt: skip
        assert done.returncode == 0, done.stderr

    assert spark_tables.in_iceberg(store) == spark_tables.rows()
    assert spark_tables.in_delta(store) == spark_tables.rows()
