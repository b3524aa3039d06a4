"""How fast a consumer reads what only an archive has, against the same messages on the disk.

    python bench/cold_read.py [MEGABYTES] [ROUNDS]

For an archive in a folder, and for one in a real object store (SeaweedFS) on the same machine: one
broker, one shard, two topics of so many MB (default 512) in messages of 1,000 B. All of the one is
on the disk, the other is in the archive but for its last segment. One consumer reads both from the
start up to where the log begins, in turns (default 5 rounds), 1,000 messages a poll, then 8,000; at
last the official client does so, 1,000 a poll. Blocks that are kept in memory are of no use to it:
the topic is larger than they may be. Messages are random bytes: a store that compresses has nothing
to do with them.

Then the first polls of partitions that nobody has read yet, from offset 0 of the archive and from
where the log begins, in turns: median and 99th of 100 of each. And four readers at once, one for
each partition of a third topic, with 1,000 messages a poll. At last the bucket is as if it were far
away: a proxy keeps each request for 20 ms.

Beside the speeds of one, in the same turns, the ceiling: what the store alone gives of the same
objects to a bare reader that throws the bytes away. Of a folder by `preadv` into one piece of
memory, of a bucket by ranges over plain sockets, as many and as long as the broker's, by signed
addresses.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlsplit

from apache_iggy import Consumer, IggyClient
from apache_iggy import PollingStrategy as OfficialStrategy

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support")]

from iggy_bench.far_store import far_store  # noqa: E402
from iggy_bench.processes import PASSWORD, USERNAME, Server, start_broker  # noqa: E402
from iggy_broker.archive.blocks import READ_BYTES  # noqa: E402
from iggy_broker.archive.fetching import READS_AT_ONCE  # noqa: E402
from iggy_broker.archive.library import TOGETHER  # noqa: E402
from iggy_client.client import Client  # noqa: E402
from iggy_wire.batch import Message  # noqa: E402
from iggy_wire.primitives import Partitioning, PollingStrategy  # noqa: E402
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store  # noqa: E402

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
COLD: Final = "streams/0/topics/1/partitions/0"
"""The second topic, in a data directory and in an archive."""
STRETCH_BYTES: Final = READ_BYTES * TOGETHER
CONNECTIONS: Final = READS_AT_ONCE - 1
BUCKET_PREFIX: Final = "cold"
READERS: Final = 4
PLACES: Final = 100
PLACE_SEGMENT_BYTES: Final = 4 << 20
PLACE_BATCHES: Final = 6
"""A segment, and the beginning of another one."""
FAR_S: Final = 0.020

Bare = Callable[[], float]
"""Reads all archived objects of the second topic without a broker: MB/s."""


def fill(client: Client, topic: str, batches: int, *, partitions: int = 1, **options: int) -> None:
    """A topic with so many batches in each partition."""
    client.create_topic("s", topic, partitions, {"segment_size": SEGMENT_BYTES, **options})
    batch = [Message(os.urandom(MESSAGE_BYTES)) for _ in range(BATCH)]  # not to be compressed
    for number in range(batches * partitions):
        client.send("s", topic, Partitioning.partition(number % partitions), batch)


def fill_all(client: Client, folder: Path, batches: int) -> Logs:
    """All topics, and where their logs begin when the archive has the rest."""
    client.create_stream("s")
    fill(client, "local", batches)
    fill(client, "cold", batches, max_topic_size=SEGMENT_BYTES)
    small = {"segment_size": SEGMENT_BYTES // READERS, "max_topic_size": SEGMENT_BYTES // READERS}
    fill(client, "four", batches // READERS, partitions=READERS, **small)
    small = {"segment_size": PLACE_SEGMENT_BYTES, "max_topic_size": PLACE_SEGMENT_BYTES}
    fill(client, "fresh", PLACE_BATCHES, partitions=PLACES, **small)
    topics = folder / "data" / "streams" / "0" / "topics"
    found = [
        [wait_until_gone(topics / str(topic) / "partitions" / str(one)) for one in range(count)]
        for topic, count in ((1, 1), (2, READERS), (3, PLACES))
    ]
    return Logs(found[0][0], found[1], found[2])


def wait_until_gone(folder: Path) -> int:
    """Until one segment is left on the disk: the offset where it begins."""
    until = time.monotonic() + GONE_S_MAX
    while len(list(folder.glob("*.log"))) > 1:
        if time.monotonic() > until:
            raise RuntimeError(f"{folder}: the segments are not removed")
        time.sleep(0.5)
    return min(int(path.stem) for path in folder.glob("*.log"))


@dataclass(frozen=True, slots=True)
class Logs:
    """The first offset on the disk, of the topics that an archive has most of, by partition."""

    cold: int
    four: list[int]
    fresh: list[int]


@dataclass(frozen=True, slots=True)
class Read:
    """One topic from its start to where the log of the second one begins."""

    mb_s: float
    cpu_s_gb: float
    """Of the broker."""


def read(client: Client, server: Server, topic: str, *, messages: int, count: int) -> Read:
    """Read all."""
    cpu_s, began, offset = server.cpu_s(), time.perf_counter(), 0
    while offset < messages:
        wanted = min(count, messages - offset)
        polled = client.poll("s", topic, 0, strategy=PollingStrategy.offset(offset), count=wanted)
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
                count=min(count, messages - offset),
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


def read_four(server: Server, ends: Sequence[int]) -> float:
    """One reader for each partition, with a connection of its own: MB/s of all together."""

    def run(partition: int) -> None:
        offset = 0
        with Client.connect(server.address, USERNAME, PASSWORD, reuse_memory=True) as client:
            while offset < ends[partition]:
                count = min(COUNTS[0], ends[partition] - offset)
                at = PollingStrategy.offset(offset)
                offset += client.poll("s", "four", partition, strategy=at, count=count).count

    began = time.perf_counter()
    with ThreadPoolExecutor(READERS) as threads:
        list(threads.map(run, range(len(ends))))
    return sum(ends) * MESSAGE_BYTES / (time.perf_counter() - began) / 1e6


def tell_first_polls(name: str, client: Client, logs: Sequence[int]) -> None:
    """Of partitions that nobody has read since the broker started: milliseconds."""
    cold, local = [], []
    for partition, begin in enumerate(logs):
        for offset, took_ms in ((0, cold), (begin, local)):
            began = time.perf_counter()
            at = PollingStrategy.offset(offset)
            polled = client.poll("s", "fresh", partition, strategy=at, count=COUNTS[0])
            took_ms.append((time.perf_counter() - began) * 1e3)
            assert polled.count, f"nothing at offset {offset} of partition {partition}"
    print(
        f"{name:<10} first polls: archive median {median(cold):.1f} ms, 99th {last(cold):.1f} ms; "
        f"disk median {median(local):.1f} ms, 99th {last(local):.1f} ms",
        flush=True,
    )


def last(values: Sequence[float]) -> float:
    """The 99th percentile."""
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def tell_readers(name: str, server: Server, logs: Logs, rounds: int) -> None:
    """Of four at once."""
    found = [read_four(server, logs.four) for _ in range(rounds + 1)][1:]
    print(f"{name:<10} {READERS} readers at once: {median(found):.0f} MB/s together", flush=True)


def tell_far(name: str, server: Server, logs: Logs, rounds: int) -> None:
    """Of a store that is far away: one reader, four, and first polls."""
    with Client.connect(server.address, USERNAME, PASSWORD, reuse_memory=True) as client:
        for count in COUNTS:
            turn = partial(read, client, server, "cold", messages=logs.cold, count=count)
            found = [turn() for _ in range(rounds + 1)][1:]
            speed = f"{median(one.mb_s for one in found):.0f} MB/s"
            cpu = f"CPU {median(one.cpu_s_gb for one in found):.2f} s/GB"
            print(f"{name:<10} {count:>5} messages a poll: archive {speed}; {cpu}", flush=True)
        tell_readers(name, server, logs, rounds)
        tell_first_polls(name, client, logs.fresh)  # not beside what a broker does when it starts


def bare_folder(archive: Path) -> float:
    """See `Bare`."""
    memory = memoryview(bytearray(STRETCH_BYTES))
    began, size_bytes = time.perf_counter(), 0
    for path in sorted((archive / COLD).glob("*.log")):
        with path.open("rb") as file:
            while got := os.preadv(file.fileno(), [memory], file.tell()):
                file.seek(got, os.SEEK_CUR)
                size_bytes += got
    return size_bytes / (time.perf_counter() - began) / 1e6


def bare_bucket(store: ObjectStore) -> float:
    """See `Bare`."""
    client, bucket = store.client(), store.common_bucket
    listed = client.list_objects_v2(Bucket=bucket, Prefix=f"{BUCKET_PREFIX}/{COLD}/")["Contents"]
    logs = {one["Key"]: one["Size"] for one in listed if one["Key"].endswith(".log")}
    ranges = []
    for key, size_bytes in logs.items():
        where = {"Bucket": bucket, "Key": key}
        address = urlsplit(client.generate_presigned_url("get_object", Params=where))
        for start in range(0, size_bytes, STRETCH_BYTES):
            stop = min(start + STRETCH_BYTES, size_bytes)
            ranges.append((f"{address.path}?{address.query}", start, stop))
    total_bytes: int = sum(logs.values())
    began = time.perf_counter()
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        parts = [ranges[number::CONNECTIONS] for number in range(CONNECTIONS)]
        list(threads.map(partial(take_ranges, store), parts))
    return total_bytes / (time.perf_counter() - began) / 1e6


def take_ranges(store: ObjectStore, ranges: Sequence[tuple[str, int, int]]) -> None:
    """Over one connection, one after another."""
    memory = memoryview(bytearray(STRETCH_BYTES))
    with socket.create_connection((store.host, store.port)) as connection:
        for target, start, stop in ranges:
            wanted = f"Range: bytes={start}-{stop - 1}"
            host = f"Host: {store.host}:{store.port}"
            connection.sendall(f"GET {target} HTTP/1.1\r\n{host}\r\n{wanted}\r\n\r\n".encode())
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            assert b" 206 " in head[:16], head
            left = stop - start - len(head.partition(b"\r\n\r\n")[2])
            while left:
                left -= connection.recv_into(memory[:left], 0, socket.MSG_WAITALL)


def compare(
    name: str, server: Server, folder: Path, bare: Bare, *, megabytes: int, rounds: int
) -> Logs:
    """Print one line for each size of polls, and those of first polls and of four readers."""
    batches = megabytes * 1_000_000 // (BATCH * MESSAGE_BYTES)
    with Client.connect(server.address, USERNAME, PASSWORD, reuse_memory=True) as client:
        logs = fill_all(client, folder, batches)
        archived = logs.cold
        tell_first_polls(name, client, logs.fresh)
        for count in COUNTS:
            turn = partial(read, client, server, messages=archived, count=count)
            tell(f"{name:<10} {count:>5} messages a poll", turn, bare, rounds)
        turn = partial(read_official, server, messages=archived, count=COUNTS[0])
        tell(f"{name:<10} {COUNTS[0]:>5} by the official client", turn, bare, rounds)
    tell_readers(name, server, logs, rounds)
    return logs


def tell(what: str, turn: Callable[[str], Read], bare: Bare, rounds: int) -> None:
    """Read both topics and the bare objects in turns, and print medians."""
    found = [(turn("cold"), turn("local"), bare()) for _ in range(rounds + 1)]
    del found[0]  # the first round warms up
    cold = median(one.mb_s for one, _, _ in found)
    local = median(one.mb_s for _, one, _ in found)
    cpu = median(one.cpu_s_gb for one, _, _ in found), median(one.cpu_s_gb for _, one, _ in found)
    ratio = median(one.mb_s / other.mb_s for one, other, _ in found)
    print(
        f"{what}: archive {cold:.0f} MB/s, disk {local:.0f} MB/s, ratio {ratio:.2f}; "
        f"the store alone {median(one for _, _, one in found):.0f} MB/s, "
        f"ratio {median(one.mb_s / other for one, _, other in found):.2f}; "
        f"CPU {cpu[0]:.2f} and {cpu[1]:.2f} s/GB",
        flush=True,
    )


def main(megabytes: int = 512, rounds: int = 5) -> None:
    """Both kinds of archives, and the second one far away."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        archive = {f"{NAME}DISK_PATH": str(root / "archive")}
        with start_broker(root / "folder", shards=1, settings=SETTINGS | archive) as server:
            bare = partial(bare_folder, root / "archive")
            compare("folder", server, root / "folder", bare, megabytes=megabytes, rounds=rounds)
        store = stack.enter_context(running_object_store(root / "store"))
        archive = {
            f"{NAME}KIND": "s3",
            f"{NAME}S3_BUCKET": store.common_bucket,
            f"{NAME}S3_KEY_PREFIX": BUCKET_PREFIX,
            f"{NAME}S3_ENDPOINT": store.endpoint,
            f"{NAME}S3_ACCESS_KEY_ID": ACCESS_KEY,
            f"{NAME}S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        with start_broker(root / "bucket", shards=1, settings=SETTINGS | archive) as server:
            bare = partial(bare_bucket, store)
            logs = compare(
                "bucket", server, root / "bucket", bare, megabytes=megabytes, rounds=rounds
            )
        address = stack.enter_context(far_store(store.host, store.port, delay_s=FAR_S))
        archive[f"{NAME}S3_ENDPOINT"] = f"http://{address}"
        with start_broker(root / "bucket", shards=1, settings=SETTINGS | archive) as server:
            tell_far("far bucket", server, logs, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
