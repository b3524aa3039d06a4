"""Groups and the life of the broker: restarts, kills, silent members, time limits, many at once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from group_cases import (
    GROUP,
    NOT_OWNED,
    TOPIC,
    code_of,
    fill,
    make_topic,
    members,
    offset_files,
    offsets,
    owned,
    read,
    wait_for,
)
from iggy_client import Client, ClientError
from iggy_wire.errors import ErrorCode

PARTITIONS = 4

FROZEN = """
import sys
from iggy_client import Client, ClientError
from iggy_wire.primitives import Consumer
address, username, password, stream = sys.argv[1:5]
client, group = Client.connect(address, username, password), Consumer.group("g")
client.join_group(stream, "t", "g")
client.poll(stream, "t", 0, consumer=group, count=10)
print("read", flush=True)
sys.stdin.readline()
for work in (
    lambda: client.store_offset(group, stream, "t", 0, 9),
    lambda: client.poll(stream, "t", 0, consumer=group, count=10, auto_commit=True),
):
    try:
        print("done", getattr(work(), "partition_id", None), flush=True)
    except (ClientError, ConnectionError) as error:
        print("refused", getattr(error, "code", 0), flush=True)
"""


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_no_ghosts_come_back_and_offsets_stay(tmp_path: Path, end: str) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        with broker.client() as admin, broker.client() as member:
            stream = make_topic(admin, partitions=PARTITIONS, per_partition=10)
            for client in (admin, member):
                client.join_group(stream, TOPIC, "g")
            for client in (admin, member):
                for partition in owned(client, stream) or ():
                    read(client, stream, partition, count=4, auto_commit=True)
            assert broker.stop() == 0 if end == "stop" else broker.kill() is None
        broker.start()
        with broker.client() as admin, broker.client() as member:
            assert members(admin, stream) == {}
            assert owned(admin, stream) is None
            member.join_group(stream, TOPIC, "g")
            assert members(admin, stream) == {0: (0, 1, 2, 3)}
            for partition in range(PARTITIONS):
                fill(admin, stream, partition, 2)
                expected = [4, 5, 6, 7, 8, 9, 10, 11]
                assert offsets(read(member, stream, partition, auto_commit=True)) == expected
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def test_a_deleted_group_leaves_nothing_behind_a_kill(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        with broker.client() as admin:
            stream = make_topic(admin, partitions=PARTITIONS, per_partition=5)
            admin.join_group(stream, TOPIC, "g")
            for partition in range(PARTITIONS):
                read(admin, stream, partition, auto_commit=True)
            kept = {path: path.read_bytes() for path in offset_files(broker.data)}
            assert len(kept) == PARTITIONS
            admin.delete_group(stream, TOPIC, "g")
            assert offset_files(broker.data) == []
        broker.kill()
        for path, record in kept.items():  # as if the crash had come before they were removed
            path.write_bytes(record)
        broker.start()
        assert offset_files(broker.data) == []
        assert "of a deleted group, removed" in broker.text()
        with broker.client() as admin:
            assert admin.create_group(stream, TOPIC, "g").group.id == 1
            admin.join_group(stream, TOPIC, "g")
            for partition in range(PARTITIONS):
                assert offsets(read(admin, stream, partition)) == [0, 1, 2, 3, 4]
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def test_nobody_waits_for_a_commit_that_does_not_come(tmp_path: Path) -> None:
    settings = {"IGGY_CONSUMER_GROUP_REBALANCING_TIMEOUT": "500ms"}
    with (
        running_broker(tmp_path, shards=2, settings=settings) as broker,
        broker.client() as first,
        broker.client() as second,
    ):
        stream = make_topic(first, partitions=PARTITIONS, per_partition=5)
        first.join_group(stream, TOPIC, "g")
        for partition in range(PARTITIONS):
            read(first, stream, partition)
        second.join_group(stream, TOPIC, "g")
        assert owned(second, stream) == ()
        took_s = wait_for(lambda: set(owned(second, stream) or ()) == {2, 3})
        assert took_s > 0.3, "not before its time"
        assert members(first, stream)[0] == (0, 1)
        for partition in (2, 3):
            with pytest.raises(ClientError) as error:
                first.store_offset(GROUP, stream, TOPIC, partition, 4)
            assert code_of(error) == ErrorCode.RESOURCE_NOT_FOUND
            assert offsets(read(second, stream, partition)) == [0, 1, 2, 3, 4], "once more"


def test_a_frozen_member_wakes_up_and_moves_nothing(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, shards=2, settings={"IGGY_HEARTBEAT_INTERVAL": "1s"}) as broker,
        broker.client() as other,
    ):
        stream = make_topic(other, partitions=1, per_partition=60)
        command = [sys.executable, "-c", FROZEN, broker.address, USERNAME, PASSWORD, stream]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as frozen:
            assert frozen.stdout is not None
            assert frozen.stdin is not None
            try:
                assert frozen.stdout.readline() == "read\n"
                frozen.send_signal(signal.SIGSTOP)
                other.join_group(stream, TOPIC, "g")
                wait_for(lambda: owned(other, stream) == (0,), within_s=20)
                read(other, stream, 0, auto_commit=True, count=51)
            finally:
                frozen.send_signal(signal.SIGCONT)
            frozen.stdin.write("\n")
            frozen.stdin.flush()
            answers = [frozen.stdout.readline().split() for _ in range(2)]
        assert answers[0] == ["refused", str(int(ErrorCode.STALE_CLIENT))]
        assert answers[1][0] == "refused"
        stored = other.get_offset(GROUP, stream, TOPIC, 0)
        assert stored is not None
        assert stored.stored_offset == 50
        assert offsets(read(other, stream, 0)) == list(range(51, 60))


def test_members_come_and_go_and_every_message_is_read(tmp_path: Path) -> None:
    """A group under churn: each message is read, each partition always has one owner at the end."""
    with running_broker(tmp_path, shards=2) as broker, broker.client() as admin:
        stream = make_topic(admin, partitions=6)
        seen: Counter[tuple[int, int]] = Counter()
        lock, over = threading.Lock(), threading.Event()
        workers = [
            threading.Thread(target=_consume, args=(broker, stream, seed, (seen, lock, over)))
            for seed in range(4)
        ]
        for worker in workers:
            worker.start()
        try:
            for number in range(60):
                fill(admin, stream, number % 6, 10)
                time.sleep(0.02)
            wait_for(lambda: _count(seen, lock) == 600, within_s=30)
        finally:
            over.set()
            for worker in workers:
                worker.join()
        assert set(seen) == {(partition, n) for partition in range(6) for n in range(100)}
        wait_for(lambda: members(admin, stream) == {})
        for partition in range(6):
            stored = admin.get_offset(GROUP, stream, TOPIC, partition)
            assert stored is not None
            assert stored.stored_offset == stored.current_offset == 99


def _count(seen: Counter[tuple[int, int]], lock: threading.Lock) -> int:
    with lock:
        return len(seen)


def _consume(
    broker: BrokerProcess,
    stream: str,
    seed: int,
    shared: tuple[Counter[tuple[int, int]], threading.Lock, threading.Event],
) -> None:
    """Join, read and commit a few rounds, then leave in one way or another, again and again."""
    seen, lock, over = shared
    chance = random.Random(seed)
    while not over.is_set():
        with broker.client() as client:
            client.join_group(stream, TOPIC, "g")
            for _ in range(chance.randrange(5, 40)):
                for partition in owned(client, stream) or ():
                    polled = read(client, stream, partition, count=7)
                    if polled.partition_id == NOT_OWNED or not polled.count:
                        continue
                    try:
                        last = offsets(polled)[-1]
                        client.store_offset(GROUP, stream, TOPIC, partition, last)
                    except ClientError as error:
                        assert error.code == ErrorCode.RESOURCE_NOT_FOUND
                        continue
                    with lock:
                        seen.update((partition, offset) for offset in offsets(polled))
                if over.is_set():
                    break
            if chance.random() < 0.5:
                client.leave_group(stream, TOPIC, "g")


def test_busy_pollers_do_not_starve_the_others(tmp_path: Path) -> None:
    with running_broker(tmp_path, shards=1) as broker, ExitStack() as stack:
        admin = stack.enter_context(broker.client())
        stream = make_topic(admin, partitions=10)
        over, polls = threading.Event(), Counter[int]()
        found: dict[int, float] = {}
        threads = [
            threading.Thread(
                target=_poll_without_pause, args=(broker, stream, number, over, (polls, found))
            )
            for number in range(10)
        ]
        for thread in threads:
            thread.start()
        try:
            wait_for(
                lambda: len(members(admin, stream)) == 10 and polls.total() > 1000, within_s=30
            )
            written = broker.log.stat().st_size
            taken_s = sorted(_timed(admin.ping) for _ in range(200))
            fill(admin, stream, 5, 1)
            wait_for(lambda: bool(found), within_s=5)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert taken_s[100] < 0.05, "half of the pings, on any machine"
        assert broker.log.stat().st_size == written, "no line per poll"


def _timed(work: object) -> float:
    assert callable(work)
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _poll_without_pause(
    broker: BrokerProcess,
    stream: str,
    number: int,
    over: threading.Event,
    shared: tuple[Counter[int], dict[int, float]],
) -> None:
    polls, found = shared
    with broker.client() as client:
        client.join_group(stream, TOPIC, "g")
        while not over.is_set():
            for partition in owned(client, stream) or ():
                polled = read(client, stream, partition, auto_commit=True)
                polls[number] += 1
                if polled.count:
                    found[number] = time.monotonic()


def test_groups_of_one_name_are_made_once(tmp_path: Path) -> None:
    with running_broker(tmp_path, shards=2) as broker, ExitStack() as stack:
        clients = [stack.enter_context(broker.client()) for _ in range(20)]
        stream = make_topic(clients[0], partitions=2, groups=())
        codes: list[int] = []
        start = threading.Barrier(20)

        def create(client: Client) -> None:
            start.wait()
            try:
                client.create_group(stream, TOPIC, "g")
                client.join_group(stream, TOPIC, "g")
                codes.append(0)
            except ClientError as error:
                codes.append(error.code)

        threads = [threading.Thread(target=create, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = int(ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS)
        assert Counter(codes) == {0: 1, taken: 19}
        assert len(members(clients[0], stream)) == 1
