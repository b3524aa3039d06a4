"""Parts of the scenarios in a cluster that need none: what they read, send, compare and scrape."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import e2e_store
from broker_process import PASSWORD, USERNAME, running_broker
from e2e_flights import batches, difference, in_the_lake, places
from e2e_producer import Login, Producer, numbered, producing
from e2e_prometheus import target_of
from e2e_tables import tables
from flights_demo.flights import load_flights
from iggy_client.client import Client
from object_store import ObjectStore, running_object_store
from waiting import wait_until

ROWS = 2_000
TABLE = """\
NAME                           READY   REASON   ENDPOINT
iggybroker.iggykube.dev/iggy   True    Ready    iggy.e2e.svc:8090

NAME                               LAG   READY     REASON        LAST-COMMIT
iggysink.iggykube.dev/orders.lake        Unknown   Pending
iggysink.iggykube.dev/orders.warm  12    False     Driver gone   3s
"""


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return load_flights(ROWS)


def test_a_table_of_kubectl_is_read_by_its_columns() -> None:
    found = tables(TABLE)

    assert found == {
        "iggybroker/iggy": {"READY": "True", "REASON": "Ready", "ENDPOINT": "iggy.e2e.svc:8090"},
        "iggysink/orders.lake": {
            "LAG": "",
            "READY": "Unknown",
            "REASON": "Pending",
            "LAST-COMMIT": "",
        },
        "iggysink/orders.warm": {
            "LAG": "12",
            "READY": "False",
            "REASON": "Driver gone",
            "LAST-COMMIT": "3s",
        },
    }


def test_rows_in_any_order_are_the_same(flights: pa.Table) -> None:
    lake = in_the_lake(flights)

    assert difference(lake.slice(ROWS // 2), flights) == "1,000 rows, and not 2,000"
    assert difference(pa.concat_tables([lake.slice(7), lake.slice(0, 7)]), flights) == ""


def test_a_row_that_is_twice_in_place_of_another_is_noticed(flights: pa.Table) -> None:
    lake = in_the_lake(flights)

    twice = pa.concat_tables([lake.slice(1), lake.slice(1, 1)])

    assert "the rows differ" in difference(twice, flights)


def test_a_value_that_became_null_is_noticed(flights: pa.Table) -> None:
    lake = in_the_lake(flights)
    place = lake.column_names.index("tailnum")
    emptied = lake.set_column(place, "tailnum", pa.nulls(ROWS, pa.string()))

    assert "tailnum" in difference(emptied, flights)


def test_a_producer_remembers_where_its_messages_are(tmp_path: Path, flights: pa.Table) -> None:
    with running_broker(tmp_path, shards=1) as broker:
        login = Login(broker.address, USERNAME, PASSWORD)
        with Client.connect(broker.address, USERNAME, PASSWORD) as client:
            client.create_stream("s")
            client.create_topic("s", "t", 6)
            sent = Producer(login, "s", "t", batches(flights, partitions=6))
            with producing(sent):
                wait_until(lambda: sent.is_done, "all are sent")
            partitions = client.get_topic("s", "t").partitions

    assert len(sent.acknowledged) == ROWS
    assert not sent.unanswered
    assert sum(one.messages_count for one in partitions) == ROWS
    assert {partition for partition, _ in sent.acknowledged} <= {one.id for one in partitions}


def test_a_producer_goes_on_after_its_broker_was_killed(tmp_path: Path) -> None:
    with running_broker(tmp_path, shards=1) as broker:
        login = Login(broker.address, USERNAME, PASSWORD)
        with Client.connect(broker.address, USERNAME, PASSWORD) as client:
            client.create_stream("s")
            client.create_topic("s", "t", 2)
        with producing(Producer(login, "s", "t", numbered(keys=5))) as sent:
            wait_until(lambda: sent.acknowledged, "some are acknowledged")
            broker.kill()
            broker.start()
            before = len(sent.acknowledged)
            wait_until(lambda: len(sent.acknowledged) > before, "more are acknowledged")
        assert sent.is_done


def test_numbered_batches_have_each_number_once() -> None:
    ids = [json.loads(row)["id"] for batch in islice(numbered(keys=3), 5) for row in batch.payloads]

    assert ids == list(range(500))


def test_a_lake_in_a_bucket_is_read_with_its_folders(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    with running_object_store(tmp_path / "store", host="127.0.0.2") as store:
        key = "read/month=3/a.parquet"
        store.client().upload_file(str(tmp_path / "a.parquet"), store.common_bucket, key)

        found = e2e_store.read(store, f"{store.common_bucket}/read")

    assert found.to_pylist() == [{"id": 1, "month": 3}, {"id": 2, "month": 3}]


def test_a_service_leads_to_where_the_store_listens(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path, host="10.244.0.1", port=4711)

    front, behind = e2e_store.service("s3", store)

    assert front["spec"]["ports"][0]["port"] == e2e_store.PORT
    assert behind["metadata"]["labels"] == {"kubernetes.io/service-name": "s3"}
    assert behind["endpoints"] == [{"addresses": ["10.244.0.1"]}]
    assert behind["ports"][0]["port"] == 4711


@pytest.mark.parametrize(
    ("annotations", "address"),
    [
        ({}, "10.0.0.1"),
        ({"prometheus.io/scrape": "false"}, "10.0.0.1"),
        ({"prometheus.io/scrape": "true"}, None),
    ],
)
def test_a_pod_that_does_not_ask_or_has_no_address_is_not_scraped(
    annotations: dict[str, str], address: str | None
) -> None:
    metadata = {"name": "a", "namespace": "b", "annotations": annotations}

    assert target_of({"metadata": metadata, "status": {"podIP": address}}) == []


def test_a_message_that_was_written_twice_has_its_place_twice() -> None:
    found = pa.table({"iggy_partition_id": [1, 0, 1], "iggy_offset": [7, 3, 7]})

    assert places(found) == [(0, 3), (1, 7), (1, 7)]
