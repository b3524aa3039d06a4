"""A bound on the memory of indexes: those of sealed segments are dropped when not used lately."""

from collections import OrderedDict
from typing import Protocol

INDEX_CACHE_BYTES_MAX = 32 * 1024 * 1024  # of one shard; at 24 bytes for 16 KiB of log


class Indexed(Protocol):
    """A sealed segment."""

    @property
    def index_bytes(self) -> int:
        """Memory that its entries take; 0 if they are not loaded."""
        ...

    def forget_index(self) -> None:
        """Drop the entries; they can be read again."""
        ...


class IndexCache:
    """Sealed segments whose index is in memory, the latest used last."""

    __slots__ = ("_bytes_max", "_segments", "_sizes_bytes")

    def __init__(self, bytes_max: int = INDEX_CACHE_BYTES_MAX) -> None:
        """`bytes_max`: sum of entries kept, at least those of the segment in use."""
        self._segments: OrderedDict[Indexed, int] = OrderedDict()
        self._bytes_max = bytes_max
        self._sizes_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Entries in memory, as far as known."""
        return self._sizes_bytes

    def touch(self, segment: Indexed) -> None:
        """The segment is about to be used."""
        size = segment.index_bytes
        self._sizes_bytes += size - self._segments.get(segment, 0)
        self._segments[segment] = size
        self._segments.move_to_end(segment)
        while self._sizes_bytes > self._bytes_max and len(self._segments) > 1:
            oldest, oldest_size = self._segments.popitem(last=False)
            self._sizes_bytes -= oldest_size
            oldest.forget_index()

    def forget(self, segment: Indexed) -> None:
        """The segment is gone."""
        self._sizes_bytes -= self._segments.pop(segment, 0)
