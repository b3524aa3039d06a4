"""A batch that Spark has not committed comes again: what a copy and a console make of it.

The same of Files is in `test_spark_sink_job`, of Iceberg and Delta in `test_spark_table_jobs`, of
Jdbc in `test_spark_jdbc_job`, of ClickHouse and Mongo in `test_spark_clickhouse_jobs` and
`test_spark_mongo_jobs`, of Elasticsearch, Quickwit and Http in `test_spark_web_jobs`, of Custom in
`test_spark_custom_sink`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from dead_letter_topics import messages_in
from sink_jobs import Setup, documents

if TYPE_CHECKING:
    from conftest import Topic


def test_a_console_shows_the_same_rows_again(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    setup = Setup(topic, tmp_path, type="Console", files=None, maxOffsetsPerTrigger=6)
    topic.send(0, documents(0, 10))

    first = shown(setup.run(spark))
    setup.forget_last_commit()
    again = shown(setup.run(spark))

    assert [row["number"] for row in first] == list(range(10))
    assert again == first[6:]
    assert topic.stored("lake", 0) == 9


def shown(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["row"] for event in events if event["event"] == "row"]


def test_a_copy_repeats_messages_with_the_same_ids_and_loses_none(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.client.create_topic(topic.stream, "copy", 2)
    setup = Setup(topic, tmp_path, type="Iggy", files=None, maxOffsetsPerTrigger=6)
    setup.value["sink"] |= {"iggy": {"stream": topic.stream, "topic": "copy"}}
    topic.send(0, documents(0, 10))

    setup.run(spark)
    setup.forget_last_commit()
    setup.run(spark)

    found = messages_in(topic.client, topic.stream, "copy")
    ids = [message.id for message in found]
    assert len(set(ids[:10])) == 10
    assert ids[10:] == ids[6:10]
    assert [message.payload for message in found[10:]] == [m.payload for m in found[6:10]]
    assert topic.stored("lake", 0) == 9


def test_a_copy_exactly_once_repeats_nothing_in_a_topic_that_deduplicates(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.client.create_topic(topic.stream, "once", 2)
    setup = Setup(topic, tmp_path, type="Iggy", files=None, maxOffsetsPerTrigger=6)
    setup.value["sink"] |= {
        "iggy": {"stream": topic.stream, "topic": "once"},
        "delivery": "ExactlyOnce",
    }
    topic.send(0, documents(0, 10))

    setup.run(spark)
    setup.forget_last_commit()
    setup.value["sink"]["maxOffsetsPerTrigger"] = 100  # what comes again is planned otherwise
    topic.send(0, documents(10, 20))
    setup.run(spark)

    found = [json.loads(m.payload) for m in messages_in(topic.client, topic.stream, "once")]
    assert [one["number"] for one in found] == list(range(20))
    assert topic.stored("lake", 0) == 19
