"""How fast a consumer reads what only an archive has, against the same messages on the disk.

    python bench/cold_read.py [MEGABYTES] [ROUNDS]

For an archive in a folder, and for one in a real object store (SeaweedFS) on the same machine: one
broker, one shard, two topics of so many MB (default 512) in messages of 1,000 B. All of the one is
on the disk, the other is in the archive but for its last segment. One consumer reads both from the
start, in turns (default 5 rounds), 1,000 messages a poll, then 8,000; at last the official client
does so, 1,000 a poll. Blocks that are kept in memory are of no use to it: the topic is larger than
they may be.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from apache_iggy import Consumer, IggyClient
from apache_iggy import PollingStrategy as OfficialStrategy

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support")]

from iggy_bench.processes import PASSWORD, USERNAME, Server, start_broker  # noqa: E402
from iggy_client.client import Client  # noqa: E402
from iggy_wire.batch import Message  # noqa: E402
from iggy_wire.primitives import Partitioning, PollingStrategy  # noqa: E402
from object_store import ACCESS_KEY, SECRET_KEY, running_object_store  # noqa: E402

NAME: Final = "IGGY_DATA_MAINTENANCE_ARCHIVER_"
SETTINGS: Final = {
    f"{NAME}ENABLED": "true",
    f"{NAME}CONTINUOUS": "true",
    f"{NAME}INTERVAL": "1 s",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "1 s",
}
SEGMENT_BYTES: Final = 64 << 20
MESSAGE_BYTES: Final = 1000
BATCH: Final = 1000
COUNTS: Final = (1000, 8000)
GONE_S_MAX: Final = 600.0


def fill(client: Client, topic: str, batches: int, **options: int) -> None:
    """A topic with so many batches."""
    client.create_topic("s", topic, 1, {"segment_size": SEGMENT_BYTES, **options})
    batch = [Message(bytes(MESSAGE_BYTES))] * BATCH
    for _ in range(batches):
        client.send("s", topic, Partitioning.partition(0), batch)


def wait_until_gone(folder: Path) -> None:
    """Until one segment is left on the disk."""
    until = time.monotonic() + GONE_S_MAX
    while len(list(folder.glob("*.log"))) > 1:
        if time.monotonic() > until:
            raise RuntimeError(f"{folder}: the segments are not removed")
        time.sleep(0.5)


@dataclass(frozen=True, slots=True)
class Read:
    """One topic from its start to its end."""

    mb_s: float
    cpu_s_gb: float
    """Of the broker."""


def read(client: Client, server: Server, topic: str, *, messages: int, count: int) -> Read:
    """Read all."""
    cpu_s, began, offset = server.cpu_s(), time.perf_counter(), 0
    while offset < messages:
        polled = client.poll("s", topic, 0, strategy=PollingStrategy.offset(offset), count=count)
        assert polled.count, f"nothing at offset {offset}"
        offset += polled.count
    assert offset == messages
    size_bytes = messages * MESSAGE_BYTES
    took_s = time.perf_counter() - began
    return Read(size_bytes / took_s / 1e6, (server.cpu_s() - cpu_s) / size_bytes * 1e9)


def read_official(server: Server, topic: str, *, messages: int, count: int) -> Read:
    """The same by the official client."""

    async def run() -> float:
        client = IggyClient(server.address)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        began, offset = time.perf_counter(), 0
        while offset < messages:
            polled = await client.poll_messages(
                "s",
                topic,
                consumer=Consumer.Single("reader"),
                polling_strategy=OfficialStrategy.Offset(offset),
                count=count,
                auto_commit=False,
                partition_id=0,
            )
            assert polled[0].offset() == offset
            offset += len(polled)
        return time.perf_counter() - began

    cpu_s = server.cpu_s()
    took_s = asyncio.run(run())
    size_bytes = messages * MESSAGE_BYTES
    return Read(size_bytes / took_s / 1e6, (server.cpu_s() - cpu_s) / size_bytes * 1e9)


def compare(name: str, server: Server, folder: Path, megabytes: int, rounds: int) -> None:
    """Print one line for each size of polls."""
    batches = megabytes * 1_000_000 // (BATCH * MESSAGE_BYTES)
    with Client.connect(server.address, USERNAME, PASSWORD, reuse_memory=True) as client:
        client.create_stream("s")
        fill(client, "local", batches)
        fill(client, "cold", batches, max_topic_size=SEGMENT_BYTES)
        wait_until_gone(folder / "data/streams/0/topics/1/partitions/0")
        for count in COUNTS:
            turn = partial(read, client, server, messages=batches * BATCH, count=count)
            tell(f"{name:<8} {count:>5} messages a poll", turn, rounds)
        turn = partial(read_official, server, messages=batches * BATCH, count=COUNTS[0])
        tell(f"{name:<8} {COUNTS[0]:>5} by the official client", turn, rounds)


def tell(what: str, turn: Callable[[str], Read], rounds: int) -> None:
    """Read both topics in turns, and print medians."""
    pairs = []
    for number in range(rounds + 1):
        pair = [turn(topic) for topic in ("cold", "local")]
        if number:  # the first round warms up
            pairs.append(pair)
    cold, local = (median(pair[side].mb_s for pair in pairs) for side in (0, 1))
    cpu = [median(pair[side].cpu_s_gb for pair in pairs) for side in (0, 1)]
    ratio = median(pair[0].mb_s / pair[1].mb_s for pair in pairs)
    print(
        f"{what}: archive {cold:.0f} MB/s, disk {local:.0f} MB/s, ratio {ratio:.2f}; "
        f"CPU {cpu[0]:.2f} and {cpu[1]:.2f} s/GB",
        flush=True,
    )


def main(megabytes: int = 512, rounds: int = 5) -> None:
    """Both kinds of archives."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        archive = {f"{NAME}DISK_PATH": str(root / "archive")}
        with start_broker(root / "folder", shards=1, settings=SETTINGS | archive) as server:
            compare("folder", server, root / "folder", megabytes, rounds)
        store = stack.enter_context(running_object_store(root / "store"))
        archive = {
            f"{NAME}KIND": "s3",
            f"{NAME}S3_BUCKET": store.common_bucket,
            f"{NAME}S3_KEY_PREFIX": "cold",
            f"{NAME}S3_ENDPOINT": store.endpoint,
            f"{NAME}S3_ACCESS_KEY_ID": ACCESS_KEY,
            f"{NAME}S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        with start_broker(root / "bucket", shards=1, settings=SETTINGS | archive) as server:
            compare("bucket", server, root / "bucket", megabytes, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
