"""The archive of a simulated broker: objects in memory, and a store that fails by the seed.

What a store promises is kept: an object is there whole or not at all, and a replaced one is the old
or the new one. Faults: requests that fail before or after they were carried out, new objects of
segments that are stored with a wrong byte or without their end, wrong bytes and too few of them on
the way back, a store that is away for a while, or slow.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from iggy_broker.archive.store import ArchiveError, ArchiveStore, ReadAt, Stored, put_into
from iggy_broker.storage.disk import Disk
from simulated_disk import Crashed
from simulation.disk import FaultyDisk
from simulation.loop import Schedule, SimulatedLoop
from simulation.network import hash_of
from simulation.stepped import EndedError, Stepped

QUICK_S = (0.2e-3, 2e-3)  # before and after a request
SLOW_S = (0.02, 0.2)
TROUBLE_S = (0.02, 0.6)  # how long it is away or slow
TROUBLE = 0.01  # how likely one of the two begins with a request
FAILED, LOST, DAMAGED, MISREAD = 0.015, 0.015, 0.015, 0.01  # how likely each is of a request


class SimulatedArchive:
    """What the world has, whatever becomes of brokers."""

    def __init__(self, schedule: Schedule, seed: int, count: Callable[[str], None]) -> None:
        self.schedule = schedule
        self.chance = random.Random(f"archive-store-{seed}")
        self.objects: dict[str, bytes] = {}
        self.calm = False  # the store works
        self.on_changed: Callable[[str], None] = lambda key: None
        self._count = count
        self._away_until_s = self._slow_until_s = 0.0

    def duration_s(self) -> float:
        """Of half a request."""
        slow = not self.calm and self.schedule.now_s < self._slow_until_s
        return self.chance.uniform(*(SLOW_S if slow else QUICK_S))

    def happens(self, fault: str, likely: float) -> bool:
        """Whether this goes wrong now."""
        if self.calm or self.chance.random() >= likely:
            return False
        self._count(f"archive: {fault}")
        self.schedule.note("archive", fault)
        return True

    def begin(self) -> None:
        """A request comes. ArchiveError: it is not served."""
        now_s = self.schedule.now_s
        if self.happens("away", TROUBLE):
            self._away_until_s = now_s + self.chance.uniform(*TROUBLE_S)
        if self.happens("slow", TROUBLE):
            self._slow_until_s = now_s + self.chance.uniform(*TROUBLE_S)
        if not self.calm and now_s < self._away_until_s:
            raise ArchiveError("the archive is away")
        if self.happens("request failed", FAILED):
            raise ArchiveError("the archive does not want to")

    def change(self, key: str, data: bytes | None) -> None:
        """Store an object, or remove it (None)."""
        self.schedule.note("archive", key, "-" if data is None else (len(data), hash_of(data)))
        if data is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = data
        self.on_changed(key)

    def damaged(self, data: bytes) -> bytes:
        """As a store gives it that lies: with a wrong byte, or without its end."""
        at = self.chance.randrange(len(data))
        if self.chance.random() < 0.5:
            return data[:at]
        return data[:at] + bytes([data[at] ^ 1 << self.chance.randrange(8)]) + data[at + 1 :]


class ArchiveConnection:
    """An `ArchiveStore` for one piece of work, which pauses before and after each request."""

    def __init__(self, archive: SimulatedArchive, disk: FaultyDisk, pause: Callable[[], None]):
        self._archive, self._disk, self._pause = archive, disk, pause

    def check(self) -> None:
        self._begin()
        self._end()

    def put(self, key: str, read: ReadAt, size_bytes: int) -> None:
        self._begin()
        half = size_bytes // 2
        data = read(half, 0) if half else b""
        self._pause()
        data += read(size_bytes - half, half)
        if len(data) != size_bytes:
            raise EOFError(f"{len(data)} of {size_bytes} bytes are there")
        assert data, f"{key}: an empty object"
        archive = self._archive
        # Of a damaged manifest, metadata or owner a restore wants that people look at it.
        may_lie = key not in archive.objects and key.endswith((".log", ".index", ".part"))
        if may_lie and archive.happens("damaged object", DAMAGED):
            data = archive.damaged(data)
        archive.change(key, data)
        self._end()

    def read(self, key: str, size_bytes: int, position: int) -> bytes:
        self._begin()
        archive = self._archive
        if key not in archive.objects:
            raise FileNotFoundError(key)
        data = archive.objects[key][position : position + size_bytes]
        if data and archive.happens("misread", MISREAD):
            data = archive.damaged(data)
        self._end()
        return data

    def read_into(self, key: str, memory: Sequence[memoryview], position: int) -> int:
        return put_into(memory, self.read(key, sum(map(len, memory)), position))

    def size(self, key: str) -> int | None:
        self._begin()
        data = self._archive.objects.get(key)
        self._end()
        return None if data is None else len(data)

    def entries(self, prefix: str, *, after: str = "") -> Iterator[Stored]:
        self._begin()
        objects = self._archive.objects
        keys = [key for key in sorted(objects) if key.startswith(prefix) and key > after]
        found = [Stored(key, len(objects[key])) for key in keys]
        self._end()
        yield from found

    def folders(self, prefix: str) -> Iterator[str]:
        self._begin()
        names = [key[len(prefix) :] for key in self._archive.objects if key.startswith(prefix)]
        found = sorted({name.partition("/")[0] for name in names if "/" in name})
        self._end()
        yield from found

    def delete(self, key: str) -> None:
        self._begin()
        if key in self._archive.objects:
            self._archive.change(key, None)
        self._end()

    def _begin(self) -> None:
        self._pause()
        self._disk.step()  # a machine may stop here, too
        self._archive.begin()

    def _end(self) -> None:
        self._pause()
        if self._archive.happens("answer lost", LOST):
            raise ArchiveError("the archive did it, and did not say so")


class SimulatedLane:
    """As `archive.lanes.ThreadLane`: one piece of work after the other, while the loop goes on."""

    def __init__(self, archive: SimulatedArchive, disk: FaultyDisk, loop: SimulatedLoop) -> None:
        self._archive, self._disk, self._loop = archive, disk, loop
        self._waiting: deque[tuple[Callable[[ArchiveStore, Disk], Any], Any]] = deque()
        self._now: Stepped | None = None
        loop.on_kill.append(self._end)

    async def run(self, work: Callable[[ArchiveStore, Disk], Any]) -> Any:
        future = self._loop.create_future()
        self._waiting.append((work, future))
        if self._now is None:
            self._begin()
        return await future

    def close(self) -> None:
        self._waiting.clear()

    def _begin(self) -> None:
        if not self._waiting:
            self._now = None
            return
        work, future = self._waiting.popleft()
        store = ArchiveConnection(self._archive, self._disk, lambda: stepped.pause())
        stepped = self._now = Stepped(lambda: work(store, self._disk))
        self._later(stepped, future)

    def _later(self, stepped: Stepped, future: Any) -> None:
        self._loop.call_later(self._archive.duration_s(), self._step, stepped, future)

    def _step(self, stepped: Stepped, future: Any) -> None:
        if not stepped.go_on():
            self._later(stepped, future)
            return
        error = stepped.error
        if isinstance(error, Crashed | EndedError):
            return  # nobody is there any more who could be told
        if not future.cancelled():
            if error is None:
                future.set_result(stepped.result)
            else:
                future.set_exception(error)
        self._begin()

    def _end(self) -> None:
        self._waiting.clear()
        if self._now is not None:
            self._now.end()
