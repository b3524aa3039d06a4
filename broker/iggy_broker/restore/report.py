"""What a restore has done: a line for each partition, and one for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from iggy_broker.metadata.model import State
from iggy_broker.restore.building import Cut, Made
from iggy_broker.restore.plan import Plan, Target
from iggy_broker.restore.survey import Held
from iggy_wire.archive_listing import Gap

REPORT_FILE: Final = "restore.json"
"""In the data directory."""
LEFT_OUT_MAX: Final = 1000
"""Partitions that are named as left out; the others are only counted."""


class PartitionLine(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. Offsets: `first_offset` up to `next_offset`, without the latter."""

    stream: str
    topic: str
    stream_id: int
    topic_id: int
    partition_id: int
    folder: str
    """In the archive; empty: it has nothing of it."""
    first_offset: int
    next_offset: int
    local_offset: int
    """From here on it is on the disk; what is before stays in the archive."""
    last_timestamp_us: int
    gaps: list[Gap] | None
    """None: nobody has looked, see `--check`."""
    stored_offsets: int
    cut_offsets: list[Cut]
    is_adopted: bool
    """Not in the metadata, which are older."""
    problems: list[str]


class LeftOut(msgspec.Struct, frozen=True):
    """A partition that was made after the metadata were copied."""

    stream: str
    topic: str
    folder: str
    next_offset: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    archive: str
    mode: str  # lazy, full
    has_metadata: bool
    """Whether the archive had them; else streams and topics are made up from manifests."""
    is_served: bool
    """Whether older messages are served: from the disk, or from the archive of the settings."""
    op: int
    streams: int
    topics: int
    partitions: int
    users: int
    messages: int
    stored_offsets: int
    cut_offsets: int
    problems: int
    left_out: list[LeftOut]
    left_out_count: int
    earlier_lives: int
    """Folders of partitions that had been deleted or emptied."""
    took_ms: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known besides of a restore."""

    archive: str
    is_ours: bool
    """Whether it is the archive of the settings."""
    is_full: bool
    has_metadata: bool
    took_ms: int


class Report(msgspec.Struct, frozen=True):
    """The file."""

    restored: Summary
    partitions: list[PartitionLine]

    def brief(self) -> bytes:
        """One line, however much there is: the summary without the names in it."""
        figures = msgspec.structs.replace(self.restored, left_out=[])
        return msgspec.json.encode({"restored": figures})

    def lines(self) -> Iterator[bytes]:
        """For a program: an object each."""
        for line in self.partitions:
            yield msgspec.json.encode(line)
        yield msgspec.json.encode({"restored": self.restored})

    def table(self) -> Iterator[str]:
        """For people."""
        row = "{:<40} {:>12} {:>12} {:>12} {:>8} {}"
        yield row.format("partition", "first", "next", "on disk", "offsets", "remarks")
        for line in self.partitions:
            name = f"{line.stream}/{line.topic}/{line.partition_id}"
            remarks = [*(["adopted"] if line.is_adopted else []), *line.problems]
            remarks += [f"gap {gap.first_offset} to {gap.next_offset}" for gap in line.gaps or ()]
            remarks += [
                f"{cut.kind} {cut.id}: {cut.offset} is {cut.now}" for cut in line.cut_offsets
            ]
            yield row.format(
                name, line.first_offset, line.next_offset, line.local_offset,
                line.stored_offsets, "; ".join(remarks),
            )  # fmt: skip
        for left in self.restored.left_out:
            yield f"left out: {left.stream}/{left.topic} ({left.folder}), --recreate adopts it"


def line_of(state: State, target: Target, made: Made, *, is_adopted: bool) -> PartitionLine:
    """What to say of a partition."""
    placed, held = target.placed, target.held
    stream = state.streams[placed.stream_id]
    problems = [*(held.problems if held else ()), *([made.problem] if made.problem else [])]
    return PartitionLine(
        stream=stream.name,
        topic=stream.topics[placed.topic_id].name,
        stream_id=placed.stream_id,
        topic_id=placed.topic_id,
        partition_id=placed.partition.id,
        folder=held.folder if held else "",
        first_offset=held.first_offset if held else 0,
        next_offset=held.next_offset if held else 0,
        local_offset=made.local_offset,
        last_timestamp_us=held.last_timestamp_us if held else 0,
        gaps=(list(held.listing.gaps) if held.is_all else None) if held else [],
        stored_offsets=made.offsets,
        cut_offsets=made.cut,
        is_adopted=is_adopted,
        problems=problems,
    )


def report_of(plan: Plan, lines: list[PartitionLine], facts: Facts) -> Report:
    """Put it together."""
    state = plan.state
    summary = Summary(
        archive=facts.archive,
        mode="full" if facts.is_full else "lazy",
        has_metadata=facts.has_metadata,
        is_served=facts.is_ours or all(line.local_offset <= line.first_offset for line in lines),
        op=state.op,
        streams=len(state.streams),
        topics=sum(len(stream.topics) for stream in state.streams.values()),
        partitions=len(lines),
        users=len(state.users),
        messages=sum(line.next_offset - line.first_offset for line in lines),
        stored_offsets=sum(line.stored_offsets for line in lines),
        cut_offsets=sum(len(line.cut_offsets) for line in lines),
        problems=sum(len(line.problems) for line in lines),
        left_out=[_left_out(held) for held in plan.unknown[:LEFT_OUT_MAX]],
        left_out_count=len(plan.unknown),
        earlier_lives=plan.earlier,
        took_ms=facts.took_ms,
    )
    return Report(summary, lines)


def _left_out(held: Held) -> LeftOut:
    return LeftOut(held.stream, held.topic, held.folder, held.next_offset)
