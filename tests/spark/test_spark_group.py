"""The driver as the only member of its consumer group: the source's side, without Spark."""

import time
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from broker_process import BrokerProcess, running_broker
from iggy_client import Client, KeptAlive
from iggy_spark import connections, membership, readers
from iggy_spark.errors import BrokerRefused, Fenced
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Source, Topic

GROUP = "g"
HEARTBEAT_S = 1.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"IGGY_HEARTBEAT_INTERVAL": f"{HEARTBEAT_S:g} s"}
    folder = tmp_path_factory.mktemp("group-broker")
    with running_broker(folder, settings=settings, monitoring=True) as process:
        yield process


@pytest.fixture(scope="module")
def client(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as connected:
        yield connected
    connections.close_all()


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "PING_S", HEARTBEAT_S / 10)


@pytest.fixture
def never_pings(monkeypatch: pytest.MonkeyPatch, quick_pings: None) -> None:
    monkeypatch.setattr(membership, "PING_S", 1e6)


def payloads(count: int) -> list[bytes]:
    return [b"m%d" % number for number in range(count)]


def test_the_group_holds_what_is_done(topic: "Topic", source: "Source") -> None:
    topic.send(0, payloads(10))
    reader = source(offsetMirror="required")
    start = reader.initialOffset()
    assert topic.members(GROUP) == 0

    end = reader.latestOffset(start, ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (None, 1)
    reader.latestOffset(end, ReadAllAvailable())
    assert topic.stored(GROUP, 0) == 9
    reader.commit(topic.at(4, 0))  # Spark says late what it has said before
    assert topic.stored(GROUP, 0) == 9
    reader.stop()
    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (9, 0)


def lag(broker: BrokerProcess, topic: "Topic") -> float:
    """Of the group, as Prometheus sees it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.monitoring_port}/metrics") as answer:
        for line in answer.read().decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("iggy_group_lag_messages{") and f'"{topic.stream}"' in name:
                return float(value)
    raise AssertionError(f"no lag of a group of {topic.stream}")


def test_the_brokers_own_lag_is_that_of_the_query(
    topic: "Topic", source: "Source", broker: BrokerProcess
) -> None:
    topic.send(0, payloads(10))
    topic.send(1, payloads(10))
    reader = source()
    seen = []

    for done in ((0, 0), (4, 0), (10, 3), (10, 10)):
        reader.latestOffset(topic.at(*done), ReadAllAvailable())
        seen.append(lag(broker, topic))

    assert seen == [20, 16, 7, 0]


def test_a_query_from_an_earlier_checkpoint_takes_the_group_back(
    topic: "Topic", source: "Source"
) -> None:
    topic.send(0, payloads(10))
    topic.send(1, payloads(10))
    first = source()
    first.latestOffset(topic.at(10, 10), ReadAllAvailable())
    first.stop()

    source().latestOffset(topic.at(4, 0), ReadMaxRows(2))

    assert (topic.stored(GROUP, 0), topic.stored(GROUP, 1)) == (3, None)


def test_a_second_query_with_the_group_is_kept_out(topic: "Topic", source: "Source") -> None:
    topic.send(0, payloads(10))
    first, second = source(), source(retryTimeoutMs="300ms", offsetMirror="auto")
    first.latestOffset(topic.at(5, 0), ReadAllAvailable())

    with pytest.raises(Fenced, match=r"'g' of .*/orders has another member: stop the query"):
        second.latestOffset(topic.at(9, 0), ReadAllAvailable())
    with pytest.raises(Fenced):  # as early as the repeated batch of a restarted query
        second.partitions(topic.at(0, 0), topic.at(9, 0))

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (4, 1)
    first.latestOffset(topic.at(6, 0), ReadAllAvailable())
    assert topic.stored(GROUP, 0) == 5
    off = source(offsetMirror="off")
    off.latestOffset(topic.at(9, 0), ReadAllAvailable())
    assert len(off.partitions(topic.at(0, 0), topic.at(9, 0))) == 1


def test_a_dead_member_is_waited_for(
    topic: "Topic", source: "Source", broker: BrokerProcess
) -> None:
    topic.send(0, payloads(10))
    topic.client.create_group(topic.stream, topic.name, GROUP)
    with broker.client() as silent:
        silent.join_group(topic.stream, topic.name, GROUP)

        source().latestOffset(topic.at(5, 0), ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (4, 1)


@pytest.fixture
def other(broker: BrokerProcess) -> Iterator[KeptAlive]:
    """Another program, which keeps what it joins."""
    with KeptAlive(broker.client(), interval_s=HEARTBEAT_S / 10) as kept:
        yield kept


def test_a_member_that_comes_later_takes_partitions_and_is_told_of(
    topic: "Topic", source: "Source", other: KeptAlive, caplog: pytest.LogCaptureFixture
) -> None:
    topic.send(0, payloads(10))
    topic.send(1, payloads(10))
    reader = source()
    reader.latestOffset(topic.at(1, 1), ReadAllAvailable())
    with other.use() as member:
        member.join_group(topic.stream, topic.name, GROUP)
        taken = member.sync_group(topic.stream, topic.name, GROUP)
    assert taken is not None
    (theirs,) = taken.partitions

    for _ in range(5):  # Spark asks many times a second
        reader.latestOffset(topic.at(5, 5), ReadAllAvailable())

    assert (topic.stored(GROUP, 1 - theirs), topic.stored(GROUP, theirs)) == (4, 0)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert f"partition {theirs} cannot be stored: another member of consumer group" in told[0]
    reader.latestOffset(topic.at(6, 6), ReadAllAvailable())
    assert topic.stored(GROUP, 1 - theirs) == 5


def test_a_required_group_shared_with_others_stops_the_query(
    topic: "Topic", source: "Source", other: KeptAlive
) -> None:
    topic.send(0, payloads(10))
    topic.send(1, payloads(10))
    reader = source(offsetMirror="required")
    reader.latestOffset(topic.at(1, 1), ReadAllAvailable())
    with other.use() as member:
        member.join_group(topic.stream, topic.name, GROUP)

    with pytest.raises(BrokerRefused, match="another member of consumer group 'g'"):
        reader.latestOffset(topic.at(5, 5), ReadAllAvailable())


def test_pings_keep_the_membership_however_long_a_batch_takes(
    topic: "Topic", source: "Source"
) -> None:
    topic.send(0, payloads(10))
    reader = source()
    reader.latestOffset(topic.at(1, 0), ReadAllAvailable())
    ends = time.monotonic() + 1.6 * HEARTBEAT_S  # beyond 1.2 intervals a silent member is gone

    counts = set()
    while time.monotonic() < ends:
        counts.add(topic.members(GROUP))
        time.sleep(0.02)

    assert counts == {1}
    reader.latestOffset(topic.at(5, 0), ReadAllAvailable())
    assert joins(reader) == 1


def joins(reader: readers.IggyStreamReader) -> int:
    (mirror,) = reader._mirrors._mirrors.values()
    return mirror._membership.joins


@pytest.mark.usefixtures("never_pings")
def test_a_lost_heartbeat_costs_nothing(topic: "Topic", source: "Source") -> None:
    topic.send(0, payloads(10))
    reader = source()
    reader.latestOffset(topic.at(1, 0), ReadAllAvailable())
    wait_until(lambda: topic.members(GROUP) == 0, "no member")

    reader.latestOffset(topic.at(5, 0), ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP), joins(reader)) == (4, 1, 2)


@pytest.mark.usefixtures("never_pings")
def test_who_was_away_finds_the_place_taken(
    topic: "Topic", source: "Source", monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.send(0, payloads(10))
    frozen, fresh = source(retryTimeoutMs="300ms"), source()
    frozen.latestOffset(topic.at(1, 0), ReadAllAvailable())
    wait_until(lambda: topic.members(GROUP) == 0, "no member")
    monkeypatch.setattr(membership, "PING_S", HEARTBEAT_S / 10)
    fresh.latestOffset(topic.at(8, 0), ReadAllAvailable())

    with pytest.raises(Fenced):
        frozen.latestOffset(topic.at(5, 0), ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (7, 1)


@pytest.mark.usefixtures("never_pings")
@pytest.mark.parametrize("has_stored", [True, False])
def test_who_was_away_does_not_take_back_what_others_did(
    topic: "Topic", source: "Source", has_stored: bool
) -> None:
    topic.send(0, payloads(10))
    frozen, fresh = source(), source()
    if has_stored:
        frozen.latestOffset(topic.at(1, 0), ReadAllAvailable())
    else:  # it repeats the last batch, as after a crash
        frozen.partitions(topic.at(0, 0), topic.at(5, 0))
    wait_until(lambda: topic.members(GROUP) == 0, "no member")
    fresh.latestOffset(topic.at(8, 0), ReadAllAvailable())
    fresh.stop()

    frozen.latestOffset(topic.at(5, 0), ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (7, 1)


def test_a_group_that_is_deleted_is_made_again(topic: "Topic", source: "Source") -> None:
    topic.send(0, payloads(10))
    reader = source()
    reader.latestOffset(topic.at(5, 0), ReadAllAvailable())
    topic.client.delete_group(topic.stream, topic.name, GROUP)

    reader.latestOffset(topic.at(6, 0), ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (5, 1)


def test_a_broker_that_restarts_has_its_member_back(
    topic: "Topic", source: "Source", broker: BrokerProcess
) -> None:
    topic.send(0, payloads(10))
    reader = source()
    reader.latestOffset(topic.at(4, 0), ReadAllAvailable())
    broker.kill()
    broker.start()
    topic.client.reconnect()
    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (3, 0)

    reader.latestOffset(topic.at(7, 0), ReadAllAvailable())

    assert (topic.stored(GROUP, 0), topic.members(GROUP)) == (6, 1)


def test_an_idle_query_joins_again_by_itself(
    topic: "Topic", source: "Source", broker: BrokerProcess
) -> None:
    topic.send(0, payloads(10))
    reader = source()
    end = topic.at(10, 0)
    reader.latestOffset(end, ReadAllAvailable())
    broker.kill()
    broker.start()
    topic.client.reconnect()

    def joined() -> bool:  # a ping finds out, and Spark asks again and again
        return reader.latestOffset(end, ReadAllAvailable()) == end and topic.members(GROUP) == 1

    wait_until(joined, "a member again")
    assert topic.stored(GROUP, 0) == 9
