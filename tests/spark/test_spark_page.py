"""The programs of the page about Spark run one after another: a user, a stream, a lake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from iggy_wire.permissions import Permissions, StreamPermissions, TopicPermissions
from page_samples import ROOT
from sink_jobs import Setup

if TYPE_CHECKING:
    from conftest import Topic

PAGE = (ROOT / "docs" / "spark.md").read_text()
PASSWORD = "of-spark"


def test_the_programs_of_the_page_run(
    spark: SparkSession, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, permissions, lake = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    login = tmp_path / "login"
    login.mkdir()
    (login / "username").write_text("spark")
    (login / "password").write_text(PASSWORD)
    flights = [{"carrier": "AA", "dep_delay": n, "month": n % 3} for n in range(20)]
    topic.send(0, [json.dumps(flight).encode() for flight in flights])

    exec(permissions, made_of(topic))
    try:
        found = spark_stream(spark, topic, stream, login, tmp_path)
        assert found == [(n, "AA", n) for n in range(20)]

        setup = Setup(topic, tmp_path)
        setup.value["broker"]["credentialsPath"] = str(login)
        setup.value["sink"]["files"]["path"] = str(tmp_path / "lake" / "departures")
        schema = "carrier STRING, dep_delay INT, month INT"
        setup.value["sink"]["payload"]["schema"] = schema
        setup.run(spark)
    finally:
        topic.client.delete_user("spark")

    names: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    exec(lake, names)
    rows = names["table"].select(["carrier", "dep_delay", "month"]).to_pylist()
    assert sorted(rows, key=lambda row: row["dep_delay"]) == flights


def made_of(topic: Topic) -> dict[str, Any]:
    """What the page takes for granted: a client, a password, and ids."""
    stream = topic.client.get_stream(topic.stream)
    found = topic.client.get_topic(topic.stream, topic.name)
    assert stream is not None
    assert found is not None
    return {
        "client": topic.client,
        "password": PASSWORD,
        "stream_id": stream.stream.id,
        "topic_id": found.topic.id,
        "Permissions": Permissions,
        "StreamPermissions": StreamPermissions,
        "TopicPermissions": TopicPermissions,
    }


def spark_stream(
    spark: SparkSession, topic: Topic, program: str, login: Path, folder: Path
) -> list[tuple[int, str, int]]:
    """Offset, carrier and delay of all that the page's program reads of a test's topic."""
    for name, here in (
        ("127.0.0.1:8090", topic.address),
        ("/etc/iggy", str(login)),
        ('"flights"', f'"{topic.stream}"'),
        ('"departures"', f'"{topic.name}"'),
    ):
        assert name in program
        program = program.replace(name, here)
    names: dict[str, Any] = {"spark": spark}
    exec(program, names)
    seen: list[tuple[int, str, int]] = []
    query = (
        names["frame"].select("offset", "value.carrier", "value.dep_delay").writeStream
        .foreachBatch(lambda batch, number: seen.extend(map(tuple, batch.collect())))
        .option("checkpointLocation", str(folder / "stream"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return sorted(seen)
