"""A network that splits, joins, stalls and cuts: nothing acknowledged is lost, nothing leaks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_process import running_broker
from network_load import PARTITIONS, PRODUCERS, AsyncMember, History, Member, read_all
from process_memory import MIB, proportional_bytes, sockets
from proxy import Proxy
from waiting import wait_until

GROWTH_BYTES_MAX = 24 * MIB  # of all processes together
TEMPERS = ("whole", "small", "single", "joined")


def run_through(proxy: Proxy, history: History, *, producers: int, batches: int) -> None:
    """Producers of every kind and three group members, until the members have read all."""
    over = threading.Event()
    senders = [
        threading.Thread(
            target=produce, args=(proxy.address, history, f"{proxy.seed}-{kind}-{place}", batches)
        )
        for kind, produce in PRODUCERS.items()
        for place in range(producers)
    ]
    members = [
        threading.Thread(target=kind(proxy.address, history).run, args=(over,))
        for kind in (Member, Member, AsyncMember)
    ]
    try:
        for thread in senders + members:
            thread.start()
        for sender in senders:
            sender.join()
        # The members do it on the same bad network: the group recovers from every cut.
        wait_until(lambda: not history.acknowledged.keys() - history.read, "the group reads all")
    finally:
        over.set()
        for thread in senders + members:
            thread.join()


def check(history: History, stored: dict[tuple[int, int], bytes], cuts: int) -> None:
    assert not history.wrong
    lost = [place for place, one in history.acknowledged.items() if stored.get(place) != one]
    assert not lost, "acknowledged, and not there"
    times = Counter(stored.values())
    assert times.keys() <= history.asked, "stored, and nobody asked for it"
    # Ours never send twice. The official client repeats what it got no answer to: after a cut.
    doubles = {payload for payload, count in times.items() if count > 1}
    assert all(b"-official-" in payload for payload in doubles)
    assert sum(times[payload] - 1 for payload in doubles) <= 3 * cuts  # messages in a batch


def through_bad_networks(folder: Path, seeds: range, *, producers: int, batches: int) -> str:
    history = History()
    seen: Counter[str] = Counter()
    with running_broker(folder, shards=2) as broker:
        shards = broker.shard_pids()
        open_before = [sockets(pid) for pid in shards]
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", PARTITIONS)
            client.create_group("s", "t", "g")
        memory = proportional_bytes(shards)
        for seed in seeds:
            with Proxy(broker.tcp_port, seed) as proxy:
                run_through(proxy, history, producers=producers, batches=batches)
            seen += proxy.seen
            with broker.client() as client:
                check(history, read_all(client), seen["cuts"])

        def nobody_is_left() -> bool:
            with broker.client() as client:
                group = client.get_group("s", "t", "g")
            return group is not None and group.group.members_count == 0

        wait_until(nobody_is_left, "members of a group are gone with their connections")
        wait_until(lambda: [sockets(pid) for pid in shards] == open_before, "all connections close")
        grown = proportional_bytes(shards) - memory
        assert grown <= GROWTH_BYTES_MAX
        assert broker.shard_pids() == shards
    assert seen["cuts"] and seen["stalls"] and all(seen[temper] for temper in TEMPERS)
    return (
        f"{len(history.acknowledged)} messages acknowledged over {seen['connections']} connections "
        f"with {seen['cuts']} cuts and {seen['stalls']} stalls, none lost; troubles that clients "
        f"saw: {dict(history.troubles)}; PSS grew by {grown / MIB:.1f} MiB"
    )


def test_a_bad_network_loses_nothing_acknowledged(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    measured(through_bad_networks(tmp_path, range(1, 2), producers=1, batches=80))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_twenty_bad_networks_lose_nothing_acknowledged(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    measured(through_bad_networks(tmp_path, range(100, 120), producers=2, batches=300))
