"""Payload formats and transforms through Spark: into files by the job, as rows by a query."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from sink_jobs import Setup

if TYPE_CHECKING:
    from conftest import Topic

ORDER: dict[str, Any] = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "pan", "type": "string"},
        {"name": "kind", "type": ["null", "string"]},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip


def encoded(**value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(ORDER), value)
    return target.getvalue()


def test_a_job_decodes_avro_and_transforms_it(
    spark: SparkSession, topic: "Topic", tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("0123456789abcdef")
    topic.send(0, [encoded(id=n, pan="4111", kind="test" if n % 2 else None, sizes={"a": n})
                   for n in range(10)])  # fmt: skip
    topic.send(0, [b"\x01"])
    columns = "id BIGINT, pan STRING, sizes MAP<STRING, INT>, iggy_topic STRING, event STRING"
    setup = Setup(
        topic,
        tmp_path,
        files={"path": str(tmp_path / "lake")},
        payload={"format": "Avro", "schema": json.dumps(ORDER), "columns": columns},
        transforms=[
            {"filter_messages": {"where": {"field": "kind", "is_null": True}}},
            {"mask_fields": {"fields": ["pan"], "sha256": {"keyPath": str(tmp_path / "key")}}},
            {"metadata_to_fields": {"fields": ["topic"]}},
            {"add_fields": {"fields": [{"key": "event", "value": {"computed": "uuid_v5"}}]}},
        ],
        errors={"tolerance": "Data"},
    )

    setup.run(spark)

    good = ds.dataset(setup.lake, format="parquet", ignore_prefixes=["_"]).to_table().to_pylist()
    assert [(row["id"], row["sizes"], row["iggy_topic"]) for row in good] == [
        (n, [("a", n)], topic.name) for n in range(0, 10, 2)
    ]
    assert len({row["event"] for row in good}) == 5
    assert {len(row["pan"]) for row in good} == {64}
    refused = ds.dataset(setup.lake / "_rejected", format="parquet").to_table().to_pylist()
    assert [(row["iggy_offset"], row["error_class"]) for row in refused] == [(10, "MalformedAvro")]


def test_a_query_gets_transformed_rows(spark: SparkSession, topic: "Topic") -> None:
    topic.send(0, [b'{"id": "1", "m": {"a": 1}}', b'{"id": "x"}', b'{"id": "3", "test": true}'])
    transforms = [
        {"filter_messages": {"where": {"field": "test", "exists": False}}},
        {"cast_fields": {"fields": [{"key": "id", "to": "integer"}]}},
    ]
    given = topic.options(
        payloadFormat="json", payloadSchema="id BIGINT, m MAP<STRING, INT>",
        transforms=json.dumps(transforms), onDecodeError="keep",
    )  # fmt: skip

    rows = spark.read.format("iggy").options(**given).load().orderBy("offset").collect()

    assert [row.offset for row in rows] == [0, 1]
    assert (rows[0].value.id, rows[0].value.m, rows[0].error) == (1, {"a": 1}, None)
    assert (rows[1].value, rows[1].error.stage) == (None, "transform")


def test_a_wrong_transform_is_told_in_one_sentence(spark: SparkSession, topic: "Topic") -> None:
    given = topic.options(payloadFormat="json", transforms='[{"add_feilds": {}}]')

    with pytest.raises(Exception, match=r"transforms\[0\]: add_feilds is not a transform, did you"):
        spark.read.format("iggy").options(**given).load()
