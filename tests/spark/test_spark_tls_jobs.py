"""Jobs of sinks and sources that reach their broker over TLS alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from dead_letter_topics import messages_in
from iggy_spark import connections
from iggy_spark.errors import BrokerUnavailable
from sink_jobs import Setup, documents, every
from source_jobs import SourceSetup, arrived
from tls_front import Authority, TlsFront, authority, tls_front

if TYPE_CHECKING:
    from conftest import Topic


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ours", "iggy.internal")


@pytest.fixture
def front(topic: Topic, ours: Authority) -> Iterator[TlsFront]:
    with tls_front(topic.address, ours) as running:
        yield running
        connections.close_all()


def block(front: TlsFront, made: Authority) -> dict[str, object]:
    tls = {"caPath": str(made.certificate), "serverName": "iggy.internal"}
    return {"address": front.address, "tls": tls}


def test_a_sink_reads_commits_and_keeps_dead_letters(
    spark: SparkSession, topic: Topic, tmp_path: Path, front: TlsFront, ours: Authority
) -> None:
    topic.send(0, [*documents(0, 30), b"no json"])
    errors = {"tolerance": "Data", "deadLetter": {"topic": "dead", "maxRatio": 1}}
    setup = Setup(topic, tmp_path, errors=errors)
    setup.value["broker"] = block(front, ours)

    setup.run(spark)

    assert setup.rows() == every(p0=30)
    assert topic.stored("lake", 0) == 30
    assert [one.payload for one in messages_in(topic.client, topic.stream, "dead")] == [b"no json"]


def test_a_broker_that_is_not_the_one_gets_nothing(
    topic: Topic, tmp_path: Path, front: TlsFront, spark: SparkSession
) -> None:
    setup = Setup(topic, tmp_path)
    setup.value["broker"] = block(front, authority(tmp_path / "foreign", "iggy.internal"))

    with pytest.raises(BrokerUnavailable, match=r"certificate of .* is not accepted"):
        setup.run(spark)

    assert setup.rows_if_any() == []


def test_a_source_sends(
    spark: SparkSession, topic: Topic, tmp_path: Path, front: TlsFront, ours: Authority
) -> None:
    setup = SourceSetup(topic, tmp_path, type="Random", random={"rate": 1000, "messages": 50})
    setup.value["broker"] = block(front, ours)

    setup.run(spark)

    assert len(arrived(topic)) == 50
