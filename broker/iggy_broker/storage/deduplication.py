"""Messages that a partition was sent before: known by their ids, for a while, and left out.

The window holds the newest ids, by count and by age. It lives in memory; the first append after a
start reads it back from the log, so that a restart lets nothing through. Messages without an id (0)
are never left out: clients give every message one that wants to be known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from iggy_broker.storage.partition_log import PartitionLog
from iggy_broker.storage.segment import FileRange
from iggy_wire import kernel
from iggy_wire.batch import BatchHeader, build, messages

READ_BYTES: Final = 8 << 20
"""Of the log at a time, when the window is read back."""
_ID_BYTES: Final = 16
_NO_ID: Final = bytes(_ID_BYTES)


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """How long a message is known: both limits hold."""

    entries_max: int  # newest messages of a partition
    age_us_max: int | None  # None: whatever their age


class Window:
    """The ids of one partition's newest messages."""

    __slots__ = ("_asked", "_ids", "_is_loaded", "_log", "_options", "_order")

    def __init__(self, options: WindowOptions, log: PartitionLog) -> None:
        """Nothing is read yet."""
        self._options = options
        self._log = log
        self._order: deque[tuple[bytes, int]] = deque()  # ids and times, the oldest first
        self._ids: set[bytes] = set()
        self._is_loaded = False
        self._asked: list[bytes] = []  # ids of the batch that was judged last

    def fresh(self, batch: memoryview) -> memoryview | None:
        """What is new of a stamped batch: itself where that is everything, another one with the
        same stamp, or None. Reject if the disk cannot read.
        """
        self._load()
        header = BatchHeader.decode(batch)
        self._forget(header.base_timestamp_us)
        first = header.base_offset
        self._asked = ids = list(_ids(kernel.columns(batch, first, first + header.count).ids))
        seen: set[bytes] = set()
        kept = set()
        for number, id_ in enumerate(ids):
            if id_ == _NO_ID or not (id_ in self._ids or id_ in seen):
                seen.add(id_)
                kept.add(number)
        if len(kept) == len(ids):
            return batch
        found = [message for number, message in enumerate(messages(batch)) if number in kept]
        if not found:
            return None
        new = memoryview(build(found, origin_timestamp_us=header.origin_timestamp_us))
        kernel.admit(new, header.partition_id, first, header.base_timestamp_us)
        return new

    def _load(self) -> None:
        """Read back what the log's newest messages tell, once."""
        if self._is_loaded:
            return
        log = self._log
        offset = max(log.first_offset, log.next_offset - self._options.entries_max)
        for region, first, end in _regions(log, offset):
            found = kernel.columns(region, first, end)
            times = memoryview(found.timestamps_us).cast("q")
            for id_, time_us in zip(_ids(found.ids), times, strict=True):
                self._add(id_, time_us)
        self._is_loaded = True

    def stored(self, time_us: int) -> None:
        """What was new of the last batch is stored."""
        for id_ in self._asked:
            self._add(id_, time_us)

    def _add(self, id_: bytes, time_us: int) -> None:
        if id_ == _NO_ID or id_ in self._ids:
            return
        self._order.append((id_, time_us))
        self._ids.add(id_)
        if len(self._order) > self._options.entries_max:
            self._ids.discard(self._order.popleft()[0])

    def _forget(self, now_us: int) -> None:
        """Whoever is too old."""
        age_us_max, order = self._options.age_us_max, self._order
        if age_us_max is not None:
            while order and order[0][1] < now_us - age_us_max:
                self._ids.discard(order.popleft()[0])


def _ids(packed: bytes) -> Iterator[bytes]:
    return (packed[at : at + _ID_BYTES] for at in range(0, len(packed), _ID_BYTES))


def _regions(log: PartitionLog, offset: int) -> Iterator[tuple[bytes, int, int]]:
    """The log from an offset on, in pieces, up to damage: bytes, first and next offset."""
    while offset < log.next_offset:
        end, _, parts = log.read(offset, log.next_offset, READ_BYTES)
        if end == offset:
            return
        region = b"".join(part.read() if isinstance(part, FileRange) else part for part in parts)
        yield region, offset, end
        offset = end
