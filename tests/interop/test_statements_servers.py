"""Clients, figures, the cluster of one and snapshots, case by case, on a broker with two shards."""

from __future__ import annotations

import fcntl
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from access_cases import code_of, on_shard
from broker_process import BrokerProcess, running_broker
from group_cases import make_topic, wait_for
from iggy_client import Client
from iggy_wire.errors import ErrorCode

PARTITIONS = 4


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


def test_a_client_is_told_of_itself(broker: BrokerProcess) -> None:
    with on_shard(broker, 0) as first, on_shard(broker, 1) as second:
        seen = [client.get_me() for client in (first, second)]
        for me, client in zip(seen, (first, second), strict=True):
            assert me.client.client_id > 0
            assert (me.client.user_id, me.client.transport) == (0, 1)
            address = client._link._socket.getsockname()
            assert me.client.address == f"{address[0]}:{address[1]}"
            assert (me.client.groups_count, me.groups) == (0, ())
        assert seen[0].client.client_id != seen[1].client.client_id


def test_open_connections_count_and_only_logins_are_listed(
    broker: BrokerProcess, root: Client
) -> None:
    def figures() -> tuple[int, int]:
        return root.get_stats().clients_count, len(root.get_clients())

    connected, listed = figures()
    assert connected >= listed
    with ExitStack() as stack:
        for _ in range(8):
            bare = socket.create_connection(("127.0.0.1", broker.tcp_port))
            stack.enter_context(bare)
        stack.enter_context(broker.client())
        wait_for(lambda: figures() == (connected + 9, listed + 1))
    wait_for(lambda: figures() == (connected, listed))
    assert root.get_client(1 << 31) is None
    assert root.get_client((1 << 32) - 1) is None


def test_figures_of_the_broker(broker: BrokerProcess, root: Client) -> None:
    stream = make_topic(root, partitions=PARTITIONS, per_partition=5)
    for partition in range(PARTITIONS):
        assert root.poll(stream, "t", partition, consumer="c", count=5).count == 5
    wait_for(lambda: root.get_stats().read_bytes > 0 and root.get_stats().written_bytes > 0)
    stats = root.get_stats()
    assert stats.process_id in broker.shard_pids()
    assert 0 < stats.memory_usage < stats.total_memory
    assert 0 < stats.available_memory <= stats.total_memory
    now_us = time.time_ns() // 1000
    assert 0 < stats.start_time_us < now_us
    assert 0 < stats.run_time_us <= now_us - stats.start_time_us
    assert stats.cpu_usage >= 0 and 0 <= stats.total_cpu_usage <= 100
    assert stats.hostname == socket.gethostname()
    assert stats.os_name and stats.kernel_version
    major, minor, patch = map(int, stats.server_version.split("+")[0].split("-")[0].split("."))
    assert stats.server_semver == major * 1_000_000 + minor * 1000 + patch
    assert stats.threads_count > 0
    assert 0 < stats.free_disk_space <= stats.total_disk_space


def check_totals(client: Client) -> tuple[int, ...]:
    """Counts of the broker are the sums over its streams; what they are."""
    stats, streams = client.get_stats(), client.get_streams()
    topics = [topic for stream in streams for topic in client.get_topics(stream.id)]
    details = [
        found
        for stream in streams
        for topic in client.get_topics(stream.id)
        if (found := client.get_topic(stream.id, topic.id)) is not None
    ]
    groups = sum(
        len(client.get_groups(stream.id, topic.id))
        for stream in streams
        for topic in client.get_topics(stream.id)
    )
    partitions = [one for found in details for one in found.partitions]
    counted = (
        len(streams),
        len(topics),
        len(partitions),
        sum(one.segments_count for one in partitions),
        sum(stream.messages_count for stream in streams),
        sum(stream.size_bytes for stream in streams),
        groups,
    )
    assert counted == (
        stats.streams_count,
        stats.topics_count,
        stats.partitions_count,
        stats.segments_count,
        stats.messages_count,
        stats.messages_size_bytes,
        stats.consumer_groups_count,
    )
    assert sum(topic.messages_count for topic in topics) == stats.messages_count
    assert sum(one.messages_count for one in partitions) == stats.messages_count
    assert sum(topic.size_bytes for topic in topics) == stats.messages_size_bytes
    assert sum(one.size_bytes for one in partitions) == stats.messages_size_bytes
    assert stats.segments_count >= stats.partitions_count
    return counted


def test_totals_are_sums_also_after_a_restart(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        with broker.client() as client:
            assert check_totals(client) == (0,) * 7
            for count in (3, 0, 5):
                make_topic(client, partitions=PARTITIONS, groups=("g", "h"), per_partition=count)
            before = check_totals(client)
            assert before[:5] == (3, 3, 12, 12, 32)
            client.delete_topic(1, "t")
            client.purge_topic(0, "t")
            before = check_totals(client)
        assert broker.stop() == 0, broker.text()
        broker.start()
        with broker.client() as client:
            assert check_totals(client) == before == (3, 2, 8, 8, 20, before[5], 4)
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def test_the_cluster_is_this_node(broker: BrokerProcess, root: Client) -> None:
    cluster = root.get_cluster_metadata()
    (node,) = cluster.nodes
    assert (node.address, node.tcp_port) == ("127.0.0.1", broker.tcp_port)
    assert (node.role, node.status) == (0, 0), "the leader, and healthy"


@pytest.mark.parametrize(
    ("advertised", "told"),
    [
        ("iggy.example", ("iggy.example", 0)),
        ("iggy.example:31000", ("iggy.example", 31000)),
        ("[2001:db8::7]:8091", ("2001:db8::7", 8091)),
    ],
)
def test_clients_are_told_the_address_that_is_advertised(
    tmp_path: Path, advertised: str, told: tuple[str, int]
) -> None:
    settings = {"IGGY_TCP_ADVERTISED_ADDRESS": advertised}
    with running_broker(tmp_path, shards=1, settings=settings) as broker, broker.client() as client:
        (node,) = client.get_cluster_metadata().nodes

        assert (node.address, node.tcp_port) == (told[0], told[1] or broker.tcp_port)


def test_no_snapshot_while_another_one_is_made(broker: BrokerProcess, root: Client) -> None:
    """Whoever makes one holds this lock."""
    root.get_snapshot([4])
    with (broker.data / "runtime" / "snapshot.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for shard in range(2):
            with on_shard(broker, shard) as client:
                refused = code_of(lambda one=client: one.get_snapshot([4]))  # type: ignore[misc]
                assert refused == ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED
    root.get_snapshot([4])
