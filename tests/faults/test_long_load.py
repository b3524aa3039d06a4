"""A mixed load for an hour: memory, descriptors, threads and tables of the broker stay flat.

The same code runs for some seconds in the ordinary tests. `LONG_LOAD_MINUTES` sets the long one.
"""

from __future__ import annotations

import asyncio
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_process import BrokerProcess, running_broker
from mixed_load import Mixed
from process_figures import (
    Series,
    anonymous_bytes,
    cpu_s,
    descriptors,
    folder_bytes,
    open_files,
    pss_bytes,
    threads,
)

MINUTES = float(os.environ.get("LONG_LOAD_MINUTES", "60"))
HOUR_MIN = 50  # minutes that count as an hour
MIB = 1 << 20
SAMPLES_MIN = 40
SAMPLE_S_MAX = 5.0
TABLES = ("connections", "sessions", "streams", "topics", "partitions", "consumer_groups", "users")
# Targets and client ids that are remembered up to a limit fill up in the first quarter of an hour.
# From the second to the last a shard serves some 300,000 requests: a leak of 10 bytes each shows.
MEMORY_MOVES_BYTES = 2 * MIB
MEMORY_FILLS_BYTES = 8 * MIB  # in a shorter time
DATA_BYTES_MAX = 128 * MIB  # purges keep it below
GONE_S = 20.0  # by then all connections are closed
CLIENTS_MOVE = 6  # visitors and members that may just be there, or not
DESCRIPTORS_MOVE = 20  # of these, and of segments between two purges


def processes(broker: BrokerProcess) -> dict[str, int]:
    """All processes of a broker by name."""
    shards = {f"shard {number}": pid for number, pid in enumerate(broker.shard_pids())}
    return {"supervisor": broker.pid, **shards}


def tables(broker: BrokerProcess) -> dict[str, int]:
    """How many of each thing the broker has, over all shards."""
    url = f"http://127.0.0.1:{broker.monitoring_port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    found = dict.fromkeys(TABLES, 0)
    for line in lines:
        name, _, value = line.partition(" ")
        name = name.partition("{")[0].removeprefix("iggy_")
        if name in found:
            found[name] += int(value)
    return found


def sample(broker: BrokerProcess, series: Series) -> None:
    for name, pid in processes(broker).items():
        series.add(f"memory of {name}", anonymous_bytes(pid))
        series.add(f"pss of {name}", pss_bytes(pid))
        series.add(f"descriptors of {name}", descriptors(pid))
        series.add(f"threads of {name}", threads(pid))
    for name, value in tables(broker).items():
        series.add(f"table {name}", value)
    series.add("data", folder_bytes(broker.data))


async def load(broker: BrokerProcess, mixed: Mixed, series: Series, seconds: float) -> None:
    """The load, and samples of the broker while it lasts."""
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    await mixed.prepare()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(mixed.run(over))
        while loop.time() < end_s and not running.done():
            await asyncio.to_thread(sample, broker, series)
            await asyncio.sleep(min(SAMPLE_S_MAX, seconds / SAMPLES_MIN))
        over.set()
    await mixed.finish()


def check_flat(series: Series, memory_bytes: int) -> None:
    """From the second quarter of the time to the last nothing grew beyond what moves anyway."""
    assert not series.grown(
        [
            ("memory of", memory_bytes),
            ("descriptors of", DESCRIPTORS_MOVE),
            ("threads of", 1),
            ("table connections", CLIENTS_MOVE),
            ("table sessions", CLIENTS_MOVE),
            ("table streams", 1),
            ("table topics", 1),
            ("table partitions", 8),
            ("table consumer_groups", 1),
            ("table users", 1),
        ]
    )
    assert series.highest("data") < DATA_BYTES_MAX


def summary(mixed: Mixed, series: Series, cores: float) -> str:
    """What was done and seen, in a line."""
    done = ", ".join(f"{count} {name}" for name, count in sorted(mixed.done.items()))
    seen = [
        f"{name} {series.early(name) / unit:.1f} → {series.late(name) / unit:.1f} {sign}".rstrip()
        for name in sorted(series.values)
        for unit, sign in [(MIB, "MiB") if name.startswith(("memory", "pss", "data")) else (1, "")]
    ]
    return f"{mixed.messages} messages; {done}; {cores:.2f} cores in all; {'; '.join(seen)}"


def load_for(
    folder: Path, seconds: float, measured: Callable[[str], None], memory_bytes: int
) -> None:
    """The load on a fresh broker; when all have gone, nothing of them may be left."""
    with running_broker(folder, shards=2, monitoring=True) as broker:
        with broker.client() as client:  # whatever is opened once and then kept
            client.create_stream("first")
            client.delete_stream("first")
        mixed, series = Mixed(broker, seed=1), Series()
        before = opened(broker)
        began_s, used_s = time.monotonic(), time.process_time()
        asyncio.run(load(broker, mixed, series, seconds))
        used_s = time.process_time() - used_s + sum(map(cpu_s, processes(broker).values()))
        measured(summary(mixed, series, cores=used_s / (time.monotonic() - began_s)))
        check_flat(series, memory_bytes)
        deadline_s = time.monotonic() + GONE_S
        while (left := opened(broker) - before) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert not left, "descriptors that nobody closed"
        assert tables(broker) == dict.fromkeys(TABLES, 0) | {"users": 1}
    assert [one for one in broker.records() if one["level"] in ("error", "critical")] == []


def opened(broker: BrokerProcess) -> Counter[str]:
    """What all processes of a broker have open, by name."""
    return Counter(
        f"{name}: {what}" for name, pid in processes(broker).items() for what in open_files(pid)
    )


@pytest.mark.timeout(180)
def test_a_mixed_load_leaves_nothing_behind(
    tmp_path: Path, measured: Callable[[str], None]
) -> None:
    load_for(tmp_path, 10, measured, memory_bytes=MEMORY_FILLS_BYTES)


@pytest.mark.long
@pytest.mark.timeout(MINUTES * 60 + 300)
def test_an_hour_of_mixed_load_stays_flat(tmp_path: Path, measured: Callable[[str], None]) -> None:
    memory_bytes = MEMORY_MOVES_BYTES if MINUTES >= HOUR_MIN else MEMORY_FILLS_BYTES
    load_for(tmp_path, MINUTES * 60, measured, memory_bytes)
