"""A wall clock that jumps: offsets, times of batches, polls by time, tokens, members of groups."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message, messages
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning, PollingStrategy
from shifted_broker import BrokerWithClock

DAY_S = 86_400
YEAR_S = 365 * DAY_S
HOUR_US = 3600 * 1_000_000
HEARTBEAT_S = 0.25
PARTITIONS = 2
PER_JUMP = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerWithClock]:
    settings = {"IGGY_HEARTBEAT_INTERVAL": f"{int(HEARTBEAT_S * 1000)}ms"}
    broker = BrokerWithClock(tmp_path, settings=settings)
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
        assert "Traceback" not in broker.text()
    finally:
        broker.end()


def send_some(client: Client) -> None:
    for partition in range(PARTITIONS):
        for _ in range(PER_JUMP):
            target = Partitioning.partition(partition)
            client.send("s", "t", target, [Message(b"first"), Message(b"second")])


def poll(client: Client, partition: int, strategy: PollingStrategy, count: int) -> list[Message]:
    polled = client.poll("s", "t", partition, strategy=strategy, count=count)
    return list(messages(polled.region))


def assert_in_order(client: Client, count: int) -> None:
    """Offsets are dense, times rise from batch to batch, and every time finds its batch."""
    for partition in range(PARTITIONS):
        stored = poll(client, partition, PollingStrategy.offset(0), 10_000)
        assert [message.offset for message in stored] == list(range(count))
        times = [message.timestamp_us for message in stored[::2]]
        assert all(before < after for before, after in itertools.pairwise(times))
        for number, time_us in enumerate(times):
            (found,) = poll(client, partition, PollingStrategy.timestamp(time_us), 1)
            assert found.offset == 2 * number
        assert poll(client, partition, PollingStrategy.timestamp(times[-1] + 1), 1) == []
        (found,) = poll(client, partition, PollingStrategy.timestamp(0), 1)
        assert found.offset == 0


@pytest.mark.parametrize("durability", ["replicated", "persisted"])
def test_offsets_and_times_rise_whatever_the_clock_does(
    broker: BrokerWithClock, durability: str
) -> None:
    count = 0
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", PARTITIONS, {"durability": durability})
        for shift_s in (0, -DAY_S, YEAR_S, -DAY_S, 0):
            broker.shift_s = shift_s
            send_some(client)
            count += 2 * PER_JUMP
            assert_in_order(client, count)
            assert client.get_stats().run_time_us > 0
        (last,) = poll(client, 0, PollingStrategy.last(), 1)
        assert last.timestamp_us > broker.now_us() + (YEAR_S - DAY_S) * 1_000_000

    for shift_s, end in ((-DAY_S, broker.stop), (2 * YEAR_S, broker.kill), (0, broker.stop)):
        end()
        broker.shift_s = shift_s
        broker.start()
        with broker.client() as client:
            send_some(client)
            count += 2 * PER_JUMP
            assert_in_order(client, count)


def test_a_topic_made_again_at_an_earlier_time_is_another_one(broker: BrokerWithClock) -> None:
    with broker.client() as client:
        client.create_stream("s")
        for shift_s in (0, -DAY_S, YEAR_S, -DAY_S):
            broker.shift_s = shift_s
            client.create_topic("s", "t", PARTITIONS)
            send_some(client)
            client.store_offset("c", "s", "t", 0, 3)
            client.delete_topic("s", "t")
        client.create_topic("s", "t", PARTITIONS)
        assert client.get_offset("c", "s", "t", 0) is None
        assert poll(client, 0, PollingStrategy.offset(0), 10) == []


def test_tokens_end_by_the_wall_clock(broker: BrokerWithClock) -> None:
    with broker.client() as client, Client(broker.address) as guest:
        hour = client.create_access_token("hour", HOUR_US)
        never = client.create_access_token("never")
        for shift_s, works in ((0, True), (-DAY_S, True), (2 * 3600, False), (0, True)):
            broker.shift_s = shift_s
            guest.login_with_token(never)
            guest.logout()
            if works:
                guest.login_with_token(hour)
                guest.logout()
                continue
            with pytest.raises(ClientError) as refusal:
                guest.login_with_token(hour)
            assert refusal.value.code == ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN
            guest.reconnect()


def test_a_jump_sends_no_member_away(broker: BrokerWithClock) -> None:
    with broker.client() as one, broker.client() as other:
        one.create_stream("s")
        one.create_topic("s", "t", PARTITIONS)
        one.create_group("s", "t", "g")
        for member in (one, other):
            member.join_group("s", "t", "g")
        for shift_s in (YEAR_S, -DAY_S):
            broker.shift_s = shift_s
            until_s = time.monotonic() + 5 * HEARTBEAT_S
            while time.monotonic() < until_s:
                one.ping()
                other.ping()
            group = one.get_group("s", "t", "g")
            assert group is not None and group.group.members_count == 2
