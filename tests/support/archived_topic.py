"""One topic with a cleaner and an archiver, on a simulated disk and a store in memory.

Both can end at any step: a crash of the broker is an exception that nobody handles, and `restart`
goes on with what disk and store have then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from cleaned_topic import CleanedTopic
from iggy_broker.archive.archiver import Archiver
from iggy_broker.archive.store import (
    ArchiveError,
    ArchiveStore,
    ReadAt,
    Stored,
    digest,
    put_into,
)
from iggy_broker.cleaner import Cleaner
from iggy_broker.metadata.options import node_settings
from iggy_broker.metrics import Counters
from iggy_broker.partition_host import OwnedPartitions
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.gate import Gate
from iggy_broker.storage.index_cache import IndexCache
from iggy_broker.storage.older import Older
from iggy_broker.storage.partition_table import PartitionTable
from iggy_broker.storage.sparse_index import INDEX_EVERY_BYTES
from iggy_wire import archive, kernel
from iggy_wire.archive import Manifest
from iggy_wire.batch import Message, build
from simulated_disk import Crashed, SimulatedDisk

T = TypeVar("T")
BLOCK = 1 << 20
ON = {"IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED": "true"}
CONTINUOUS = {**ON, "IGGY_DATA_MAINTENANCE_ARCHIVER_CONTINUOUS": "true"}


class MemoryStore:
    """Objects in memory, whole or not at all. `crash_at` is the step that does not happen."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.steps = 0
        self.crash_at: int | None = None
        self.is_down = False
        self.flips = ""
        """Objects whose keys end so are given back with a wrong byte."""
        self.stored_bytes = 0
        self.before_put: Callable[[str], None] = lambda key: None

    def _step(self) -> None:
        if self.crash_at is not None and self.steps >= self.crash_at:
            raise Crashed
        self.steps += 1
        if self.is_down:
            raise ArchiveError("the archive is away")

    def check(self) -> None:
        self._step()

    def put(self, key: str, read: ReadAt, size_bytes: int) -> None:
        self._step()
        self.before_put(key)
        data = b"".join(
            read(min(1 << 20, size_bytes - at), at) for at in range(0, size_bytes, 1 << 20)
        )
        assert data, f"{key}: an empty object"
        assert len(data) == size_bytes
        assert archive.parse_key(key) is not None or archive.is_state(key), key
        self.objects[key] = data
        self.stored_bytes += len(data)

    def read(self, key: str, size_bytes: int, position: int) -> bytes:
        self._step()
        if key not in self.objects:
            raise FileNotFoundError(key)
        data = self.objects[key][position : position + size_bytes]
        if self.flips and key.endswith(self.flips):
            return bytes([data[0] ^ 1]) + data[1:]
        return data

    def read_into(self, key: str, memory: Sequence[memoryview], position: int) -> int:
        return put_into(memory, self.read(key, sum(map(len, memory)), position))

    def size(self, key: str) -> int | None:
        self._step()
        return len(self.objects[key]) if key in self.objects else None

    def folders(self, prefix: str) -> Iterator[str]:
        self._step()
        found = {key[len(prefix) :] for key in self.objects if key.startswith(prefix)}
        yield from sorted({name.partition("/")[0] for name in found if "/" in name})

    def entries(self, prefix: str, *, after: str = "") -> Iterator[Stored]:
        self._step()
        for key in sorted(self.objects):
            if key.startswith(prefix) and key > after:
                yield Stored(key, len(self.objects[key]))

    def delete(self, key: str) -> None:
        self._step()
        self.objects.pop(key, None)


class HereLane:
    """Does the work at once."""

    def __init__(self, store: ArchiveStore, disk: Disk) -> None:
        self._store, self._disk = store, disk

    async def run(self, work: Callable[[ArchiveStore, Disk], T]) -> T:
        return work(self._store, self._disk)

    def close(self) -> None:
        pass


class ArchivedTopic(CleanedTopic):
    """As a `CleanedTopic` of one shard."""

    def __init__(self, *, settings: dict[str, str] | None = None, **options: int) -> None:
        super().__init__(settings={**ON, **(settings or {})}, **options)
        self.store = MemoryStore()
        self._begin(self.disk)

    @property
    def disk(self) -> SimulatedDisk:
        assert isinstance(self.parts.disk, SimulatedDisk)
        return self.parts.disk

    def restart(self, *, power_cut: bool = False) -> None:
        """As after a crash."""
        self.store.crash_at = None
        self._begin(self.disk.crash(power_cut=power_cut))

    def _begin(self, disk: SimulatedDisk) -> None:
        settings = self.config.data_maintenance.archiver
        self.parts = replace(
            self.parts,
            disk=disk,
            table=PartitionTable(self.parts.table.slots_count),
            gate=Gate(is_shut=settings.archive_expired),
            indexes=IndexCache(),
            older=self.older(disk),
        )
        node = node_settings(self.config)
        host = OwnedPartitions("/data", shard_id=0, shards_count=1, node=node, parts=self.parts)
        asyncio.run(host.open_all(self.state))
        self.host = host
        self.hosts = [host]
        self.counters_of = Counters(self.counters, 0)
        lane = HereLane(self.store, disk)
        self.archiver = Archiver(
            self.config,
            state=lambda: self.state,
            partitions=host.open,
            parts=self.parts,
            lanes=(lane, [lane]),
            counters=self.counters_of,
        )
        self.cleaners = [
            Cleaner(
                self.config,
                state=lambda: self.state,
                partitions=host.open,
                parts=self.parts,
                counters=self.counters_of,
            )
        ]

    def older(self, disk: SimulatedDisk) -> Older | None:
        """Who has what the logs have no more."""
        return None

    def send(self, size_bytes: int, number: int = 0) -> None:
        """One message."""
        batch = build([Message(bytes(size_bytes))], origin_timestamp_us=1)
        self.partition(number).append(memoryview(batch))

    def sync(self) -> None:
        """All is on the disk."""
        for partition in self.host.open.values():
            partition.sync_now()

    def archive(self, *, again: bool = True) -> None:
        """Passes of both lanes, until nothing is left to do."""

        async def passes() -> None:
            if self.config.data_maintenance.archiver.continuous:
                await self.archiver.tails_pass()
            while await self.archiver.sealed_pass() and again:
                pass

        asyncio.run(passes())

    def manifests(self) -> list[Manifest]:
        """Those in the archive, by name."""
        keys = sorted(filter(is_manifest, self.store.objects))
        return [Manifest.decode(self.store.objects[key], key) for key in keys]

    def kinds(self) -> list[str]:
        """Endings of the objects of segments, by name."""
        keys = sorted(key for key in self.store.objects if not archive.is_state(key))
        return [key.rpartition(".")[2] for key in keys]

    def whole(self) -> list[tuple[int, int]]:
        """First and next offset of what each manifest names, of which all is there and right."""
        found = []
        for key in sorted(self.store.objects):
            if is_manifest(key):
                manifest = Manifest.decode(self.store.objects[key], key)
                check_copy(self.store.objects, key, manifest)
                found.append((manifest.first_offset, manifest.next_offset))
        return found


def is_manifest(key: str) -> bool:
    """Whether an object says what a segment holds."""
    named = archive.parse_key(key)
    return named is not None and named.kind == "json"


def check_copy(objects: dict[str, bytes], key: str, manifest: Manifest) -> None:
    """A copy is what its manifest says: the batches of these offsets, and their index."""
    check_log(objects, key, manifest)
    assert has_index(objects, key, manifest)


def has_index(objects: dict[str, bytes], key: str, manifest: Manifest) -> bool:
    """Whether the index is there that the manifest names, or none if it names none."""
    index = objects.get(f"{key.removesuffix('.json')}.index", b"") if manifest.sealed else b""
    found = digest(lambda size, at: index[at : at + size], len(index)) if index else "0" * 16
    return (len(index), found) == (manifest.index_bytes, manifest.index_xxh3)


def check_log(objects: dict[str, bytes], key: str, manifest: Manifest) -> None:
    """The batches of these offsets are there."""
    start = key.removesuffix(".json")
    if manifest.sealed:
        log = objects[f"{start}.log"]
    else:
        log = b"".join(
            objects[f"{start}.{piece.position:020d}.part"][: piece.size_bytes]
            for piece in manifest.pieces
        )
    assert len(log) == manifest.size_bytes
    assert digest(lambda size, at: log[at : at + size], len(log)) == manifest.xxh3
    found = kernel.scan(log, manifest.first_offset, frames=True, index_bytes=INDEX_EVERY_BYTES)
    assert (found.end, found.next_offset) == (len(log), manifest.next_offset)
