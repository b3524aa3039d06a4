"""The tables that `docs/samples/spark-applications/tables.py` makes in a bucket, read past Spark,
by the libraries `deltalake` and `pyiceberg`; and the flights that they are made of.
"""

import json
from typing import Any

from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from iggy_wire.batch import Message
from object_store import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore

BUCKET = "lake"
DELTA = f"s3a://{BUCKET}/delta"
CHECKPOINT = f"s3a://{BUCKET}/checkpoint"
FLIGHTS = 500
PARTITIONS = 2

Row = dict[str, Any]


def flights(partition: int) -> list[Message]:
    """Those of one partition of the topic."""
    return [
        Message(json.dumps(_flight(partition, offset)).encode(), id=offset + 1)
        for offset in range(FLIGHTS)
    ]


def rows() -> list[Row]:
    """What both tables should have."""
    return [
        {**_flight(partition, offset), "partition": partition, "offset": offset}
        for partition in range(PARTITIONS)
        for offset in range(FLIGHTS)
    ]


def _flight(partition: int, offset: int) -> Row:
    return {"carrier": ("UA", "AA")[partition], "origin": "JFK", "dep_delay": offset}


def settings(endpoint: str) -> dict[str, str]:
    """Of Spark, beside those of `tables.conf`: where the bucket is."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": REGION,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.ui.enabled": "false",
    }


def in_delta(store: ObjectStore) -> list[Row]:
    """The rows, in the topic's order."""
    options = {
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ALLOW_HTTP": "true",
    }
    table = DeltaTable(DELTA.replace("s3a://", "s3://"), storage_options=options)
    return _sorted(table.to_pyarrow_table().to_pylist())


def in_iceberg(store: ObjectStore) -> list[Row]:
    """The same."""
    folder = "iceberg/flights/departures/metadata"
    hint = store.client().get_object(Bucket=BUCKET, Key=f"{folder}/version-hint.text")
    version = hint["Body"].read().decode().strip()
    properties = {
        "s3.endpoint": store.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    place = f"s3://{BUCKET}/{folder}/v{version}.metadata.json"
    return _sorted(StaticTable.from_metadata(place, properties).scan().to_arrow().to_pylist())


def _sorted(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))
