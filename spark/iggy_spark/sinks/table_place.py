"""How far a table is, and what of a batch it does not have yet. Pure.

A table of a lake gets all files of a batch by one commit of the driver, and in the same commit the
next offset of each partition. Who commits reads these offsets first: a range that is below them is
in already, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from iggy_spark.errors import Fenced
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Spans, Written

LIVES_MAX = 8  # of the topic, whose offsets a table remembers; the oldest goes

Next = Mapping[int, int]  # partition -> the first offset that the table does not have


@dataclass(frozen=True, slots=True)
class Part:
    """What a task has written of one range: files that no reader sees before the commit."""

    incarnation: str
    partition: int
    first: int
    end: int
    files: Sequence[Mapping[str, Any]]  # in the words of the sink, as JSON has them

    def to_json(self) -> dict[str, Any]:
        """For `Written.details`."""
        return asdict(self)


def written(wanted: OffsetRange, files: Sequence[Mapping[str, Any]], *, rows: int) -> Written:
    """What a task tells the driver of a range; each file's `size` is in bytes."""
    part = Part(wanted.incarnation, wanted.partition, wanted.first, wanted.end, files)
    return Written(
        wanted.partition,
        wanted.first,
        wanted.end,
        rows=rows,
        size_bytes=sum(file["size"] for file in files),
        details=(part.to_json(),),
    )


def parts_of(results: Iterable[Written]) -> list[Part]:
    """All parts of a batch, by partition and offset."""
    found = [Part(**detail) for result in results for detail in result.details]
    return sorted(found, key=lambda part: (part.partition, part.first))


def missing(parts: Iterable[Part], held: Next, *, target: str) -> tuple[list[Part], dict[int, int]]:
    """The parts that a table does not have, and how far it is with them.

    Raises:
        Fenced: it has half of a part; only another driver can have written that.
    """
    kept: list[Part] = []
    then = dict(held)
    for part in parts:
        at = then.get(part.partition, part.first)
        if part.end <= at:
            continue
        if part.first < at:
            raise Fenced(
                f"{target}: another run of this sink has written partition {part.partition} up to "
                f"offset {at - 1}, inside {part.first}\u2013{part.end - 1}: let only one run"
            )
        kept.append(part)
        then[part.partition] = part.end
    return kept, then


def spans_of(held: Next) -> dict[int, Spans]:
    """As `Sink.prepare` tells it."""
    return {partition: ((0, end),) for partition, end in sorted(held.items())}
