"""What must hold, told by what clients sent, were answered, and read. Knows nothing of files.

1. Acknowledged is kept: through a kill always; through a power cut when the topic is persisted.
2. Offsets are dense, and an offset that somebody saw is never given to other bytes.
3. What is polled is what was sent. 4. Recovery invents nothing, and nothing that was refused or
lost comes back. 5. Stored offsets never pass the end, and are what was stored.
6. Metadata that was answered is there, on every shard.

After a power cut, a partition that is not persisted may have lost its end: what was seen there is
then forgotten, but only beyond what an earlier recovery already had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iggy_wire.batch import Message, messages

ABSENT = -1  # in a set of candidates: no offset is stored

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
    floor: int = 0  # messages below survive anything
    damaged: bool = False  # rot was put into its log
    purging: bool = False  # a purge that was not answered
    stored: dict[int, set[int]] = field(default_factory=dict)  # by consumer, candidates
    kept: dict[int, set[int]] = field(default_factory=dict)  # the same, through a power cut
    late: dict[int, set[int]] = field(default_factory=dict)  # not answered: may be done later


class Oracle:
    """Told of everything that clients do; raises `ViolationError`."""

    def __init__(self) -> None:
        self.partitions: dict[Key, Partition] = {}
        self.sent: dict[bytes, Sent] = {}
        self.streams: dict[str, bool | None] = {}  # name → there, not there, not known
        self.counts: dict[str, int] = {}
        self._numbers = 0

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

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
        offset = start
        if partition is None:
            return offset
        for message in messages(region):
            if message.offset != offset:
                raise ViolationError(f"{key}: offset {message.offset} where {offset} was due")
            self._bind(partition, offset, message.payload, "polled")
            if message.id != self.sent[message.payload].number:
                raise ViolationError(f"{key}: offset {offset} has another message's id")
            offset += 1
        if offset == start < needed_end and not (partition.damaged or partition.purging):
            raise ViolationError(f"{key}: nothing at {start}, acknowledged up to {needed_end}")
        if offset > start and current_offset < offset - 1:
            raise ViolationError(f"{key}: current offset {current_offset}, read {offset - 1}")
        if partition.persisted:
            partition.floor = max(partition.floor, offset)
        return offset

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
        partition.open.pop(sent.number, None)

    # a restart

    def restarted(
        self, key: Key, found: list[Message], *, power_cut: bool, synced_at_start: bool
    ) -> None:
        """All that a partition has, read before any client is let in."""
        partition = self.partitions[key]
        end = len(found)
        partition = self._settle_purge(partition, found)
        if partition.damaged:
            self._forget(partition, end, "its partition rotted")
            return
        if not partition.persisted and power_cut:
            if end < partition.floor:
                raise ViolationError(f"{key}: ends at {end}, had {partition.floor} on the disk")
            self._forget(partition, end, "a power cut took it")
        self._compare(partition, found)
        for sent in partition.open.values():
            sent.gone = "it was not there after a restart"
        partition.open.clear()
        partition.late.clear()
        partition.acked_end = end
        if partition.persisted or synced_at_start:
            partition.floor = end
        if power_cut:
            self._offsets_after_power_cut(partition)

    def _compare(self, partition: Partition, found: list[Message]) -> None:
        """Nothing is missing, and nothing is there that was not sent."""
        key, end = partition.key, len(found)
        for place, message in enumerate(found):
            if message.offset != place:
                raise ViolationError(f"{key}: offset {message.offset} where {place} was due")
            self._bind(partition, place, message.payload, "recovered")
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
            key, partition.persisted, partition.offsets_persisted, damaged=partition.damaged
        )

    # consumer offsets

    def storing(self, key: Key, consumer: int, offset: int) -> None:
        """A store is on its way: it may be done or not."""
        if (partition := self.partitions.get(key)) is not None:
            for candidates in (partition.stored, partition.kept):
                candidates.setdefault(consumer, {ABSENT}).add(offset)

    def stored(self, key: Key, consumer: int, offset: int) -> None:
        if (partition := self.partitions.get(key)) is not None:
            late = partition.late.get(consumer, set())
            partition.stored[consumer] = {offset} | late
            partition.kept[consumer] = {offset} | late

    def unanswered(self, key: Key, consumer: int, offset: int) -> None:
        """A store was cut off. Until a restart it may still happen, also after later ones."""
        if (partition := self.partitions.get(key)) is not None:
            partition.late.setdefault(consumer, set()).add(offset)

    def committing(self, key: Key, consumer: int, last: int | None) -> None:
        """A poll with auto-commit. `last` None: its answer never came, it may have read any end."""
        partition = self.partitions.get(key)
        if partition is None:
            return
        late = partition.late.setdefault(consumer, set())
        ends = range(len(partition.bound) + len(partition.open) + 1)
        if last is None:
            late.update(ends)
        for candidates in (partition.stored, partition.kept):
            if last is None:
                candidates[consumer] = candidates.get(consumer, {ABSENT}) | set(ends)
            else:
                candidates[consumer] = {last} | late  # the poll began behind what was stored

    def offset_read(self, key: Key, consumer: int, found: tuple[int, int] | None) -> None:
        """(stored, current) as the broker says, None if nothing is stored."""
        partition = self.partitions.get(key)
        if partition is None:
            return
        stored = ABSENT if found is None else found[0]
        if found is not None and found[0] > found[1]:
            raise ViolationError(f"{key}: stored offset {found[0]} beyond the end {found[1]}")
        candidates = partition.stored.get(consumer, {ABSENT})
        if stored not in candidates and not partition.damaged:
            wanted = sorted(candidates)[:6]
            raise ViolationError(f"{key}: consumer {consumer} has {stored}, stored was {wanted}")
        partition.stored[consumer] = {stored} | partition.late.get(consumer, set())

    def _offsets_after_power_cut(self, partition: Partition) -> None:
        if partition.offsets_persisted and partition.persisted:
            partition.stored = {one: set(kept) for one, kept in partition.kept.items()}
            return
        anything = {ABSENT, *range(partition.acked_end + 1)}
        for consumer in partition.stored:
            partition.stored[consumer] = set(anything)
            partition.kept[consumer] = set(anything)

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
