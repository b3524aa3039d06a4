"""Very many clients, and no descriptors left: the broker serves who is in, and goes on."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from idle_crowd import idle_crowd
from iggy_client.client import Client
from iggy_client.errors import LinkError
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning, PollingStrategy
from process_memory import MIB, descriptors, processor_s, proportional_bytes, sockets
from raw_frames import RawClient
from waiting import wait_until

BYTES_A_CLIENT_MAX = 8 * 1024
BESIDE_BYTES = 4 * MIB
FILES = 200  # descriptors that each process of the small broker may have
PARTITIONS = 100
LOOK_S = 1.0  # for how long the processor time of a broker without work is looked at


def serve_others(client: Client, partitions: int) -> None:
    """Send to and poll from each partition."""
    for partition in range(partitions):
        sent = client.send("s", "t", Partitioning.partition(partition), [Message(b"m")])
        strategy = PollingStrategy.offset(sent.base_offset)
        assert client.poll("s", "t", partition, strategy=strategy, count=1).count == 1


def make_topic(broker: BrokerProcess, partitions: int) -> None:
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", partitions)
        serve_others(client, partitions)


def busy_s(broker: BrokerProcess) -> float:
    """Processor time that the shards use while nobody asks for anything."""
    before = sum(processor_s(pid) for pid in broker.shard_pids())
    time.sleep(LOOK_S)  # a rate is looked at: there is nothing to wait for
    return sum(processor_s(pid) for pid in broker.shard_pids()) - before


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "count", [1500, pytest.param(10_000, marks=pytest.mark.long)], ids=["1500", "10000"]
)
def test_idle_clients_cost_little_and_leave_nothing(
    tmp_path: Path, count: int, measured: Callable[[str], None]
) -> None:
    with running_broker(tmp_path, shards=2) as broker:
        shards = broker.shard_pids()
        open_before = [sockets(pid) for pid in shards]
        make_topic(broker, 4)
        before = proportional_bytes(shards)
        used = []
        for _ in range(2):  # what the first crowd leaves is used again by the second
            with idle_crowd(broker.tcp_port, count):
                assert sum(sockets(pid) for pid in shards) >= count
                with broker.client() as other:
                    serve_others(other, 4)
                    assert len(other.get_clients()) == count + 1
                used.append(proportional_bytes(shards) - before)
                idle_s = busy_s(broker)
            wait_until(lambda: [sockets(pid) for pid in shards] == open_before, "all are gone")
        with broker.client() as other:
            serve_others(other, 4)
        assert broker.shard_pids() == shards
    measured(
        f"{count} idle clients: {used[0] / count / 1024:.2f} KiB each, the second time "
        f"{used[1] / count / 1024:.2f}, and {idle_s:.2f} s of processor time a second"
    )
    assert used[0] <= count * BYTES_A_CLIENT_MAX
    assert used[1] <= used[0] + BESIDE_BYTES


@pytest.fixture
def small_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose processes may have few descriptors, with more partitions than that."""
    broker = BrokerProcess(tmp_path, shards=2)
    limit = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES},) * 2)"
    broker.wrapper = [sys.executable, "-c", f"{limit}; os.execv(sys.argv[1], sys.argv[1:])"]
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def test_without_descriptors_the_broker_serves_who_is_in_and_accepts_again_later(
    small_broker: BrokerProcess, measured: Callable[[str], None]
) -> None:
    broker = small_broker
    shards = broker.shard_pids()
    make_topic(broker, PARTITIONS)
    with broker.client() as known, contextlib.ExitStack() as opened:
        for _ in range(2 * FILES + 100):
            crowded = opened.enter_context(
                contextlib.closing(socket.create_connection(("127.0.0.1", broker.tcp_port)))
            )
            crowded.setblocking(False)
        serve_others(known, PARTITIONS)
        used = [descriptors(pid) for pid in shards]
        measured(f"of {FILES} descriptors a shard uses {max(used)}, {busy_s(broker):.2f} s/s")
        assert max(used) < FILES
        with pytest.raises((LinkError, ConnectionError)):
            for _ in range(20):  # until one reaches a shard that is full
                opened.enter_context(RawClient(broker.tcp_port)).login()
        assert busy_s(broker) < LOOK_S, "it spins"
        serve_others(known, PARTITIONS)

    wait_until(lambda: max(sockets(pid) for pid in shards) < FILES // 4, "the crowd is gone")
    with broker.client() as new:
        serve_others(new, PARTITIONS)
    assert broker.shard_pids() == shards
