"""The archiver of one shard: what is copied when, and what happens when that fails.

A lane for sealed segments, and (with continuous) some for what is written now, so that no large
copy keeps the newest messages waiting, and several partitions are copied at once; metadata and
stored offsets go with the latter. A partition is in one lane for tails at a time, and no segment in
two lanes: a sealed one whose pieces lack their end is that of the tails, until they are whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from iggy_broker.archive.copies import Copies, active_extent, life_of, whole
from iggy_broker.archive.copying import Copied, Vanished, Where, copy_sealed, copy_tail
from iggy_broker.archive.finding import Asked, find
from iggy_broker.archive.ownership import Ownership
from iggy_broker.archive.patience import Patience
from iggy_broker.archive.plan import Extent, archived_end
from iggy_broker.archive.standing import Standing
from iggy_broker.archive.state_copies import StateCopies
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.config_sections import Config
from iggy_broker.logs import event
from iggy_broker.metadata.model import State
from iggy_broker.metadata.placement import unpack
from iggy_broker.metrics import Counters
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.gate import EVERYTHING
from iggy_broker.storage.partition import Partition, StorageParts
from iggy_wire.archive import METADATA_KEY, Life

LOOK_S: Final = 1.0
"""How soon a segment is seen that is to be copied."""

BETWEEN_TURNS: Final = 64
"""Partitions that are looked at before others are served."""

T = TypeVar("T")

_METADATA: Final = -1  # in place of a packed name
_NOTHING: Final = Copies(Life(0, 0))

logger = logging.getLogger(__name__)


class Lane(Protocol):
    """Where blocking work is done, one piece at a time."""

    async def run(self, work: Callable[[ArchiveStore, Disk], T]) -> T:
        """Do it; what it returns or raises."""


Step = Callable[[int, Partition, Lane], Awaitable[bool]]


class Archiver:
    """Of one shard. Its partitions are read in the loop, their files in the lanes."""

    def __init__(
        self,
        config: Config,
        *,
        state: Callable[[], State],
        partitions: Mapping[int, Partition],
        parts: StorageParts,
        lanes: tuple[Lane, Sequence[Lane]],
        counters: Counters,
    ) -> None:
        """`partitions` are those of the shard, by packed name; `lanes`: for sealed, for tails."""
        self._maintenance = maintenance = config.data_maintenance
        self._settings = maintenance.archiver
        self._state = state
        self._partitions = partitions
        self._clock = parts.clock
        self._gate = parts.gate
        self._lane, self._tail_lanes = lanes
        self._counters = counters
        self._copies: dict[int, Copies] = {}
        self._patience = Patience()
        self._tail_patience = Patience()
        self._state_patience = Patience()
        self._ownership = Ownership(str(config.system.path), parts.clock)
        self._state_copies = StateCopies(
            maintenance.state,
            state=state,
            look=lambda packed, partition: self._look(packed, partition, self._tail_lanes[0]),
            run=self._tail_lanes[0].run,
            ownership=self._ownership,
            clock=parts.clock,
        )
        self._standing = Standing(
            str(config.system.path),
            abandoned=self._settings.abandoned,
            lane=self._lane,
            clock=parts.clock,
            gate=parts.gate,
            counters=counters,
        )
        self._whole_at_s = self._now_s()
        """What came from the start on, and before that, is in the archive."""
        if self._settings.continuous:
            counters.looks.append(self._note_age)

    async def run(self, *, is_first: bool) -> None:
        """Until cancelled. The first shard tidies up what an earlier run left, before all copy."""
        self._standing.is_first = is_first
        await self._standing.settle()
        interval_s = self._settings.interval_us / 1_000_000
        lanes = [self._repeat(self._sealed_until_done, min(LOOK_S, interval_s))]
        if self._settings.continuous:
            lanes.append(self._repeat(self.tails_pass, interval_s))
        if self._maintenance.state.archiver_enabled:
            state_s = self._maintenance.state_interval_us / 1_000_000
            lanes.append(self._repeat(self.state_pass, state_s))
        if is_first:
            lanes.append(self._standing.watch(interval_s))
        await asyncio.gather(*lanes)

    async def sealed_pass(self) -> bool:
        """One segment of each partition that has any to copy; whether there was one."""
        partitions = self._partitions
        for packed in self._copies.keys() - partitions.keys():
            del self._copies[packed]
        self._patience.keep(set(partitions))
        self._gate.keep(partition.place for partition in partitions.values())
        worked = await self._each(self._copy_sealed, self._patience, [self._lane])
        self._counters.archiver_pending_segments = sum(
            (self._copies.get(packed) or _NOTHING).pending(one.log, self._wanted(one))
            for packed, one in partitions.items()
        )
        return worked

    async def tails_pass(self) -> None:
        """What was written since the last pass, of each partition."""
        began_s = self._now_s()
        self._tail_patience.keep(set(self._partitions))
        await self._each(self._copy_tails, self._tail_patience, self._tail_lanes)
        self._counters.archiver_pass_seconds = int((self._now_s() - began_s) * 1_000_000)
        if not self._tail_patience.is_failing and all(
            partition.fenced or (self._copies.get(packed) or _NOTHING).is_whole(partition.log)
            for packed, partition in self._partitions.items()
        ):
            self._whole_at_s = began_s
        self._note_age()

    async def state_pass(self) -> None:
        """Metadata, if this is the first shard, and stored offsets, as far as they have changed."""
        self._state_patience.keep({_METADATA, *self._partitions})
        if self._standing.is_first and self._state_patience.may(_METADATA, self._now_s()):
            work = self._state_copies.copy_metadata()
            await self._try(_METADATA, METADATA_KEY, self._counted(work), self._state_patience)
        await self._each(self._copy_offsets, self._state_patience, self._tail_lanes[:1])

    # -- passes --------------------------------------------------------------------------------

    async def _sealed_until_done(self) -> None:
        while await self.sealed_pass():
            pass

    async def _repeat(self, step: Callable[[], Awaitable[None]], interval_s: float) -> None:
        while True:
            began_s = self._now_s()
            if self._standing.may_copy:
                await step()
            else:  # who has it may write to it: what we knew of it counts no more
                self._copies.clear()
                self._state_copies.forget()
                self._note_health()
            await asyncio.sleep(max(interval_s - (self._now_s() - began_s), interval_s / 10))

    async def _each(self, step: Step, patience: Patience, lanes: Sequence[Lane]) -> bool:
        """A step of each partition whose turn it is; whether any had something to do."""
        patience.rest()
        left = iter(list(self._partitions))
        worked = await asyncio.gather(*(self._some(left, step, patience, one) for one in lanes))
        self._note_health()
        return any(worked)

    async def _some(self, left: Iterator[int], step: Step, patience: Patience, lane: Lane) -> bool:
        """Of those that are left, the next whenever the lane is free."""
        worked = False
        for number, packed in enumerate(left):
            if number % BETWEEN_TURNS == 0:
                await asyncio.sleep(0)  # others are served, however many partitions there are
            partition = self._partitions.get(packed)
            if partition is None or partition.fenced or not patience.may(packed, self._now_s()):
                continue
            work = step(packed, partition, lane)
            worked |= await self._try(packed, partition.place.folder, work, patience)
            if patience.is_exhausted:
                break
        return worked

    async def _try(self, packed: int, what: str, work: Awaitable[bool], patience: Patience) -> bool:
        try:
            worked = await work
        except Vanished as gone:
            self._counters.archiver_vanished_total += 1
            told = event("segment_vanished", folder=what)
            logger.debug("= %s", gone, extra=told)
            return False
        except (ArchiveError, OSError) as error:
            patience.failed(packed, self._now_s())
            self._counters.archiver_failures_total += 1
            self._tell_failed(what, error)
            return False
        if patience.good(packed):
            told = event("archive_works", folder=what)
            logger.info("= %s: copied again", what, extra=told)
        return worked

    # -- steps ---------------------------------------------------------------------------------

    async def _copy_sealed(self, packed: int, partition: Partition, lane: Lane) -> bool:
        if not partition.log.segments[:-1] or not self._wanted(partition):
            return False
        copies = await self._look(packed, partition, lane)
        segment = copies.due(partition.log, self._wanted(partition)) if copies else None
        where = self._where(packed, partition, copies) if copies and segment else None
        if copies is None or segment is None or where is None:
            return False
        first = segment.first_offset
        work = partial(copy_sealed, where=where, extent=segment, now_us=self._clock.now_us())
        copies.in_sealed_lane = first
        try:
            copied = await lane.run(work)
            # What has a copy may be removed: was that in our archive, or in a folder under it?
            await self._standing.look()
        except Vanished:
            copies.vanished.add(first)
            raise
        finally:
            copies.in_sealed_lane = None
        copies.archived[first] = segment.next_offset
        copies.tails.pop(first, None)
        self._open_gate(partition, copies)
        self._count(copied)
        self._counters.archiver_segments_total += 1
        told = event("segment_archived", folder=where.disk_folder, first_offset=first)
        logger.info("= %s: segment %d is archived", where.disk_folder, first, extra=told)
        return True

    async def _copy_tails(self, packed: int, partition: Partition, lane: Lane) -> bool:
        log = partition.log
        if not log.segments or (len(log.segments) == 1 and not log.segments[0].size_bytes):
            return False
        if log.unsynced_bytes:  # only what a power cut cannot take is copied
            # A sync that runs already may have begun before the last messages came.
            await (partition.save() or partition.wait_durable())
        copies = await self._look(packed, partition, lane)
        if copies is None:
            return False
        done: set[int] = set()
        while (extent := copies.tail_due(partition.log, done)) is not None:
            where = self._where(packed, partition, copies)
            if where is None:
                break
            done.add(extent.first_offset)
            await self._copy_tail(copies, where, extent, lane)
        return bool(done)

    async def _copy_tail(self, copies: Copies, where: Where, extent: Extent, lane: Lane) -> None:
        first, now_us = extent.first_offset, self._clock.now_us()
        tail = copies.tails.get(first)
        work = partial(copy_tail, where=where, extent=extent, tail=tail, now_us=now_us)
        copies.in_tail_lane = first
        try:
            copies.tails[first], copied = await lane.run(work)
        except Vanished:
            copies.vanished.add(first)
            raise
        finally:
            copies.in_tail_lane = None
        self._count(copied)

    async def _copy_offsets(self, packed: int, partition: Partition, lane: Lane) -> bool:
        del lane  # `StateCopies` has its own
        return await self._counted(self._state_copies.copy_offsets(packed, partition))

    async def _counted(self, work: Awaitable[Copied | None]) -> bool:
        copied = await work
        if copied is not None:
            self._count(copied)
        return copied is not None

    async def _look(self, packed: int, partition: Partition, lane: Lane) -> Copies | None:
        """What the archive has of a partition; it is asked once for each life. None: it is gone."""
        life = life_of(partition)
        copies = self._copies.get(packed)
        if copies is None or copies.life != life:
            copies = self._copies[packed] = Copies(life)
        async with copies.looking:
            if not copies.folder:
                asked = self._asked(packed, partition)
                if asked is None:
                    return None
                look = partial(find, asked=asked, ownership=self._ownership)
                found = await lane.run(look)
                copies.owner_id, copies.generation = found.owner_id, found.generation
                copies.begin = found.begin
                copies.archived = found.archived
                copies.has_offsets = found.has_offsets
                copies.tails = {found.tail.extent.first_offset: found.tail} if found.tail else {}
                copies.folder = found.folder
                self._open_gate(partition, copies)
        return copies if life_of(partition) == life else None

    # -- what is to be done --------------------------------------------------------------------

    def _wanted(self, partition: Partition) -> int:
        """Up to which offset sealed segments are to be copied."""
        if self._settings.continuous or not self._settings.archive_expired:
            return EVERYTHING
        return max(self._gate.asked(partition.place), partition.trimming.asked_offset)

    def _asked(self, packed: int, partition: Partition) -> Asked | None:
        stream_id, topic_id, partition_id = unpack(packed)
        stream = self._state().streams.get(stream_id)
        topic = stream.topics.get(topic_id) if stream else None
        if topic is None:
            return None
        log = partition.log
        has_tail = log.segments and self._settings.continuous
        return Asked(
            partition.place.folder,
            stream_id,
            topic_id,
            partition_id,
            life_of(partition),
            frozenset(Life(one.incarnation, one.purges) for one in topic.partitions),
            tuple(whole(segment) for segment in log.segments[:-1]),
            active_extent(log) if has_tail else None,
        )

    def _where(self, packed: int, partition: Partition, copies: Copies) -> Where | None:
        """None: the topic is being deleted."""
        stream_id, topic_id, partition_id = unpack(packed)
        stream = self._state().streams.get(stream_id)
        topic = stream.topics.get(topic_id) if stream else None
        if stream is None or topic is None:
            return None
        epoch = partition.log.epoch
        return Where(
            partition.place.folder,
            copies.folder,
            stream_id,
            topic_id,
            partition_id,
            stream.name,
            topic.name,
            copies.life,
            lambda: partition.log.epoch == epoch,
            copies.generation,
            copies.begin,
            partial(self._ownership.check, owner_id=copies.owner_id),
        )

    # -- what others see -----------------------------------------------------------------------

    def _open_gate(self, partition: Partition, copies: Copies) -> None:
        if life_of(partition) == copies.life:
            sealed = partition.log.segments[:-1]
            self._gate.open_to(partition.place, archived_end(sealed, copies.archived))

    def _count(self, copied: Copied) -> None:
        self._counters.archiver_uploads_total += copied.objects
        self._counters.archiver_bytes_total += copied.size_bytes
        self._counters.archiver_last_copy_seconds = self._clock.now_us()

    def _note_health(self) -> None:
        all_patience = (self._patience, self._tail_patience, self._state_patience)
        failing = not self._standing.may_copy or any(one.is_failing for one in all_patience)
        self._gate.is_stuck = failing
        self._counters.archiver_failing = int(failing)

    def _note_age(self) -> None:
        behind_s = self._now_s() - self._whole_at_s
        self._counters.archiver_behind_seconds = int(behind_s * 1_000_000)

    def _tell_failed(self, what: str, error: Exception) -> None:
        if self._patience.may_tell(what, self._now_s()):
            logger.warning("! not archived: %s", error, extra=event("archive_failed", of=what))

    def _now_s(self) -> float:
        return self._clock.monotonic_us() / 1_000_000
