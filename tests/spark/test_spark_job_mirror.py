"""The sink job in its group, with a commit log written by hand in the place of Spark."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker_process import BrokerProcess
from iggy_client import Client
from iggy_spark import membership, options
from iggy_spark.checkpoint import Checkpoint
from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerUnavailable, Fenced
from iggy_spark.job_mirror import JobMirror
from iggy_spark.offsets import Offsets

if TYPE_CHECKING:
    from conftest import Topic

GROUP = "lake"
CONTACT_S = 10.0


class Log:
    """A checkpoint with Spark's logs in it."""

    def __init__(self, topic: "Topic", checkpoint: Checkpoint) -> None:
        self.options = options.parse(topic.options(consumerGroup=GROUP), mode="stream")
        self.incarnation = str(Connection(self.options).topic_state().incarnation)
        self.checkpoint = checkpoint
        self._topic = f"{topic.stream}/{topic.name}"
        for name in ("offsets", "commits"):
            (checkpoint.spark(self.incarnation) / name).mkdir(parents=True)

    def plan(self, batch: int, *positions: int) -> None:
        offsets = Offsets(self._topic, self.incarnation, dict(enumerate(positions)))
        lines = ["v1", "{}", json.dumps(offsets.to_json())]
        self._write("offsets", batch, "\n".join(lines))

    def commit(self, batch: int) -> None:
        self._write("commits", batch, "v1\n{}")

    def _write(self, folder: str, batch: int, text: str) -> None:
        (self.checkpoint.spark(self.incarnation) / folder / str(batch)).write_text(text)

    def mirror(self, *, stop: bool = False) -> JobMirror:
        return JobMirror(self.options, self.checkpoint, self.incarnation, should_stop=lambda: stop)


@pytest.fixture
def log(topic: "Topic", tmp_path: Path) -> Iterator[Log]:
    topic.send(0, [b"m"] * 100)
    with closing(Checkpoint(tmp_path / "checkpoint")) as checkpoint:
        yield Log(topic, checkpoint)


@pytest.fixture
def other(broker: BrokerProcess, topic: "Topic", log: Log) -> Iterator[Client]:
    """A member that pings nobody and stays."""
    with broker.client() as member:
        member.create_group(topic.stream, topic.name, GROUP)
        member.join_group(topic.stream, topic.name, GROUP)
        yield member


def test_a_batch_is_told_when_spark_has_committed_it(topic: "Topic", log: Log) -> None:
    log.plan(0, 40, 0)
    with closing(log.mirror()) as mirror:
        assert mirror.join(contact_s=CONTACT_S)
        mirror.tell(None)
        mirror.tell(0)  # written, and not yet committed
        before = topic.stored(GROUP, 0)
        log.commit(0)
        mirror.tell(0)
        log.plan(1, 70, 0)
        mirror.tell(1)
        told = topic.stored(GROUP, 0)
        log.commit(1)
        mirror.finish(contact_s=CONTACT_S)

    assert (before, told, topic.stored(GROUP, 0), topic.members(GROUP)) == (None, 39, 69, 0)


def test_a_start_tells_what_a_killed_job_could_not(topic: "Topic", log: Log) -> None:
    log.plan(0, 40, 0)
    log.commit(0)

    with closing(log.mirror()) as mirror:
        mirror.join(contact_s=CONTACT_S)
        mirror.tell(None)

        assert topic.stored(GROUP, 0) == 39


def test_a_job_waits_for_the_place_until_it_is_given_up(
    topic: "Topic", log: Log, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "OCCUPIED_S_MAX", 0.3)

    with pytest.raises(Fenced, match=r"'lake' of .* has another member"):
        log.mirror().join(contact_s=CONTACT_S)

    assert topic.members(GROUP) == 1


def test_a_job_that_is_asked_to_stop_waits_for_nobody(log: Log, other: Client) -> None:
    with closing(log.mirror(stop=True)) as mirror:
        assert not mirror.join(contact_s=CONTACT_S)
        mirror.finish(contact_s=CONTACT_S)


def test_a_job_whose_place_is_taken_is_told_to_end(
    topic: "Topic", log: Log, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "OCCUPIED_S_MAX", 0.0)
    log.plan(0, 40, 0)
    log.commit(0)
    with closing(log.mirror()) as mirror, broker.client() as taker:
        mirror.join(contact_s=CONTACT_S)
        topic.client.delete_group(topic.stream, topic.name, GROUP)
        taker.create_group(topic.stream, topic.name, GROUP)
        taker.join_group(topic.stream, topic.name, GROUP)

        with pytest.raises(Fenced):
            for _ in range(100):
                mirror.tell(0)
                mirror._due_s = 0.0

        assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (None, 1)


def test_a_broker_that_is_away_holds_nobody_up(log: Log) -> None:
    raw = {"servers": "127.0.0.1:9", "username": "u", "password": "p", "stream": "s"}
    given = options.parse({**raw, "topic": "t", "consumerGroup": GROUP}, mode="stream")
    nowhere = JobMirror(given, log.checkpoint, log.incarnation, should_stop=lambda: False)

    nowhere.tell(0)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9 was not reached"):
        nowhere.join(contact_s=0.1)
