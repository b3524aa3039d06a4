"""Frozen processes under load: a shard, the supervisor, a member of a group. Nobody is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from group_cases import members, wait_for
from iggy_client import Client, LinkError
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning
from load_history import History, Load, make_topic, read_all
from official_load import PARTITIONS, STREAM

FROZEN_S = 3.0
WITHIN_S = 30.0
MANY = 300  # messages: the load goes on
QUICK = {"IGGY_HEARTBEAT_INTERVAL": "2s"}  # a freeze is longer than members may be silent
EXIT_FAILED = 70

pytestmark = pytest.mark.timeout(180)  # all waits have ends of their own


@contextmanager
def frozen(process: int) -> Iterator[None]:
    """Stop a process for the length of a block."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@contextmanager
def load_on(broker: BrokerProcess, folder: Path) -> Iterator[tuple[Load, History, Client]]:
    """Four producers and a group of two; at the end all that they were told is compared."""
    notes = folder / "notes"
    notes.mkdir()
    load = Load(broker, notes)
    history = History(load)
    try:
        with broker.client() as admin:
            make_topic(admin, "replicated")
            load.start("producer", 4)
            load.start("member", 2)
            wait_until_it_goes_on(history)
            yield load, history, admin
            wait_until_it_goes_on(history)
            load.stop("producer")
            wait_for(history.is_all_read, within_s=WITHIN_S)
            load.stop("member")
            history.look_at_offsets(admin)
            history.compare(read_all(admin))
    finally:
        load.end()


def wait_until_it_goes_on(history: History, *, members: int = 2) -> None:
    since = history.mark()
    wait_for(lambda: history.has_gone_on(since, messages=MANY, members=members), within_s=WITHIN_S)


def pinned(broker: BrokerProcess, stack: ExitStack) -> list[Client]:
    """A client for each partition of a topic, connected to the shard that owns it."""
    clients = [stack.enter_context(broker.client()) for _ in range(PARTITIONS)]
    clients[0].create_topic(STREAM, "pinned", PARTITIONS)
    for partition, client in enumerate(clients):
        for _ in range(50):  # by then the connection has moved to the partition's owner
            send(client, partition)
    return clients


def send(client: Client, partition: int) -> None:
    target = Partitioning.partition(partition)
    client.send(STREAM, "pinned", target, [Message(b"m")])


def served_without(shard: int, clients: list[Client]) -> set[int]:
    """Whose partitions answer while a shard is frozen. The others do so when it goes on."""
    with ThreadPoolExecutor(PARTITIONS) as pool:
        with frozen(shard):
            sends = [
                pool.submit(send, client, partition) for partition, client in enumerate(clients)
            ]
            done = wait(sends, timeout=FROZEN_S).done
        for one in sends:
            one.result()
        return {partition for partition, one in enumerate(sends) if one in done}


def test_a_frozen_shard_holds_up_its_own_clients_and_loses_nobody(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, shards=2, settings=QUICK) as broker,
        load_on(broker, tmp_path) as (_, history, admin),
    ):
        shards = broker.shard_pids()
        with ExitStack() as stack:
            clients = pinned(broker, stack)
            served = []
            for shard in shards:
                served.append(served_without(shard, clients))
                wait_until_it_goes_on(history)

        assert served[0] and served[1]
        assert served[0] | served[1] == set(range(PARTITIONS))
        assert not served[0] & served[1]
        assert broker.shard_pids() == shards
        assert len(members(admin, STREAM)) == 2
        assert "sent away" not in broker.text(), "the broker was late, and not they"
        assert set(history.asked.values()) == {1}, "no connection was lost"


def test_a_frozen_supervisor_holds_up_nobody(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, shards=2, settings=QUICK) as broker,
        load_on(broker, tmp_path) as (_, history, _),
    ):
        with frozen(broker.pid):
            wait_until_it_goes_on(history)
        wait_until_it_goes_on(history)

        assert set(history.asked.values()) == {1}, "no connection was lost"


def test_a_shard_that_dies_while_the_supervisor_is_frozen_takes_the_broker_with_it(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        process = broker.process
        assert process is not None
        victim, other = broker.shard_pids()
        with frozen(broker.pid):
            os.kill(victim, signal.SIGKILL)
            wait_for(lambda: is_gone(other))
            with pytest.raises(LinkError):
                broker.client()
        assert process.wait(WITHIN_S) == EXIT_FAILED
        broker.start()
        assert broker.stop() == 0
    finally:
        broker.end()


def is_gone(pid: int) -> bool:
    """Whether a process has ended, perhaps with nobody who was told yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_a_frozen_member_loses_its_partitions_and_comes_back(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, shards=2, settings=QUICK) as broker,
        load_on(broker, tmp_path) as (load, history, admin),
    ):
        wait_for(lambda: sorted(map(len, members(admin, STREAM).values())) == [2, 2], within_s=60)
        with frozen(load.process("member-1").pid):
            wait_for(lambda: owned_by_one(admin), within_s=WITHIN_S)
            history.look_at_offsets(admin)
            since = history.mark()
            wait_for(
                lambda: history.has_gone_on(since, messages=MANY, members=1), within_s=WITHIN_S
            )
            history.look_at_offsets(admin)
        wait_until_it_goes_on(history)
        wait_for(lambda: sorted(map(len, members(admin, STREAM).values())) == [2, 2], within_s=60)

        assert "a silent member of a group was sent away" in broker.text()
        places = history.reads["member-0"]
        assert len(set(places)) == len(places), "who took over sees nothing twice"


def owned_by_one(admin: Client) -> bool:
    """Whether the group has one member left, who owns all."""
    return list(map(len, members(admin, STREAM).values())) == [PARTITIONS]


@pytest.mark.parametrize("shard", [0, 1])
def test_a_shard_that_dies_while_the_broker_stops_holds_nobody_up(
    tmp_path: Path, shard: int
) -> None:
    settings = {"IGGY_SYSTEM_SHARDING_SHUTDOWN_DRAIN_TIMEOUT": "50s"}  # longer than we wait
    broker = BrokerProcess(tmp_path, shards=2, settings=settings).start()
    try:
        process = broker.process
        assert process is not None
        victim = broker.shard_pids()[shard]
        os.kill(victim, signal.SIGSTOP)  # it does not hear that it is to stop
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: "= stopping" in broker.text())
        os.kill(victim, signal.SIGKILL)
        assert process.wait(WITHIN_S) == EXIT_FAILED
    finally:
        broker.end()
