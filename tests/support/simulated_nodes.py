"""Files and folders of the simulated disk: what programs see, and what a power cut leaves of it.

A write that lies within one 512-byte sector lands whole or not at all. Folder changes become
durable in their order within one folder.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

SECTOR_BYTES = 512


@dataclass(frozen=True)
class Change:
    """One change of a folder: a name made or removed (`node` None), or renamed, maybe elsewhere."""

    name: str
    node: Node | None
    was: str = ""  # the name in this folder before, of a rename
    folder: Node | None = None  # where the new name is, if elsewhere


@dataclass(eq=False)
class Node:
    """A file's content, or a folder (`data` unused)."""

    is_folder: bool = False
    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)  # what a power cut leaves, at least
    pending: list[tuple[int, bytes]] = field(default_factory=list)  # position, data; -1: truncate
    made_as: str = ""  # its first path
    names: dict[str, Node] = field(default_factory=dict)  # a folder's, on the disk
    changes: list[Change] = field(default_factory=list)  # a folder's, not on the disk yet

    def write(self, position: int, data: bytes) -> None:
        self.pending.append((position, data))
        _apply(self.data, position, data)

    def truncate(self, size_bytes: int) -> None:
        self.pending.append((-1, size_bytes.to_bytes(8, "little")))
        _resize(self.data, size_bytes)

    def sync(self) -> None:
        """Only what is still to be written gets durable: not what a failed sync dropped."""
        for position, data in self.pending:
            if position < 0:
                _resize(self.durable, int.from_bytes(data, "little"))
            else:
                _apply(self.durable, position, data)
        self.pending = []

    def after_power_cut(self, chance: random.Random, happened: Counter[str]) -> Node:
        """What is left of a file; `happened` gets a word for it."""
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
            elif number == keep and mode == "prefix" and not in_one_sector(position, data):
                _apply(content, position, data[: chance.randint(0, len(data))])
                happened["torn writes"] += 1
            elif mode == "sectors":
                _apply_some_sectors(content, position, data, chance)
                happened["writes in part, sector by sector"] += 1
        happened["files that lost writes"] += content != self.data
        return Node(data=content, durable=bytearray(content), made_as=self.made_as)


def in_one_sector(position: int, data: bytes) -> bool:
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


def do_change(
    change: Change, names: dict[str, Node], names_of: Callable[[Node], dict[str, Node]]
) -> None:
    """Do one change on the disk, where `names` are those of the folder that it belongs to."""
    if change.was:
        names.pop(change.was, None)
    if change.node is None:
        names.pop(change.name, None)
    elif change.folder is None:
        names[change.name] = change.node
    else:
        names_of(change.folder)[change.name] = change.node
