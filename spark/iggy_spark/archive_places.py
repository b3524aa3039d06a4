"""Where the messages of a topic are: at its broker, in an archive, or in both.

What readers ask a `Connection` and `Topics` is answered here where there is an archive.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from iggy_client import Client
from iggy_spark import archive_plan, connections
from iggy_spark.archive_fetch import SegmentReader
from iggy_spark.archive_lives import ArchivedTopic, choose, latest
from iggy_spark.archive_options import ArchiveOptions
from iggy_spark.archive_store import Gone
from iggy_spark.archived import LOOK_S, Archive, archive_of
from iggy_spark.connections import Connection
from iggy_spark.errors import TopicRecreated
from iggy_spark.offsets import Kept, OffsetRange, TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.selection import TopicName
from iggy_wire.archive import Life
from iggy_wire.archive_listing import Listing, Partition, Segment
from iggy_wire.replies import PartitionInfo, TopicDetails

T = TypeVar("T")

_log = logging.getLogger(__name__)


class HeldPartition:
    """What the archive has of one life of a partition. For `SegmentReader.fetch`."""

    def __init__(self, archive: Archive, place: Partition, life: Life) -> None:
        """Asks nothing yet."""
        self._archive, self._place, self._life = archive, place, life

    def listing(self, *, again: bool = False) -> Listing:
        """Its segments."""
        return self._archive.listing(self._place, self._life, again=again)

    def at_offset(self, offset: int, *, again: bool = False) -> Segment | None:
        """See `Listing.at_offset`."""
        return self.listing(again=again).at_offset(offset)

    def offset_at_time(self, timestamp_us: int) -> int | None:
        """Of the first message that was taken at or after a time; None: there is none."""

        def look(found: Listing) -> int | None:
            reader, segment = SegmentReader(self._archive), found.at_time(timestamp_us)
            while segment is not None:
                offset = reader.offset_at_time(segment, timestamp_us)
                if offset is not None:
                    return offset
                segment = found.at_offset(segment.next_offset)  # it was cut
            return None

        return self._looking(look)

    def taken_us(self, offset: int) -> int | None:
        """When the broker took a message; None: it is not there."""

        def look(found: Listing) -> int | None:
            segment = found.at_offset(offset)
            if segment is None or segment.start_offset > offset:
                return None
            return SegmentReader(self._archive).taken_us(segment, offset)

        return self._looking(look)

    def message_bytes(self, offset: int) -> float | None:
        """Size of a message there, on average."""
        segment = self.at_offset(offset)
        return None if segment is None else segment.message_bytes

    def _looking(self, look: Callable[[Listing], T]) -> T:
        try:
            return look(self.listing())
        except Gone:
            return look(self.listing(again=True))


class ArchivedConnection(Connection):
    """A topic that is read from the archive alone."""

    def __init__(self, options: ReadOptions, given: ArchiveOptions) -> None:
        """Asks nothing yet."""
        super().__init__(options)
        self._given = given
        self._archive = archive_of(given, options.retry_timeout_ms)

    def topic(self, *, again: bool = False) -> ArchivedTopic:
        """The topic as the archive has it. `again`: as `Archive.listing`.

        Raises:
            BrokerRefused: there is none of that name, or not in that life.
        """
        (name,) = self._options.selection.topics
        found = self._archive.topics(again=again)
        return choose(found, name, self._given.life, str(self._archive))

    def held(self, partition: int) -> HeldPartition:
        """Of the topic."""
        topic = self.topic()
        return HeldPartition(self._archive, topic.place(partition), topic.partitions[partition])

    def planned(self, wanted: OffsetRange, *, again: bool = False) -> HeldPartition | None:
        """Of the topic, for a range of it; None: nothing. `again`: as `Archive.listing`.

        Raises:
            TopicRecreated: the range is of another one.
            BrokerRefused: as `topic`.
        """
        topic = self.topic(again=again)
        if topic.incarnation != wanted.incarnation:
            raise TopicRecreated(
                f"topic {self._options.topic_name} is {topic.incarnation} in the archive by now, "
                f"planned was {wanted.incarnation}: archive.incarnation chooses the earlier one"
            )
        return self.held(wanted.partition) if wanted.partition in topic.partitions else None

    def topic_state(self) -> TopicState:
        """See `Connection.topic_state`. Raises BrokerRefused, ArchiveUnreadable."""
        topic = self.topic()
        found = {number: self.held(number).listing() for number in topic.partitions}
        kept = {
            number: Kept(sum(s.next_offset - s.start_offset for s in one.segments), one.size_bytes)
            for number, one in found.items()
        }
        ends = {number: one.next_offset for number, one in found.items()}
        return TopicState(self._options.topic_name, topic.incarnation, ends, kept)

    def find_topic(self) -> TopicState | None:
        """See `Connection.find_topic`."""
        names = latest(self._archive.topics())
        return self.topic_state() if self._options.topic_name in names else None

    def earliest(self, partition: int) -> int | None:
        """See `Connection.earliest`."""
        found = self.held(partition).listing()
        return found.first_offset if found.segments else None

    def at_time(self, partition: int, timestamp_us: int) -> int | None:
        """See `Connection.at_time`."""
        return self.held(partition).offset_at_time(timestamp_us)

    def taken_us(self, partition: int, offset: int) -> int | None:
        """See `Connection.taken_us`."""
        return self.held(partition).taken_us(offset)

    def message_bytes(self, partition: int, offset: int, *, count: int) -> float | None:
        """See `Connection.message_bytes`; of the segment that has the offset."""
        return self.held(partition).message_bytes(offset)

    def split(self, wanted: OffsetRange) -> list[OffsetRange]:
        """The ranges of tasks for it: segments."""
        return _cut(self._archive, self.held(wanted.partition), wanted)


class JoinedConnection(Connection):
    """A topic of a broker whose older messages are in the archive."""

    def __init__(
        self,
        options: ReadOptions,
        given: ArchiveOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Asks nothing yet. `clock` in seconds."""
        super().__init__(options)
        self._given = given
        self._archive = archive_of(given, options.retry_timeout_ms)
        self._clock = clock
        self._seen_s: float | None = None
        self._held: dict[int, HeldPartition | None] = {}
        self._topic: ArchivedTopic | None = None
        self._infos: dict[int, PartitionInfo] = {}

    def held(self, partition: int, *, again: bool = False) -> HeldPartition | None:
        """What the archive has of it; None: nothing. `again`: as `Archive.listing`.

        Raises:
            BrokerRefused, BrokerUnavailable: as `topic_state`.
            ArchiveUnreadable: the archive does not say.
        """
        now = self._clock()
        if again or self._seen_s is None or now - self._seen_s >= LOOK_S:
            self._look(again=again)
            self._held, self._seen_s = {}, now
        if partition not in self._held:
            self._held[partition] = self._found(partition)
        return self._held[partition]

    def split(self, wanted: OffsetRange) -> list[OffsetRange]:
        """The ranges of tasks for it: segments, and the broker's own messages."""
        held = self.held(wanted.partition)
        info = self._infos.get(wanted.partition)
        local = wanted.end if info is None else min(wanted.end, _local(info))
        if held is None or local <= wanted.first:
            return [wanted]
        older = _cut(self._archive, held, replace(wanted, end=local))
        return older if local == wanted.end else [*older, replace(wanted, first=local)]

    def earliest(self, partition: int) -> int | None:
        """See `Connection.earliest`: the older of both."""
        archived = self._archived(partition, _earliest)
        if self._is_older(partition, archived):
            return archived
        return _older(super().earliest(partition), archived)

    def at_time(self, partition: int, timestamp_us: int) -> int | None:
        """See `Connection.at_time`: the older of both."""
        archived = self._archived(partition, lambda held: held.offset_at_time(timestamp_us))
        if self._is_older(partition, archived):
            return archived
        return _older(super().at_time(partition, timestamp_us), archived)

    def taken_us(self, partition: int, offset: int) -> int | None:
        """See `Connection.taken_us`."""
        found = None
        if self._is_older(partition, offset):
            found = self._archived(partition, lambda held: held.taken_us(offset))
        return super().taken_us(partition, offset) if found is None else found

    def _is_older(self, partition: int, offset: int | None) -> bool:
        """Whether a message is below the broker's own, who needs not be asked for it."""
        self.held(partition)  # looks
        info = self._infos.get(partition)
        return offset is not None and info is not None and offset < _local(info)

    def message_bytes(self, partition: int, offset: int, *, count: int) -> float | None:
        """See `Connection.message_bytes`; of the archived segment if there is one."""
        found = self._archived(partition, lambda held: held.message_bytes(offset))
        return super().message_bytes(partition, offset, count=count) if found is None else found

    def _archived(self, partition: int, ask: Callable[[HeldPartition], T | None]) -> T | None:
        held = self.held(partition)
        return None if held is None else ask(held)

    def _look(self, *, again: bool) -> None:
        options, life = self._options, self._given.life
        found = self.call(lambda client: _numbered(client, options.stream, options.topic))
        self._topic, self._infos = None, {}
        if found is None:
            return
        stream_id, details = found
        self._infos = {info.id: info for info in details.partitions}
        topics = self._archive.topics((stream_id, details.topic.id), again=again)
        if life is not None:
            (name,) = options.selection.topics
            self._topic = choose(topics, name, life, str(self._archive))
        elif topics:
            self._topic = max(topics, key=lambda topic: topic.life)

    def _found(self, partition: int) -> HeldPartition | None:
        topic, info = self._topic, self._infos.get(partition)
        if topic is None or info is None or partition not in topic.partitions:
            return None
        place, life = topic.place(partition), topic.partitions[partition]
        held = HeldPartition(self._archive, place, life)
        if self._given.life is not None or self._is_same(held.listing(), info):
            return held
        _log.warning(
            "%s: what the %s has of partition %d is of an earlier topic, and left out: "
            "archive.incarnation=%s takes it",
            self._options.topic_name, self._archive, partition, topic.life.suffix,
        )  # fmt: skip
        return None

    def _is_same(self, listing: Listing, info: PartitionInfo) -> bool:
        """Whether the archive's messages are the broker's: its newest life may be an earlier one.

        Where both have a message, its time tells. Else the archive's are not older than the
        partition.
        """
        local = range(_local(info), info.current_offset + 1)
        for segment in listing.segments:
            if segment.first_offset == segment.start_offset and segment.first_offset in local:
                taken_us = super().taken_us(info.id, segment.first_offset)
                return taken_us == segment.first_timestamp_us
        first = listing.segments[0] if listing.segments else None
        return first is None or first.first_timestamp_us >= info.created_at_us


def _local(info: PartitionInfo) -> int:
    """Offset of the first message that the broker itself has; its end if it has none."""
    if not info.messages_count:
        return info.current_offset + 1 if info.current_offset else 0
    return info.current_offset + 1 - info.messages_count


def _cut(archive: Archive, held: HeldPartition, wanted: OffsetRange) -> list[OffsetRange]:
    try:
        return archive_plan.cut(wanted, held.listing().segments, archive.index)
    except Gone:
        return archive_plan.cut(wanted, held.listing(again=True).segments, archive.index)


def _earliest(held: HeldPartition) -> int | None:
    found = held.listing()
    return found.first_offset if found.segments else None


def _older(one: int | None, other: int | None) -> int | None:
    return min((offset for offset in (one, other) if offset is not None), default=None)


def _numbered(client: Client, stream: str, topic: str) -> tuple[int, TopicDetails] | None:
    """Number of a stream, and a topic of it; None: there is none."""
    found, details = client.get_stream(stream), client.get_topic(stream, topic)
    return None if found is None or details is None else (found.stream.id, details)


def connection(options: ReadOptions) -> Connection:
    """For questions about the topic of these options."""
    if options.archive is None:
        return Connection(options)
    if options.archive.is_all:
        return ArchivedConnection(options, options.archive)
    return JoinedConnection(options, options.archive)


def topic_names(options: ReadOptions) -> list[TopicName]:
    """All topics that there are. Raises as `connections.topic_names`, ArchiveUnreadable."""
    if options.has_broker or options.archive is None:
        return connections.topic_names(options)
    archive = archive_of(options.archive, options.retry_timeout_ms)
    return [topic.name for topic in latest(archive.topics()).values()]


def split(connection: Connection, wanted: OffsetRange) -> list[OffsetRange]:
    """The ranges of tasks for a range of the connection's topic."""
    if isinstance(connection, ArchivedConnection | JoinedConnection):
        return connection.split(wanted)
    return [wanted]
