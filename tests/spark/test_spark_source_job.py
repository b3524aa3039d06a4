"""The job that carries a source into a topic: on a real broker and a real Spark."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

import dying_source_job
from iggy_spark import job_check
from iggy_spark.checkpoint import SOURCE_LIFE
from iggy_spark.errors import EXIT_CONFIGURATION, BadRow, BrokerRefused, OptionError, SinkError
from iggy_spark.sources import registry
from iggy_spark.sources.base import message_id
from iggy_wire.primitives import partition_of_key
from job_figures import figure
from played_source import PlayedSource
from remote_checkpoint import RemoteCheckpoint
from sink_jobs import PROCESS_S, Setup, start
from source_jobs import SourceSetup, arrived, once_each
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Topic


def names(events: list[dict[str, Any]]) -> list[str]:
    """What a run told; looks at what waits come whenever it is time."""
    return [event["event"] for event in events if event["event"] != "behind"]


def numbers(topic: Topic) -> list[int]:
    return sorted(json.loads(found.payload)["number"] for found in arrived(topic))


@pytest.fixture
def setup(topic: Topic, tmp_path: Path) -> SourceSetup:
    block = {"rate": 1000, "messages": 500, "keys": 20}
    return SourceSetup(topic, tmp_path, type="Random", random=block)


def test_every_message_is_in_the_topic_with_its_id(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    setup.value["source"]["maxMessagesPerTrigger"] = 200

    events = setup.run(spark)

    found = arrived(topic)
    assert numbers(topic) == list(range(500))
    for message in found:
        number = json.loads(message.payload)["number"]
        assert message.id == message_id("random", 0, number)
    assert names(events) == ["started", *["progress"] * 3, "stopped"]
    assert [event["messages"] for event in setup.progress()] == [200, 200, 100]
    assert [event["committed"]["next"] for event in setup.progress()] == [200, 400, 500]
    sizes = sum(len(message.payload) for message in found)
    assert sum(event["size_bytes"] for event in setup.progress()) == sizes
    assert (events[-1]["reason"], events[-1]["behind"]) == ("finished", 0)
    assert topic.members("made") == 0


def test_messages_of_one_key_are_in_one_partition(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    setup.run(spark)

    places: dict[str, set[int]] = {}
    for message in arrived(topic):
        places.setdefault(json.loads(message.payload)["key"], set()).add(message.partition)
    assert len(places) == 20
    assert {len(found) for found in places.values()} == {1}
    assert {number for found in places.values() for number in found} == {0, 1}


def test_a_path_in_the_messages_gives_the_key(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    del setup.value["source"]["random"]["keys"]
    setup.value["source"] |= {"key": "number", "maxMessagesPerTrigger": 300}

    setup.run(spark)

    for message in arrived(topic):
        key = str(json.loads(message.payload)["number"]).encode()
        assert message.partition == partition_of_key(key, 2)


def test_two_rights_are_enough(spark: SparkSession, topic: Topic, setup: SourceSetup) -> None:
    user = topic.user(read_topic=True, send_messages=True)
    setup.login = {"IGGY_USERNAME": user["username"], "IGGY_PASSWORD": user["password"]}

    setup.run(spark)

    assert numbers(topic) == list(range(500))


def test_the_next_run_goes_on(spark: SparkSession, topic: Topic, setup: SourceSetup) -> None:
    setup.run(spark)
    again = setup.run(spark)
    setup.value["source"]["random"]["messages"] = 600
    setup.run(spark)

    assert names(again) == ["started", "stopped"]
    assert [event["behind"] for event in again if event["event"] == "behind"] == [0]
    assert again[0]["committed"] == again[-1]["committed"] == setup.events[0]["committed"]
    assert len(arrived(topic)) == 600
    assert numbers(topic) == list(range(600))


def test_a_checkpoint_in_a_store_is_found_by_another_machine(
    spark: SparkSession,
    topic: Topic,
    setup: SourceSetup,
    remote: RemoteCheckpoint,
    elsewhere: Callable[[], None],
) -> None:
    remote.put_into(setup)
    setup.run(spark)
    names = remote.names()
    elsewhere()
    setup.value["source"]["random"]["messages"] = 600
    setup.run(spark)

    assert {"state/initial.json", "spark/offsets/0", "spark/commits/0"} <= set(names)
    assert setup.events[0]["committed"]["next"] == 500
    assert len(arrived(topic)) == 600
    assert numbers(topic) == list(range(600))


def test_a_lost_checkpoint_sends_the_same_messages_again(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    setup.run(spark)
    shutil.rmtree(setup.checkpoint)
    setup.run(spark)

    assert len(arrived(topic)) == 1000
    assert len(once_each(arrived(topic))) == 500


def test_a_checkpoint_is_one_sources_own(
    spark: SparkSession, topic: Topic, setup: SourceSetup, tmp_path: Path
) -> None:
    setup.run(spark)
    sink = Setup(topic, tmp_path)

    with pytest.raises(OptionError, match="it belongs to the source 'made'"):
        sink.run(spark)
    setup.value["name"] = "other"
    with pytest.raises(OptionError, match="it belongs to the source 'made'"):
        setup.run(spark)
    setup.value["name"] = "made"
    setup.value["source"]["random"]["seed"] = 1
    with pytest.raises(OptionError, match=r"source\.random\.seed: was 0 and is 1"):
        setup.run(spark)


def test_a_source_that_cannot_be_read_names_the_system(
    spark: SparkSession, topic: Topic, setup: SourceSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = PlayedSource()
    played.is_away = True
    monkeypatch.setattr(registry, "build", lambda config, *, retry: played)

    with pytest.raises(SinkError, match="played: does not answer"):
        setup.run(spark)

    assert not (setup.checkpoint / SOURCE_LIFE).exists()


@pytest.mark.parametrize(
    ("kind", "data"),
    [("Parquet", b"not at all"), ("Csv", b"a,a\n1,2\n")],
    ids=["in the plan", "in a task"],
)
def test_what_goes_wrong_beside_the_driver_is_told_in_its_own_words(
    spark: SparkSession, topic: Topic, tmp_path: Path, kind: str, data: bytes
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "broken").write_bytes(data)
    block = {"path": str(folder), "format": kind, "settle": "0ms"}
    setup = SourceSetup(topic, tmp_path, type="Files", files=block)

    with pytest.raises(BadRow, match=r"files\.path: .*broken"):
        setup.run(spark)

    assert arrived(topic) == []


def test_a_topic_that_is_not_there_is_named(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    setup.value["topic"] = "nowhere"

    with pytest.raises(BrokerRefused, match=r"topic 'nowhere' .* does not exist"):
        setup.run(spark)


def test_check_and_explain_say_what_a_job_would_do(
    spark: SparkSession, topic: Topic, setup: SourceSetup, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(command: str, output: str = "text") -> list[str]:
        code = job_check.run(command, setup.write(), setup.login, output=output)
        told = capsys.readouterr()
        assert (code, told.err) == (0, "")
        return told.out.splitlines()

    before, unknown = said("check"), said("explain-offsets")
    made_nothing = not setup.checkpoint.exists()
    setup.run(spark)
    after = json.loads(said("check", "json")[0])
    (explained,) = (json.loads(line) for line in said("explain-offsets", "json"))
    setup.value["source"]["random"]["rate"] = 0
    code = job_check.run("check", setup.write(), setup.login, output="text")

    assert made_nothing
    assert before[0] == "configuration  made, type Random"
    assert before[1].startswith(f"broker         {topic.stream}/orders, incarnation ")
    assert before[2:] == [
        "source         can be read",
        "start          where the source begins, by source",
        "behind         nobody can tell",
    ]
    assert unknown == [
        "made, type Random",
        "committed  -",
        "start      -",
        "behind     nobody can tell",
    ]
    assert (after["startBy"], after["start"]["next"], after["behind"]) == ("checkpoint", 500, 0)
    assert explained["committed"] == explained["start"] == after["start"]
    assert code == EXIT_CONFIGURATION
    assert "source.random.rate" in capsys.readouterr().err


# From here on in processes of their own, as whoever starts the job sees it.


def test_a_running_job_is_seen_and_ends_when_asked(
    topic: Topic, setup: SourceSetup, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    alive = tmp_path / "alive.json"
    setup.value |= {"name": "shop/orders.made", "once": False, "metricsPort": port}
    setup.value["aliveFile"] = str(alive)
    setup.value["source"]["random"] = {"rate": 100}
    figures = partial(figure, port, namespace="shop", source="orders.made")
    process = start(setup)
    try:
        wait_until(
            lambda: (figures("iggy_source_messages_total") or 0) > 100, "nothing sent", PROCESS_S
        )
        assert figures("iggy_source_up") == 1
        assert (figures("iggy_source_bytes_total") or 0) > 100 * 100
        assert (figures("iggy_source_batches_total") or 0) >= 1
        assert (figures("iggy_source_committed_timestamp_seconds") or 0) > 1_700_000_000
        wait_until(lambda: (figures("iggy_source_behind_messages") or 0) >= 0, "not looked")
        assert alive.exists()
        assert topic.members("shop/orders.made") == 1
    finally:
        process.send_signal(signal.SIGTERM)
        out, noise = process.communicate(timeout=PROCESS_S)
    events = [json.loads(line) for line in out.splitlines()]

    assert (process.returncode, noise) == (0, "")
    assert (events[0]["event"], events[-1]["event"]) == ("started", "stopped")
    assert events[-1]["reason"] == "signal"
    assert numbers(topic) == list(range(events[-1]["committed"]["next"]))
    assert topic.members("shop/orders.made") == 0


def test_exit_codes_say_what_went_wrong(topic: Topic, setup: SourceSetup) -> None:
    setup.value["source"]["random"]["rate"] = 0
    process = start(setup)
    out, error = process.communicate(timeout=PROCESS_S)

    assert process.returncode == EXIT_CONFIGURATION
    assert "job failed: " in error
    assert "source.random.rate" in error
    assert json.loads(out)["event"] == "failed"


@pytest.mark.timeout(1200)  # five Sparks, one after the other
def test_a_job_that_is_killed_loses_nothing(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    setup.value["source"]["maxMessagesPerTrigger"] = 50
    for batch, moment in enumerate(dying_source_job.MOMENTS):
        dying_source_job.run(setup, moment, batch)

    setup.run(spark)

    found = arrived(topic)
    assert len(found) > 500, "a batch that was sent and not committed is sent again"
    first = once_each(found)
    assert sorted(json.loads(message.payload)["number"] for message in first) == list(range(500))
    assert {message.id for message in first} == {message_id("random", 0, n) for n in range(500)}


@pytest.mark.timeout(600)
def test_a_job_that_is_killed_while_it_sends_loses_nothing(
    spark: SparkSession, topic: Topic, setup: SourceSetup
) -> None:
    count = 50_000
    setup.value["source"]["random"] = {"rate": 1000, "messages": count, "payloadBytes": 500}
    process = start(setup)
    wait_until(lambda: sent(topic) > 0, "nothing is sent", PROCESS_S)
    process.kill()
    process.communicate(timeout=PROCESS_S)
    assert list(setup.checkpoint.glob("*/spark/commits/*")) == []

    setup.run(spark)

    found = once_each(arrived(topic))
    assert {message.id for message in found} == {message_id("random", 0, n) for n in range(count)}


def sent(topic: Topic) -> int:
    """How many messages the topic has."""
    found = topic.client.get_topic(topic.stream, topic.name)
    assert found is not None
    return sum(part.messages_count for part in found.partitions)
