"""What must hold, told by what clients sent, were answered, and read. Knows nothing of files.

1. Acknowledged is kept: through a kill always; through a power cut when the topic is persisted.
2. Offsets are dense, and an offset that somebody saw is never given to other bytes.
3. What is polled is what was sent. 4. Recovery invents nothing, and nothing that was refused or
lost comes back. 5. Stored offsets never pass the end, and are what was stored. 6. Metadata that was
answered is there, on every shard. 7. Only what was asked for, or is old
where old messages go, and was passed by all readers, is deleted.

After a power cut, a partition that is not persisted may have lost its end: what was seen there is
then forgotten, but only beyond what an earlier recovery already had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iggy_wire.batch import Message, messages
from simulation.stored import ABSENT, Doing, Head, Reader, Stored

Key = tuple[str, str, int]  # stream, topic, partition


class ViolationError(AssertionError):
    """The broker broke a promise."""


@dataclass
class Sent:
    """One message, as some client made it."""

    number: int
    key: Key
    payload: bytes
    offset: int | None = None  # where somebody saw it
    gone: str = ""  # why it must not be seen any more


@dataclass
class Partition:
    """What is known of one partition."""

    key: Key
    persisted: bool
    offsets_persisted: bool = False
    bound: dict[int, Sent] = field(default_factory=dict)
    open: dict[int, Sent] = field(default_factory=dict)  # sent, not answered
    acked_end: int = 0
    seen_end: int = 0  # somebody saw an offset below
    floor: int = 0  # messages below survive anything
    damaged: bool = False  # rot was put into its log
    purging: bool = False  # a purge that was not answered
    aged: bool = False  # old messages go by themselves
    kept: bool = False  # what goes can still be read, in an archive
    stored: Stored = field(default_factory=Stored)
    head: Head = field(init=False)

    def __post_init__(self) -> None:
        self.head = Head(aged=self.aged, kept=self.kept)

    @property
    def end_at_most(self) -> int:
        """Where the log may end by now."""
        return self.seen_end + len(self.open)

    def moved(self) -> None:
        """An offset was stored or a deletion asked for: more of the head may go."""
        self.head.advance(self.stored, self.end_at_most)


class Oracle:
    """Told of everything that clients do; raises `ViolationError`."""

    def __init__(self) -> None:
        self.partitions: dict[Key, Partition] = {}
        self.sent: dict[bytes, Sent] = {}
        self.streams: dict[str, bool | None] = {}  # name → there, not there, not known
        self.groups: dict[tuple[str, str], bool | None] = {}  # (topic, name) of the main stream
        self.counts: dict[str, int] = {}
        self.kept = False  # all that goes is in an archive
        self.gaps = False  # some of it is
        self._numbers = 0

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def of_topic(self, stream: str, topic: str) -> list[Key]:
        """The partitions of a topic."""
        return [key for key in self.partitions if key[:2] == (stream, topic)]

    def make(self, key: Key, size_bytes: int) -> Message:
        """A message that differs from all others; sent as soon as `sending` is told."""
        self._numbers += 1
        head = f"{self._numbers:010d} ".encode()
        filler = f"{self._numbers * 2654435761 % (1 << 32):08x}".encode()
        payload = (head + filler * (size_bytes // 8 + 1))[: max(size_bytes, len(head))]
        self.sent[payload] = Sent(self._numbers, key, payload)
        return Message(payload, id=self._numbers)

    def sending(self, key: Key, batch: Iterable[Message]) -> None:
        partition = self.partitions[key]
        for message in batch:
            sent = self.sent[message.payload]
            partition.open[sent.number] = sent
        partition.moved()

    def acknowledged(self, key: Key, batch: list[Message], base_offset: int) -> None:
        partition = self.partitions.get(key)
        if partition is None:
            return  # deleted meanwhile
        for place, message in enumerate(batch):
            self._bind(partition, base_offset + place, message.payload, "acknowledged")
        partition.acked_end = max(partition.acked_end, base_offset + len(batch))
        if partition.persisted:
            partition.floor = partition.acked_end

    def refused(self, key: Key, batch: Iterable[Message]) -> None:
        partition = self.partitions.get(key)
        for message in batch:
            sent = self.sent[message.payload]
            if sent.offset is not None:
                raise ViolationError(
                    f"{key}: refused, and yet read at {sent.offset}: {sent.number}"
                )
            sent.gone = "it was refused"
            if partition is not None:
                partition.open.pop(sent.number, None)

    # reads

    def polled(
        self, key: Key, start: int, region: bytes, *, needed_end: int, current_offset: int
    ) -> int:
        """A poll from offset `start`, when `needed_end` was acknowledged before it began."""
        partition = self.partitions.get(key)
        found = list(messages(region))
        if partition is None:
            return start
        if found and found[0].offset > start:
            self._head_seen(partition, found[0].offset)
            start = found[0].offset
        offset = start
        for message in found:
            offset = self._bind_next(partition, offset, message, "polled")
        if not found:
            self._nothing_found(partition, start, needed_end)
        if offset > start and current_offset < offset - 1:
            raise ViolationError(f"{key}: current offset {current_offset}, read {offset - 1}")
        if partition.persisted:
            partition.floor = max(partition.floor, offset)
        return offset

    def _nothing_found(self, partition: Partition, start: int, needed_end: int) -> None:
        excused = partition.damaged or partition.purging or partition.head.allowed >= needed_end
        if start < needed_end and not excused:
            told = f"{partition.key}: nothing at {start}, acknowledged up to {needed_end}"
            raise ViolationError(told)

    def _head_seen(self, partition: Partition, first: int) -> None:
        """The log begins at `first`: what is missing before it was asked for, and passed by all."""
        allowed, key = partition.head.allowed, partition.key
        if first > allowed and not (partition.damaged or partition.purging):
            raise ViolationError(f"{key}: begins at {first}, may be deleted up to {allowed}")

    def _bind_next(self, partition: Partition, offset: int, message: Message, how: str) -> int:
        """The next offset."""
        key = partition.key
        if message.offset != offset and not self._is_gap(partition, offset, message.offset):
            raise ViolationError(f"{key}: offset {message.offset} where {offset} was due")
        self._bind(partition, message.offset, message.payload, how)
        if message.id != self.sent[message.payload].number:
            raise ViolationError(f"{key}: offset {message.offset} has another message's id")
        return message.offset + 1

    def _is_gap(self, partition: Partition, offset: int, found: int) -> bool:
        """Of what went without a copy, between what the archive has."""
        return self.gaps and offset < found <= partition.head.allowed

    def _bind(self, partition: Partition, offset: int, payload: bytes, how: str) -> None:
        key = partition.key
        sent = self.sent.get(payload)
        if sent is None or sent.key != key:
            raise ViolationError(f"{key}: {how} at {offset}: {payload[:40]!r} was never sent there")
        if partition.damaged:
            return  # whatever of it is left may be anywhere behind the damage
        if sent.gone:
            raise ViolationError(f"{key}: {how} at {offset}: {sent.number}, but {sent.gone}")
        if sent.offset not in (None, offset):
            detail = f"{sent.number} was at {sent.offset}"
            raise ViolationError(f"{key}: {how} at {offset}: {detail}")
        before = partition.bound.get(offset)
        if before is not None and before is not sent:
            detail = f"{before.number} was there, now {sent.number}"
            raise ViolationError(f"{key}: {how} at {offset}: the offset is used again: {detail}")
        sent.offset = offset
        partition.bound[offset] = sent
        partition.seen_end = max(partition.seen_end, offset + 1)
        partition.open.pop(sent.number, None)

    # a restart

    def restarted(
        self, key: Key, found: list[Message], end: int, *, power_cut: bool, synced_at_start: bool
    ) -> None:
        """All that a partition has, read before any client is let in; it ends at `end`."""
        partition = self._settle_purge(self.partitions[key], found)
        partition.stored.restarted()
        if power_cut:
            durable = partition.offsets_persisted and partition.persisted
            partition.stored.after_power_cut(durable=durable, end=end)
        partition.head.restarted(end)
        partition.head.advance(partition.stored, end)  # what waited may go since the start
        if partition.damaged:
            self._forget(partition, end, "its partition rotted")
            partition.seen_end = end
            return
        if not partition.persisted and power_cut:
            if end < partition.floor:
                raise ViolationError(f"{key}: ends at {end}, had {partition.floor} on the disk")
            self._forget(partition, end, "a power cut took it")
        self._compare(partition, found, end)
        for sent in partition.open.values():
            sent.gone = "it was not there after a restart"
        partition.open.clear()
        partition.acked_end = partition.seen_end = end
        if partition.persisted or synced_at_start:
            partition.floor = end

    def _compare(self, partition: Partition, found: list[Message], end: int) -> None:
        """Nothing is missing, and nothing is there that was not sent."""
        key, first = partition.key, found[0].offset if found else end
        self._head_seen(partition, first)
        reached = first
        for message in found:
            reached = self._bind_next(partition, reached, message, "recovered")
        if reached != end and not self._is_gap(partition, reached, end):
            raise ViolationError(f"{key}: read up to {reached}, ends at {end}")
        lost = [offset for offset in partition.bound if offset >= end]
        if lost:
            raise ViolationError(f"{key}: ends at {end}, but {min(lost)} to {max(lost)} were seen")

    def _settle_purge(self, partition: Partition, found: list[Message]) -> Partition:
        """A purge that was not answered was done, or it was not."""
        if partition.purging and self._was_purged(partition, found):
            self.purged(partition.key)
        partition.purging = False
        return self.partitions[partition.key]

    def _was_purged(self, partition: Partition, found: list[Message]) -> bool:
        first = partition.bound.get(0)
        return first is not None and (not found or found[0].payload != first.payload)

    def _forget(self, partition: Partition, end: int, why: str) -> None:
        for offset in [offset for offset in partition.bound if offset >= end]:
            partition.bound.pop(offset).gone = why
        partition.acked_end = min(partition.acked_end, end)

    def purged(self, key: Key) -> None:
        partition = self.partitions[key]
        for sent in (*partition.bound.values(), *partition.open.values()):
            sent.gone = "it was purged"
        self.partitions[key] = Partition(
            key,
            partition.persisted,
            partition.offsets_persisted,
            damaged=partition.damaged,
            aged=partition.aged,
            kept=partition.kept,
        )

    # stored offsets

    def storing(self, key: Key, reader: Reader, offset: int) -> Doing:
        """A store (ABSENT: its deletion) is on its way: it may be done or not."""
        return self._begun(key, reader, offset, blind=False)

    def committing(self, key: Key, reader: Reader) -> Doing:
        """A poll with auto-commit is on its way."""
        return self._begun(key, reader, None, blind=True)

    def reading(self, key: Key, reader: Reader) -> Doing:
        """Somebody asks what is stored."""
        return self._begun(key, reader, None, blind=False)

    def _begun(self, key: Key, reader: Reader, offset: int | None, *, blind: bool) -> Doing:
        partition = self.partitions.get(key)
        if partition is None:
            return Doing(reader)
        doing = partition.stored.begin(reader, offset, blind=blind)
        partition.moved()
        return doing

    def stored(self, key: Key, doing: Doing, offset: int | None) -> None:
        """It was answered; None: nothing was stored."""
        if (partition := self.partitions.get(key)) is None:
            return
        if offset is None:
            partition.stored.refused(doing)
        else:
            partition.stored.stored(doing, offset)
        partition.moved()

    def cut_off(self, key: Key, doing: Doing) -> None:
        """The answer never came. Until a restart it may still happen, also after later ones."""
        if (partition := self.partitions.get(key)) is not None:
            partition.stored.cut_off(doing, {ABSENT, *range(partition.end_at_most + 1)})
            partition.moved()

    def offset_read(self, key: Key, doing: Doing, found: tuple[int, int] | None) -> None:
        """(stored, current) as the broker says, None if nothing is stored."""
        if (partition := self.partitions.get(key)) is None:
            return
        offset = ABSENT if found is None else found[0]
        if found is not None and found[0] > found[1]:
            raise ViolationError(f"{key}: stored offset {found[0]} beyond the end {found[1]}")
        wanted = sorted(partition.stored.of(doing.reader))[:6]
        if not partition.stored.read(doing, offset) and not partition.damaged:
            raise ViolationError(f"{key}: {doing.reader} has {offset}, stored was {wanted}")

    # deletion of the oldest segments

    def trimming(self, key: Key) -> None:
        if (partition := self.partitions.get(key)) is not None:
            partition.head.asking()
            partition.moved()

    def trimmed(self, key: Key, *, answered: bool) -> None:
        if (partition := self.partitions.get(key)) is not None:
            partition.head.asked(partition.end_at_most, answered=answered)
            partition.moved()

    # metadata

    def stream_seen(self, names: set[str], known: dict[str, bool | None]) -> None:
        """A list of streams, when `known` was known before it was asked for."""
        for name, there in known.items():
            if self.streams.get(name) is not there:
                continue  # a change is on its way
            if there is True and name not in names:
                raise ViolationError(f"stream {name} was made, and is missing")
            if there is False and name in names:
                raise ViolationError(f"stream {name} was deleted, and is there")
        for name in names:
            if name not in self.streams:
                raise ViolationError(f"stream {name} was invented")

    def streams_settled(self, names: set[str]) -> None:
        """The list after a restart: what was open is decided."""
        self.stream_seen(names, dict(self.streams))
        for name in self.streams:
            self.streams[name] = name in names

    def groups_settled(self, topic: str, found: dict[str, int]) -> None:
        """The groups of a topic after a restart, by name, with how many members they have."""
        for (of, name), there in self.groups.items():
            if of == topic and there is not None and there is not (name in found):
                told = "was made, and is missing" if there else "was deleted, and is there"
                raise ViolationError(f"group {name} of {topic} {told}")
        for name, members_count in found.items():
            if (topic, name) not in self.groups:
                raise ViolationError(f"group {name} of {topic} was invented")
            if members_count:
                raise ViolationError(f"group {name} of {topic} has members after a restart")
        for of, name in self.groups:
            if of == topic:
                self.groups[of, name] = name in found
