"""A disk in memory that crashes: it keeps what was synced and a seeded part of the rest.

Faults: power cut (lost and torn writes, later sectors without earlier ones, lost folder entries),
killed process (page cache stays), no space, failed sync (the pages are dropped for good), failed
sync of a folder, failed read, crash at the nth operation. Same seed, same outcome; `happened`
counts what came of it.

Folder changes become durable by `sync_folder` of that folder or, in part, by luck; what files and
folders are made of is in `simulated_nodes`.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable

from iggy_broker.storage.disk import StorageFailed
from simulated_nodes import Change, Node, do_change, in_one_sector


class Crashed(BaseException):
    """The machine stopped in the middle of an operation. Not an Exception: nobody may handle it."""


class SimulatedFile:
    """A handle by path; opened when first used, as the real one."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._node: Node | None = None
        self._held = 0
        self._close_wanted = False

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
        self._disk.reading(self.path)
        return bytes(self._opened().data[position : position + size_bytes])

    def sync(self) -> None:
        self._disk.sync(self._opened())

    def truncate(self, size_bytes: int) -> None:
        self._disk.truncate(self._opened(), size_bytes)

    def hold(self) -> None:
        self._opened()
        self._held += 1

    def release(self) -> None:
        self._held -= 1
        if self._close_wanted and not self._held:
            self.close()

    def close(self) -> None:
        self._close_wanted = self._held > 0
        if not self._held:
            self._node = None


class SimulatedDisk:
    """Files and folders by absolute path. `crash()` gives the disk that the next start sees."""

    def __init__(self, seed: int = 0, capacity_bytes: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.capacity_bytes = capacity_bytes
        self.crash_at: int | None = None  # number of the operation that does not happen any more
        self.failing_syncs = 0  # so many of the next file syncs fail
        self.failing_folder_syncs = 0  # the same of folders: their changes stay where they were
        self.failing_reads = 0  # so many of the next reads fail
        self.happened: Counter[str] = Counter()  # faults, by what came of them
        self.operations = 0
        self.syncs = 0
        self.entries: dict[str, Node] = {"": Node(is_folder=True)}  # as programs see them

    # faults

    def crash(self, *, power_cut: bool) -> SimulatedDisk:
        """The disk after the crash. A killed process leaves everything as it was written."""
        after = SimulatedDisk(self.chance.randrange(1 << 30), self.capacity_bytes)
        after.happened = self.happened
        if not power_cut:
            after.entries = self.entries
            return after
        copies: dict[Node, dict[str, Node]] = {}  # folder -> its names on the disk

        def names_of(folder: Node) -> dict[str, Node]:
            return copies.setdefault(folder, dict(folder.names))

        for path in sorted(self.entries):
            folder = self.entries[path]
            kept = self.chance.randint(0, len(folder.changes))
            self.happened["folder changes lost"] += len(folder.changes) - kept
            for change in folder.changes[:kept]:
                do_change(change, names_of(folder), names_of)
        nodes: dict[Node, Node] = {}
        self._rebuild("", self.entries[""], (after.entries, nodes, names_of))
        return after

    def _rebuild(
        self,
        path: str,
        node: Node,
        into: tuple[dict[str, Node], dict[Node, Node], Callable[[Node], dict[str, Node]]],
    ) -> Node:
        """Put a node and all below it into the disk after a power cut."""
        entries, nodes, names_of = into
        if node not in nodes:
            nodes[node] = (
                Node(is_folder=True, made_as=node.made_as)
                if node.is_folder
                else node.after_power_cut(self.chance, self.happened)
            )
        rebuilt = entries[path] = nodes[node]
        if node.is_folder:
            for name, child in sorted(names_of(node).items()):
                rebuilt.names[name] = self._rebuild(f"{path}/{name}", child, into)
        return rebuilt

    def settle(self) -> None:
        """Make everything durable, as a long quiet time would."""
        for node in self.entries.values():
            node.durable, node.pending = bytearray(node.data), []
            node.names, node.changes = {}, []
        for path, node in self.entries.items():
            if path:
                self.entries[_parent(path)].names[_name(path)] = node

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
            if in_one_sector(position, data):
                part = self.chance.choice((0, len(data)))
            node.write(position, data[:part])
        self._step()
        growth = position + len(data) - len(node.data)
        if self.capacity_bytes is not None and growth > 0:
            room = max(self.capacity_bytes - self.used_bytes(), 0)
            if growth > room:
                node.write(position, data[: max(len(data) - growth + room, 0)])
                self.happened["writes without space"] += 1
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
            self.happened["syncs failed"] += 1
            raise OSError(errno.EIO, "input/output error")
        node.sync()

    def reading(self, path: str) -> None:
        """Somebody is about to read; OSError if that fails."""
        if self.failing_reads:
            self.failing_reads -= 1
            self.happened["reads failed"] += 1
            raise OSError(errno.EIO, "input/output error", path)

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
            path = _parent(path)
        for folder in reversed(missing):
            self._make(folder, Node(is_folder=True))

    def read_file(self, path: str, *, bytes_max: int) -> bytes:
        node = self.file_node(path)
        self.reading(path)
        return bytes(node.data[:bytes_max])

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        temporary = f"{path}.tmp"
        self.remove(temporary)
        try:
            file = self.open(temporary, create=True)
            file.write(data, 0)
            if sync:
                file.sync()
        except OSError:
            self.remove(temporary)
            raise
        self.rename(temporary, path)
        if sync:
            try:
                self.sync_folder(_parent(path))
            except OSError as error:
                raise StorageFailed(f"{path}: its new name cannot be synced: {error}") from error

    def rename(self, source: str, target: str) -> None:
        self._step()
        self.file_node(source)
        moved = [e for e in self.entries if e == source or e.startswith(f"{source}/")]
        for entry in sorted(moved):
            node = self.entries.pop(entry)
            self.entries[target + entry[len(source) :]] = node
        here, there = self.entries[_parent(source)], self.entries[_parent(target)]
        elsewhere = None if here is there else there
        node = self.entries[target]
        here.changes.append(Change(_name(target), node, was=_name(source), folder=elsewhere))

    def remove(self, path: str) -> None:
        if path in self.entries:
            self._step()
            del self.entries[path]
            self.entries[_parent(path)].changes.append(Change(_name(path), None))

    def remove_tree(self, path: str) -> None:
        for entry in sorted(self.entries, reverse=True):
            if entry == path or entry.startswith(f"{path}/"):
                self.remove(entry)

    def remove_empty(self, path: str) -> bool:
        node = self.entries.get(path)
        if node is None or self.list_folder(path):
            return False
        self.remove(path)
        return True

    def sync_folder(self, path: str) -> None:
        self._step()
        folder = self.file_node(path)
        if self.failing_folder_syncs:
            self.failing_folder_syncs -= 1
            self.happened["folder syncs failed"] += 1
            raise OSError(errno.EIO, "input/output error", path)
        for change in folder.changes:
            do_change(change, folder.names, lambda other: other.names)
        folder.changes = []

    def _make(self, path: str, node: Node) -> None:
        self._step()
        folder = self.file_node(_parent(path))
        if self.capacity_bytes is not None and self.used_bytes() >= self.capacity_bytes:
            self.happened["files without space"] += 1
            raise OSError(errno.ENOSPC, "no space left on device", path)
        node.made_as = path
        self.entries[path] = node
        folder.changes.append(Change(_name(path), node))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
