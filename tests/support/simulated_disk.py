"""A disk in memory that crashes: it keeps what was synced and a seeded part of the rest.

Faults: power cut (lost and torn writes, later sectors without earlier ones, lost folder entries),
killed process (page cache stays), no space, failed sync (the pages are dropped for good), crash at
the nth operation. Same seed, same outcome.

Model. A write that lies within one 512-byte sector lands whole or not at all. Folder changes become
durable in their order within one folder, by `sync_folder` of that folder or, in part, by luck.
"""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass, field

SECTOR_BYTES = 512


class Crashed(BaseException):
    """The machine stopped in the middle of an operation. Not an Exception: nobody may handle it."""


@dataclass(eq=False)
class Node:
    """A file's content, or a folder (`data` unused)."""

    is_folder: bool = False
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes]] = field(default_factory=list)  # position, data; -1: truncate

    def write(self, position: int, data: bytes) -> None:
        self.pending.append((position, data))
        _apply(self.data, position, data)

    def truncate(self, size_bytes: int) -> None:
        self.pending.append((-1, size_bytes.to_bytes(8, "little")))
        _resize(self.data, size_bytes)

    def after_power_cut(self, chance: random.Random) -> Node:
        content = bytearray(self.durable)
        mode = chance.choice(("none", "all", "prefix", "prefix", "sectors"))
        keep = {"none": 0, "all": len(self.pending)}.get(mode, chance.randint(0, len(self.pending)))
        for number, (position, data) in enumerate(self.pending):
            if position < 0:
                if number < keep:
                    _resize(content, int.from_bytes(data, "little"))
                continue
            if number < keep and mode != "sectors":
                _apply(content, position, data)
            elif number == keep and mode == "prefix" and not _in_one_sector(position, data):
                _apply(content, position, data[: chance.randint(0, len(data))])
            elif mode == "sectors":
                _apply_some_sectors(content, position, data, chance)
        return Node(data=content, durable=bytes(content))


def _in_one_sector(position: int, data: bytes) -> bool:
    return position // SECTOR_BYTES == (position + max(len(data), 1) - 1) // SECTOR_BYTES


def _apply(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _resize(content: bytearray, size_bytes: int) -> None:
    if size_bytes < len(content):
        del content[size_bytes:]
    else:
        content.extend(bytes(size_bytes - len(content)))


def _apply_some_sectors(
    content: bytearray, position: int, data: bytes, chance: random.Random
) -> None:
    at = 0
    while at < len(data):
        size = SECTOR_BYTES - (position + at) % SECTOR_BYTES
        if chance.random() < 0.6:
            _apply(content, position + at, data[at : at + size])
        at += size


class SimulatedFile:
    """A handle by path; opened when first used, as the real one."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._node: Node | None = None

    def _opened(self) -> Node:
        if self._node is None:
            self._node = self._disk.file_node(self.path)
        return self._node

    def fileno(self) -> int:
        return -1

    def size(self) -> int:
        return len(self._opened().data)

    def write(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self._disk.write(self._opened(), bytes(data), position)

    def read(self, size_bytes: int, position: int) -> bytes:
        return bytes(self._opened().data[position : position + size_bytes])

    def sync(self) -> None:
        self._disk.sync(self._opened())

    def truncate(self, size_bytes: int) -> None:
        self._disk.truncate(self._opened(), size_bytes)

    def hold(self) -> None:
        self._opened()

    def release(self) -> None:
        pass

    def close(self) -> None:
        self._node = None


class SimulatedDisk:
    """Files and folders by absolute path. `crash()` gives the disk that the next start sees."""

    def __init__(self, seed: int = 0, capacity_bytes: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.capacity_bytes = capacity_bytes
        self.crash_at: int | None = None  # number of the operation that does not happen any more
        self.failing_syncs = 0  # so many of the next file syncs fail
        self.operations = 0
        self.syncs = 0
        self.entries: dict[str, Node] = {"": Node(is_folder=True)}
        self.durable: dict[str, Node] = {"": self.entries[""]}
        self._changes: dict[str, list[tuple[str, Node | None]]] = {}  # folder -> path, node or gone

    # faults

    def crash(self, *, power_cut: bool) -> SimulatedDisk:
        """The disk after the crash. A killed process leaves everything as it was written."""
        after = SimulatedDisk(self.chance.randrange(1 << 30), self.capacity_bytes)
        if not power_cut:
            after.entries, after.durable = self.entries, self.durable
            after._changes = self._changes
            return after
        durable = dict(self.durable)
        for folder in sorted(self._changes):
            changes = self._changes[folder]
            for path, node in changes[: self.chance.randint(0, len(changes))]:
                _set(durable, path, node)
        nodes: dict[int, Node] = {}
        for path in sorted(durable):
            node = durable[path]
            if path and path.rpartition("/")[0] not in after.entries:
                continue  # its folder was lost
            if id(node) not in nodes:
                nodes[id(node)] = node if node.is_folder else node.after_power_cut(self.chance)
            after.entries[path] = nodes[id(node)]
        after.durable = dict(after.entries)
        return after

    def settle(self) -> None:
        """Make everything durable, as a long quiet time would."""
        for node in self.entries.values():
            node.durable, node.pending = bytes(node.data), []
        self.durable = dict(self.entries)
        self._changes.clear()

    def _step(self) -> None:
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise Crashed
        self.operations += 1

    # file operations, for SimulatedFile

    def file_node(self, path: str) -> Node:
        node = self.entries.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def used_bytes(self) -> int:
        return sum(len(node.data) for node in self.entries.values())

    def write(self, node: Node, data: bytes, position: int) -> None:
        if self.crash_at is not None and self.operations >= self.crash_at:
            part = self.chance.randint(0, len(data))
            if _in_one_sector(position, data):
                part = self.chance.choice((0, len(data)))
            node.write(position, data[:part])
        self._step()
        growth = position + len(data) - len(node.data)
        if self.capacity_bytes is not None and growth > 0:
            room = max(self.capacity_bytes - self.used_bytes(), 0)
            if growth > room:
                node.write(position, data[: max(len(data) - growth + room, 0)])
                raise OSError(errno.ENOSPC, "no space left on device")
        node.write(position, data)

    def truncate(self, node: Node, size_bytes: int) -> None:
        self._step()
        node.truncate(size_bytes)

    def sync(self, node: Node) -> None:
        self._step()
        self.syncs += 1
        if self.failing_syncs:
            self.failing_syncs -= 1
            node.pending = []  # dropped: the page cache shows them, the disk never will
            raise OSError(errno.EIO, "input/output error")
        node.durable, node.pending = bytes(node.data), []

    # the Disk protocol

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        if create and path not in self.entries:
            self._make(path, Node())
        return SimulatedFile(self, path)

    def exists(self, path: str) -> bool:
        return path in self.entries

    def size(self, path: str) -> int:
        return len(self.file_node(path).data)

    def list_folder(self, path: str) -> list[str]:
        start = f"{path}/"
        return sorted(
            entry[len(start) :]
            for entry in self.entries
            if entry.startswith(start) and "/" not in entry[len(start) :]
        )

    def is_folder(self, path: str) -> bool:
        return path in self.entries and self.entries[path].is_folder

    def make_folders(self, path: str) -> None:
        missing = []
        while path not in self.entries:
            missing.append(path)
            path = path.rpartition("/")[0]
        for folder in reversed(missing):
            self._make(folder, Node(is_folder=True))

    def read_file(self, path: str, *, bytes_max: int) -> bytes:
        return bytes(self.file_node(path).data[:bytes_max])

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        temporary = f"{path}.tmp"
        self.remove(temporary)
        file = self.open(temporary, create=True)
        file.write(data, 0)
        if sync:
            file.sync()
        self.rename(temporary, path)
        if sync:
            self.sync_folder(path.rpartition("/")[0])

    def rename(self, source: str, target: str) -> None:
        self._step()
        self.file_node(source)
        moved = [e for e in self.entries if e == source or e.startswith(f"{source}/")]
        folder = source.rpartition("/")[0]
        for entry in sorted(moved):
            node = self.entries.pop(entry)
            self.entries[target + entry[len(source) :]] = node
        self._note(folder, f"{source}\0{target}", self.entries[target])

    def remove(self, path: str) -> None:
        if path in self.entries:
            self._step()
            del self.entries[path]
            self._note(path.rpartition("/")[0], path, None)

    def remove_tree(self, path: str) -> None:
        for entry in sorted(self.entries, reverse=True):
            if entry == path or entry.startswith(f"{path}/"):
                self.remove(entry)

    def sync_folder(self, path: str) -> None:
        self._step()
        self.file_node(path)
        for changed, node in self._changes.pop(path, []):
            _set(self.durable, changed, node)

    def _make(self, path: str, node: Node) -> None:
        self._step()
        folder = path.rpartition("/")[0]
        self.file_node(folder)
        if self.capacity_bytes is not None and self.used_bytes() >= self.capacity_bytes:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        self.entries[path] = node
        self._note(folder, path, node)

    def _note(self, folder: str, path: str, node: Node | None) -> None:
        self._changes.setdefault(folder, []).append((path, node))


def _set(entries: dict[str, Node], path: str, node: Node | None) -> None:
    """Do one folder change: made, removed, or (source, NUL, target) renamed with all below."""
    source, _, target = path.partition("\0")
    if target:
        for entry in sorted(entries):
            if entry == source or entry.startswith(f"{source}/"):
                entries[target + entry[len(source) :]] = entries.pop(entry)
        if node is not None:
            entries[target] = node
    elif node is None:
        entries.pop(path, None)
    else:
        entries[path] = node
