"""Big requests: the broker and the bare server move the same bytes, in alternating pairs."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iggy_bench.load import STREAM, Done, Role, Target, Work, consume, produce, run_clients
from iggy_bench.processes import PASSWORD, USERNAME, Server, start_bare, start_broker
from iggy_bench.report import Report, Row, middle, progress
from iggy_broker.metadata.placement import pack, shard_of
from iggy_client import Client

CLIENTS = 2
TOPICS_TRIED = 64
BIG = Work(requests=700, messages=1_000, payload_bytes=1_000)
OFFICIAL = Work(requests=300, messages=1_000, payload_bytes=1_000)
WARM_FACTOR = 1.2  # headers, and what else the system uses meanwhile
CPU_RATIO_MAX = 1.4  # the broker may cost this much more than a server that understands nothing


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one server: payload bytes per second, and what a GB of them cost."""

    mb_per_s: float
    cpu_s_per_gb: float


def measure(server: Server, role: Role, targets: list[Target], work: Work) -> Sample:
    """Run the clients against the server and see what it cost the server."""
    before = server.cpu_s()
    done = run_clients(role, targets, work)
    return _sample(server.cpu_s() - before, done, work)


def _sample(cpu_s: float, done: list[Done], work: Work) -> Sample:
    seconds = max(one.ended_s for one in done) - min(one.began_s for one in done)
    total = work.payload_total_bytes * len(done)
    return Sample(total / seconds / 1e6, cpu_s / (total / 1e9))


def warm_page_cache(folder: Path, size_bytes: int) -> None:
    """Write and delete a file, so that what is measured finds memory that the machine has in hand.

    A virtual machine gets memory from its host when it first touches it, and gives it back soon
    after it was freed. That costs many times what the broker does with it (3 s instead of 0.2 s a
    GB were seen). So this comes right before each run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chunk = bytes(1 << 20)
    with (folder / "warm").open("wb", buffering=0) as file:
        for _ in range(size_bytes >> 20):
            file.write(chunk)
    (folder / "warm").unlink()


def topics_on_all_shards(shards: int) -> list[int]:
    """Ids of `CLIENTS` topics of a new stream whose first partitions lie on different shards.

    Left to chance, both may belong to one shard, and the other would idle.
    """
    found: dict[int, list[int]] = {}
    for topic_id in range(TOPICS_TRIED):
        found.setdefault(shard_of(pack(0, topic_id, 0), shards), []).append(topic_id)
    return sorted(found[number % shards][number // shards] for number in range(CLIENTS))


def create_topics(server: Server, names: list[str], options: dict[str, str] | None = None) -> None:
    """The stream of the bench and topics of one partition each."""
    with Client.connect(server.address, USERNAME, PASSWORD) as client:
        if client.get_stream(STREAM) is None:
            client.create_stream(STREAM)
        for name in names:
            client.create_topic(STREAM, name, 1, options or {})


def broker_against_bare(folder: Path, report: Report, *, rounds: int, shards: int) -> None:
    """Rows for sending and reading with `shards` processes on either side."""
    samples: dict[str, list[Sample]] = {}
    for number in range(rounds):
        pair: list[Callable[[], None]] = [
            lambda: _run_broker(folder / "broker", samples, shards),
            lambda: _run_bare(folder / "bare", samples, shards),
        ]
        # Whoever comes second finds a busier disk: take turns.
        for run in pair if number % 2 == 0 else reversed(pair):
            run()
            shutil.rmtree(folder, ignore_errors=True)
            os.sync()
        progress(f"  round {number + 1} of {rounds}, {shards} shard(s)")
    for kind in ("send", "read"):
        ours, bare = samples[f"broker {kind}"], samples[f"bare {kind}"]
        report.samples[f"{kind} {shards}"] = [
            {
                "broker_mb_per_s": one.mb_per_s,
                "broker_cpu_s_per_gb": one.cpu_s_per_gb,
                "bare_mb_per_s": other.mb_per_s,
                "bare_cpu_s_per_gb": other.cpu_s_per_gb,
            }
            for one, other in zip(ours, bare, strict=True)
        ]
        report.rows += _rows(kind, shards, ours, bare)


def _rows(kind: str, shards: int, ours: list[Sample], bare: list[Sample]) -> list[Row]:
    clients = "producers" if kind == "send" else "consumers"
    what = f"{kind} 1,000 × 1,000 B a request, {CLIENTS} {clients}, {shards} shard(s)"
    pairs = list(zip(ours, bare, strict=True))
    cpu_ratio = middle([one.cpu_s_per_gb / other.cpu_s_per_gb for one, other in pairs])
    speed_ratio = middle([one.mb_per_s / other.mb_per_s for one, other in pairs])
    return [
        Row(
            what=f"{what}: CPU",
            ours=f"{middle([one.cpu_s_per_gb for one in ours]):.2f} s/GB",
            baseline=f"bare server {middle([one.cpu_s_per_gb for one in bare]):.2f} s/GB",
            ratio=cpu_ratio,
            aim=f"≤ {CPU_RATIO_MAX}",
            met=cpu_ratio <= CPU_RATIO_MAX,
        ),
        Row(
            what=f"{what}: throughput",
            ours=f"{middle([one.mb_per_s for one in ours]):,.0f} MB/s",
            baseline=f"bare server {middle([one.mb_per_s for one in bare]):,.0f} MB/s",
            ratio=speed_ratio,
            aim="",
            met=None,
        ),
    ]


def _run_broker(folder: Path, samples: dict[str, list[Sample]], shards: int) -> None:
    with start_broker(folder, shards=shards) as server:
        chosen = topics_on_all_shards(shards)
        create_topics(server, [f"topic-{number}" for number in range(max(chosen) + 1)])
        targets = [
            Target(server.port, f"topic-{topic}", number) for number, topic in enumerate(chosen)
        ]
        _both_ways(server, targets, samples, folder)


def _run_bare(folder: Path, samples: dict[str, list[Sample]], shards: int) -> None:
    with start_bare(folder, processes=shards) as server:
        targets = [
            Target(server.port, f"topic-{number}", number, bare=True) for number in range(CLIENTS)
        ]
        _both_ways(server, targets, samples, folder)


def _both_ways(
    server: Server, targets: list[Target], samples: dict[str, list[Sample]], folder: Path
) -> None:
    name = "bare" if targets[0].bare else "broker"
    warm_page_cache(folder, int(WARM_FACTOR * CLIENTS * BIG.payload_total_bytes))
    for kind, role in (("send", produce), ("read", consume)):
        samples.setdefault(f"{name} {kind}", []).append(measure(server, role, targets, BIG))


def official_client(folder: Path, report: Report) -> None:
    """The same messages through the official Python client: here the client is what costs."""
    with start_broker(folder / "official", shards=1) as server:
        create_topics(server, ["official"])
        before = server.cpu_s()
        send_s, read_s = asyncio.run(_official(server.address))
        cpu = server.cpu_s() - before
    total = OFFICIAL.payload_total_bytes
    report.samples["official client"] = [{"send_s": send_s, "read_s": read_s, "cpu_s": cpu}]
    report.rows.append(
        Row(
            what="1,000 × 1,000 B a request through the official client, one producer, then one "
            "consumer",
            ours=f"sends {total / send_s / 1e6:,.0f} MB/s, reads {total / read_s / 1e6:,.0f} MB/s",
            baseline="",
            ratio=None,
            aim="",
            met=None,
            note=f"the broker's CPU for both: {cpu / (total / 1e9):.2f} s/GB",
        )
    )


async def _official(address: str) -> tuple[float, float]:
    from apache_iggy import (  # here: only this row needs it
        AutoLogin,
        Consumer,
        IggyClient,
        PollingStrategy,
        SendMessage,
        TcpConfig,
    )

    login = AutoLogin.username_password(USERNAME, PASSWORD)
    client = IggyClient(TcpConfig(server_address=address, auto_login=login, nodelay=True))
    await client.connect()
    payload = bytes(OFFICIAL.payload_bytes)
    began = time.monotonic()
    for _ in range(OFFICIAL.requests):
        messages = [SendMessage(payload) for _ in range(OFFICIAL.messages)]
        await client.send_messages(STREAM, "official", 0, messages)
    sent = time.monotonic()
    for number in range(OFFICIAL.requests):
        polled = await client.poll_messages(
            STREAM,
            "official",
            consumer=Consumer.Single(1),
            polling_strategy=PollingStrategy.Offset(number * OFFICIAL.messages),
            count=OFFICIAL.messages,
            auto_commit=False,
            partition_id=0,
        )
        if len(polled) != OFFICIAL.messages:
            raise RuntimeError(f"poll {number} brought {len(polled)} messages")
    return sent - began, time.monotonic() - sent
