"""Bodies of replies to requests that wait at the server (Iggy protocol 0.12)."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, Self

import msgspec

from iggy_wire.buffer import Buffer
from iggy_wire.cursor import Reader, pack, u32_bytes
from iggy_wire.reply_base import Reply
from iggy_wire.requests_waiting import PARTITIONS_MAX

_ROUTE: Final = Struct("<QQIIB")
_SECTION: Final = Struct("<IIQIQQQQI")

SECTION_BYTES: Final = _SECTION.size


class PartitionRoute(Reply, frozen=True, gc=False):
    """Where a partition is served: node `replica_id`, as of the change `metadata_op`."""

    incarnation: int
    metadata_op: int
    view: int
    partitions_count: int
    replica_id: int

    def encode(self) -> bytes:
        """25 bytes."""
        return pack(_ROUTE, "route", *msgspec.structs.astuple(self))

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        route = cls(*reader.unpack(_ROUTE, "route"))
        reader.finish("route")
        return route


class ReadyPartitions(Reply, frozen=True, gc=False):
    """The partitions that have messages; none when the wait is over."""

    partition_ids: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Count, numbers."""
        ids = b"".join(u32_bytes(one, "partition") for one in self.partition_ids)
        return u32_bytes(len(self.partition_ids), "partitions") + ids

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        count = _read_count(reader, 4)
        return cls(tuple(reader.u32("partition") for _ in range(count)))


class Section(msgspec.Struct, frozen=True, gc=False):
    """What a fetch found in one partition: `records_bytes` of batches, which follow all sections.

    A `status` that is not 0 is the error of this partition alone; it has no batches then.
    `next_offset` is where the next fetch of it starts.
    """

    partition_id: int
    status: int = 0
    current_offset: int = 0
    messages_count: int = 0
    incarnation: int = 0
    owner_generation: int = 0
    metadata_op: int = 0
    next_offset: int = 0
    records_bytes: int = 0

    def encode(self) -> bytes:
        """56 bytes."""
        return pack(_SECTION, "section", *msgspec.structs.astuple(self))


class Fetched(Reply, frozen=True, gc=False):
    """Messages of several partitions: `records` are the batches of all sections, not copied."""

    sections: tuple[Section, ...] = ()
    records: Buffer = b""

    def encode(self) -> bytes:
        """Sections behind their count, batches: copies those."""
        return sections_bytes(self.sections) + self.records

    @classmethod
    def _read(cls, reader: Reader) -> Self:
        count = _read_count(reader, SECTION_BYTES)
        sections = tuple(Section(*reader.unpack(_SECTION, "section")) for _ in range(count))
        records = reader.rest()
        for section in sections:
            if section.status and section.records_bytes:
                reader.fail(f"section of partition {section.partition_id}: an error has no batches")
        needed = sum(section.records_bytes for section in sections)
        if needed != len(records):
            reader.fail(f"batches: {needed} bytes announced, {len(records)} there")
        return cls(sections, records)


def sections_bytes(sections: Sequence[Section]) -> bytes:
    """All that stands before the batches of a fetch."""
    return u32_bytes(len(sections), "sections") + b"".join(one.encode() for one in sections)


def _read_count(reader: Reader, entry_bytes: int) -> int:
    count = reader.count("partitions", entry_bytes)
    if count > PARTITIONS_MAX:
        reader.fail(f"partitions: at most {PARTITIONS_MAX}, are {count}")
    return count
