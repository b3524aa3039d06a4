"""Clients that do not read, or do not finish what they send: they cost little, and nobody else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from iggy_broker.metadata.placement import pack, shard_of
from iggy_broker.net.buffers import IN_USE_BYTES_MAX
from iggy_broker.net.edge import STALL_CHECK_S
from iggy_broker.net.handlers.messages import WAITING_BYTES_MAX
from iggy_broker.net.unsent import UNSENT_BYTES_MAX
from iggy_client import messages
from iggy_client.client import Client
from iggy_wire.batch import Message
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies import Polled
from iggy_wire.requests import PollMessages, SendMessages
from process_memory import MIB, highest_bytes, proportional_bytes, sockets
from raw_frames import RawClient
from waiting import wait_until

PARTITIONS = 2  # all of shard 1: what clients of shard 0 ask for is forwarded
READERS = 96
STORED_BYTES = 24 * MIB  # in each partition
BESIDE_BYTES = 128 * MIB  # what a shard may use besides what the limits name


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a stream `s` and a topic `t` that has something to read in each partition."""
    with running_broker(tmp_path, shards=2) as running:
        assert {shard_of(pack(0, 0, partition), 2) for partition in range(PARTITIONS)} == {1}
        with running.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", PARTITIONS, {"consumer_offset_durability": "persisted"})
            payload = bytes(MIB)
            for partition in range(PARTITIONS):
                for _ in range(STORED_BYTES // MIB):
                    client.send("s", "t", Partitioning.partition(partition), [Message(payload)])
        yield running


def memory(broker: BrokerProcess) -> list[int]:
    return [proportional_bytes([pid]) for pid in broker.shard_pids()]


def open_sockets(broker: BrokerProcess) -> int:
    return sum(sockets(pid) for pid in broker.shard_pids())


def serve_others(client: Client, times: int, *, payload: bytes = b"small") -> None:
    """Somebody else sends to and polls from each partition, and waits for nobody."""
    for number in range(times):
        partition = number % PARTITIONS
        sent = client.send("s", "t", Partitioning.partition(partition), [Message(payload)])
        polled = client.poll(
            "s", "t", partition, strategy=PollingStrategy.offset(sent.base_offset), count=1
        )
        assert polled.count == 1


@contextlib.contextmanager
def crowd(broker: BrokerProcess, count: int, *, known: bool = True) -> Iterator[list[RawClient]]:
    """So many connections, logged in or not."""
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(RawClient(broker.tcp_port)) for _ in range(count)]
        for client in clients:
            if known:
                client.login()
        yield clients


def grown(broker: BrokerProcess, before: list[int]) -> int:
    """By how many bytes the shard grew that grew most."""
    return max(now - first for now, first in zip(memory(broker), before, strict=True))


def ask_for_all(client: RawClient, partition: int, *, auto_commit: bool = False) -> None:
    poll = PollMessages(
        Consumer.plain(1), Identifier("s"), Identifier("t"), partition, PollingStrategy.first(),
        1_000_000, auto_commit,
    )  # fmt: skip
    client.send(client.frame(poll))


def test_readers_that_do_not_read_cost_a_shard_no_more_than_its_limit(
    broker: BrokerProcess, measured: Callable[[str], None]
) -> None:
    before = memory(broker)
    with crowd(broker, READERS) as readers, broker.client() as other:
        most = 0
        for number, reader in enumerate(readers):
            ask_for_all(reader, number % PARTITIONS)
            serve_others(other, 4)
            for slow in readers[:number:8]:  # the others take nothing
                with contextlib.suppress(ConnectionError):
                    slow.socket.recv(1)
            most = max(most, grown(broker, before))
        serve_others(other, 100)
    measured(f"{READERS} readers of 24 MiB: a shard grew by {most / MIB:.0f} MiB")
    assert most <= UNSENT_BYTES_MAX + BESIDE_BYTES
    wait_until(lambda: grown(broker, before) <= BESIDE_BYTES, "memory is not given back")


def test_replies_that_wait_for_the_disk_are_small(
    broker: BrokerProcess, measured: Callable[[str], None]
) -> None:
    shards = broker.shard_pids()
    before = [highest_bytes(pid) for pid in shards]
    with crowd(broker, READERS) as readers, broker.client() as other:
        for number, reader in enumerate(readers):
            ask_for_all(reader, number % PARTITIONS, auto_commit=True)
        serve_others(other, 20)
    most = max(highest_bytes(pid) - at for pid, at in zip(shards, before, strict=True))
    measured(f"{READERS} polls that commit to the disk: a shard grew by {most / MIB:.0f} MiB")
    assert most <= READERS * WAITING_BYTES_MAX + BESIDE_BYTES


def test_a_reader_that_reads_in_the_end_gets_all(broker: BrokerProcess) -> None:
    with crowd(broker, 8) as readers, broker.client() as other:
        for number, reader in enumerate(readers):
            ask_for_all(reader, number % PARTITIONS)
        serve_others(other, 20)
        for reader in readers:
            _, body = reader.receive()
            polled = Polled.decode(body)
            assert polled.count >= 10
            assert [one.offset for one in messages(polled)] == list(range(polled.count))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_what_does_not_move_is_closed(broker: BrokerProcess) -> None:
    open_before = open_sockets(broker)
    with crowd(broker, 20) as readers, crowd(broker, 20, known=False) as senders:
        for number, reader in enumerate(readers):
            ask_for_all(reader, number % PARTITIONS)
        for client in senders:
            client.send(client.header(1, bytes(1000)).encode() + b"x")
        wait_until(lambda: open_sockets(broker) >= 40, "all are in")
        wait_until(
            lambda: open_sockets(broker) <= open_before,
            "the broker closes them",
            3 * STALL_CHECK_S + 30,
        )
        with broker.client() as other:
            serve_others(other, 10)


def test_hundreds_of_half_frames_hold_up_nobody(
    broker: BrokerProcess, measured: Callable[[str], None]
) -> None:
    before = memory(broker)
    with crowd(broker, 150, known=False) as strangers, crowd(broker, 150) as known:
        for client in strangers:
            client.send(client.header(1, bytes(100_000)).encode() + bytes(50_000))
        name, topic, target = Identifier("s"), Identifier("t"), Partitioning.partition(0)
        for client in known:
            frame = client.frame(SendMessages(name, topic, target, 1, bytes(MIB)))
            client.send(frame[: MIB // 2])
        with broker.client() as other:
            serve_others(other, 100)
            serve_others(other, 4, payload=bytes(2 * MIB))
        most = grown(broker, before)
        open_before = open_sockets(broker)
    measured(f"300 half frames: a shard grew by {most / MIB:.0f} MiB")
    assert most <= IN_USE_BYTES_MAX + BESIDE_BYTES
    wait_until(
        lambda: open_before - open_sockets(broker) >= 300,
        "connections are not closed",
    )


def test_frames_of_64_mib_that_dribble_hold_up_nobody(
    broker: BrokerProcess, measured: Callable[[str], None]
) -> None:
    before = memory(broker)
    with crowd(broker, 40) as dribblers, broker.client() as other:
        for client in dribblers:
            client.send(client.header(160, b"", size=64 * MIB).encode())
        for _ in range(10):
            for client in dribblers:
                with contextlib.suppress(ConnectionError):
                    client.send(b"x")
            serve_others(other, 4)
            serve_others(other, 1, payload=bytes(100_000))
        most = grown(broker, before)
        serve_others(other, 4, payload=bytes(4 * MIB))
    measured(f"40 frames of 64 MiB that dribble: a shard grew by {most / MIB:.0f} MiB")
    assert most <= IN_USE_BYTES_MAX + BESIDE_BYTES
