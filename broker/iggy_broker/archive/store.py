"""Where an archive lies: objects by key, in a folder or a bucket. Blocking, for threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import xxhash

BLOCK_BYTES: Final = 8 << 20
"""What is read, sent or compared at a time."""


class ArchiveError(Exception):
    """The archive cannot be used now; the message names it and says what to do."""


class ReadAt(Protocol):
    """Bytes to be stored, wherever they are."""

    def __call__(self, size_bytes: int, position: int) -> bytes:
        """At most so many bytes from `position`; fewer only at the end. OSError."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object."""

    key: str
    size_bytes: int


class ArchiveStore(Protocol):
    """All methods raise ArchiveError when the store does not answer, or answers no."""

    def check(self) -> None:
        """At start: can it be written and read? Removes what an interrupted run has left."""

    def put(self, key: str, read: ReadAt, size_bytes: int) -> None:
        """Store an object, whole or not at all; one of that key is replaced."""

    def read(self, key: str, size_bytes: int, position: int) -> bytes:
        """At most so many bytes from `position`; fewer only at the end.

        FileNotFoundError: there is no such object.
        """

    def read_into(self, key: str, memory: Sequence[memoryview], position: int) -> int:
        """Fill memory, in order, with bytes from `position` on: how many; fewer only at the end.

        FileNotFoundError: there is no such object.
        """

    def size(self, key: str) -> int | None:
        """Length of an object; None if there is none."""

    def entries(self, prefix: str, *, after: str = "") -> Iterator[Stored]:
        """All objects whose keys begin so, ascending; with `after` only those behind that key."""

    def folders(self, prefix: str) -> Iterator[str]:
        """Names that follow a prefix up to the next slash, each once."""

    def delete(self, key: str) -> None:
        """Remove an object; fine if there is none."""


def put_bytes(store: ArchiveStore, key: str, data: bytes) -> None:
    """Store a small object."""
    store.put(key, lambda size_bytes, position: data[position : position + size_bytes], len(data))


def put_into(memory: Sequence[memoryview], data: bytes) -> int:
    """Fill memory, in order, which has room for all of `data`: how many bytes that are."""
    position = 0
    for piece in memory:
        part = data[position : position + len(piece)]
        piece[: len(part)] = part
        position += len(part)
    return position


def digest(read: ReadAt, size_bytes: int) -> str:
    """XXH3-64 of the first `size_bytes` bytes, as manifests have it.

    OSError, ArchiveError: as `read`. EOFError: the bytes end before that.
    """
    found = xxhash.xxh3_64()
    for position in range(0, size_bytes, BLOCK_BYTES):
        wanted = min(BLOCK_BYTES, size_bytes - position)
        block = read(wanted, position)
        if len(block) != wanted:
            raise EOFError(f"{position + len(block)} of {size_bytes} bytes are there")
        found.update(block)
    return found.hexdigest()
