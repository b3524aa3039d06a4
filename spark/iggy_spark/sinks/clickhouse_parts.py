"""A range in parts, one insert each, cut so that whoever writes it again cuts it alike. Pure.

Parts end at multiples of PART_OFFSETS, and earlier where the messages in them are large. Both
depend on the topic alone: not on how the messages came, and not on what becomes of them. Dead
letters on their way back are messages of other places, in any order: each is a part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Portion

PART_OFFSETS: Final = 50_000
PART_BYTES_MAX: Final = 32 << 20  # payloads as they came; a single larger one is a part

Numbers = npt.NDArray[np.int64]
Numbers32 = npt.NDArray[np.int32]


@dataclass(slots=True)
class Part:
    """Offsets that are written together, and the messages of them that there are."""

    first: int
    end: int
    portions: list[Portion] = field(default_factory=list)
    pieces: list[pa.RecordBatch] = field(default_factory=list)  # rows of each of the portions
    size_bytes: int = 0  # of all messages, as they came

    def rows(self) -> pa.Table:
        """All rows, in offset order."""
        return pa.Table.from_batches(self.pieces)

    def portion_of(self, offset: int) -> Portion:
        """Where a message came in."""
        at = bisect_right(self.portions, offset, key=lambda one: one.messages.offsets[0])
        return self.portions[at - 1]

    def name(self, offsets: Numbers, run: tuple[int, int]) -> str:
        """Where some of its rows, which have these offsets, come from. What is refused or filtered
        in between does not change it; the rows at its ends stand for the part's own ends.
        """
        first = self.first if run[0] == 0 else int(offsets[run[0]])
        end = self.end if run[1] == len(offsets) else int(offsets[run[1]])
        known = self.portions[0].messages
        return f"{known.incarnation}/{known.partition}/{first}-{end - 1}"


def parts(
    wanted: OffsetRange,
    portions: Iterable[Portion],
    *,
    offsets_max: int | None = None,
    bytes_max: int | None = None,
) -> Iterator[Part]:
    """The parts of a range that hold messages, in order; portions are read as they are needed."""
    cutter = _Cutter(wanted, offsets_max or PART_OFFSETS, bytes_max or PART_BYTES_MAX)
    for portion in portions:
        known = portion.messages
        if (known.incarnation, known.partition) == (wanted.incarnation, wanted.partition):
            yield from cutter.add(portion)
        else:
            yield from _singles(portion)
    if cutter.part is not None:
        yield cutter.part


@dataclass(slots=True)
class _Cutter:
    """Fills one part after the other."""

    wanted: OffsetRange
    offsets_max: int
    bytes_max: int
    part: Part | None = None  # that may still grow

    def add(self, portion: Portion) -> Iterator[Part]:
        """The parts that this portion ends."""
        at, places = 0, np.frombuffer(portion.messages.columns.offsets, dtype=np.int64)
        ends = np.frombuffer(portion.messages.columns.payload_offsets, dtype=np.int32)
        while at < len(places):
            part, first = self.part, int(places[at])
            if part is None or first >= part.end:
                if part is not None:
                    yield part
                part = self.part = self._begun(first)
            inside = int(np.searchsorted(places, part.end))
            stop = min(inside, self._fitting(part, ends, at))
            if stop > at:
                _add(part, portion, places[at:stop], size_bytes=int(ends[stop] - ends[at]))
            at = stop
            if at < inside:  # full before its end
                part.end = int(places[at])
                yield part
                self.part = replace(self._begun(part.end), first=part.end)

    def _begun(self, offset: int) -> Part:
        """The part that a message lies in, as far as offsets say."""
        first = offset // self.offsets_max * self.offsets_max
        end = min(first + self.offsets_max, self.wanted.end)
        return Part(max(first, self.wanted.first), end)

    def _fitting(self, part: Part, ends: Numbers32, at: int) -> int:
        """The first row from `at` on whose payload has no room any more."""
        room = self.bytes_max - part.size_bytes
        stop = int(np.searchsorted(ends, ends[at] + room, side="right")) - 1
        return max(stop, at if part.portions else at + 1)


def _singles(portion: Portion) -> Iterator[Part]:
    for row, offset in enumerate(row_offsets(portion.rows).tolist()):
        yield Part(offset, offset + 1, [portion], [portion.rows.slice(row, 1)])


def _add(part: Part, portion: Portion, places: Numbers, *, size_bytes: int) -> None:
    rows = row_offsets(portion.rows)
    first, end = np.searchsorted(rows, places[0]), np.searchsorted(rows, places[-1], side="right")
    part.portions.append(portion)
    part.pieces.append(portion.rows.slice(first, end - first))
    part.size_bytes += size_bytes


def row_offsets(rows: pa.RecordBatch | pa.Table) -> Numbers:
    """The offsets of rows."""
    found: Numbers = rows.column("iggy_offset").to_numpy()
    return found
