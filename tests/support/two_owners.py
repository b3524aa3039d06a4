"""A topic whose archive is taken over while its own broker goes on copying, unaware of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from archived_rows import rows_of
from archived_topic import MemoryStore
from cold_topic import ColdTopic
from iggy_broker.archive.fences import read_fences
from iggy_broker.archive.owner import claim
from iggy_broker.restore.command import Wishes, restore
from iggy_broker.restore.survey import read_metadata
from simulated_disk import SimulatedDisk


class SharedStore(MemoryStore):
    """Does something once, in another thread, before the step number `meanwhile_at`."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile_at = -1
        self.meanwhile: Callable[[], None] = lambda: None

    def _step(self) -> None:
        if self.steps == self.meanwhile_at:
            self.meanwhile_at = -1
            with ThreadPoolExecutor(1) as thread:  # this one has a loop
                thread.submit(self.meanwhile).result()
        super()._step()


class OwnedTopic(ColdTopic):
    """With the archive in a store that others may have as well."""

    def __init__(self, store: SharedStore, name: str) -> None:
        self.name = name
        super().__init__()
        self.shared = self.store = store

    def payload(self, offset: int) -> bytes:
        return f"{self.name}: ".encode() + super().payload(offset)

    def start_on(self, disk: SimulatedDisk) -> None:
        """As after a start of its broker."""
        self._begin(disk)
        claim(self.store, disk, "/data", now_us=self.clock.now_us())

    def copy(self) -> None:
        """All, with what is stored beside messages."""
        self.sync()
        self.archive()
        asyncio.run(self.archiver.state_pass())


def first_owner() -> OwnedTopic:
    """Its archive is in a new store."""
    topic = OwnedTopic(SharedStore(), "first")
    topic.start_on(topic.disk)
    return topic


def restored(
    former: OwnedTopic, name: str, folder: Path, *, is_full: bool, take_over: bool = True
) -> OwnedTopic:
    """The next owner, when its broker has started; `folder` is for its making."""
    folder.mkdir()
    wishes = Wishes("the store", is_ours=True, is_full=is_full, take_over=take_over)
    assert restore(str(folder), former.shared, wishes, clock=former.clock) is not None
    topic = OwnedTopic(former.shared, name)
    topic.clock.time_us = former.clock.time_us
    state = read_metadata(topic.store, read_fences(topic.store))
    assert state is not None
    topic.state = state
    disk = SimulatedDisk(0)
    disk.make_folders("/data")
    for path in sorted(folder.rglob("*")):
        name_there = f"/data/{path.relative_to(folder)}"
        if path.is_dir():
            disk.make_folders(name_there)
        else:
            disk.write_file(name_there, path.read_bytes(), sync=True)
    topic.start_on(disk)
    topic.sent = former.sent[: topic.partition().next_offset]
    return topic


def spark_reads(store: MemoryStore, folder: Path) -> list[tuple[int, bytes]]:
    """Offsets and payloads that the tasks of a batch read, without a broker; `folder`: for it."""
    for key, data in store.objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    given = {"stream": "s", "topic": "t", "archivePath": str(folder), "archiveMode": "only"}
    return [(offset, payload) for _, offset, payload in rows_of(given)]
