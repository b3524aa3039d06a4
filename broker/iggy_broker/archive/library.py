"""What a shard has in memory of the archive, and how it gets more: listings, tables, blocks.

All is asked for in the loop and answered at once: with the thing, or with NotHere while it is
fetched in a thread. What fails is told to those who ask next, as a refusal that may be tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from iggy_broker.archive import blocks
from iggy_broker.archive.block_cache import BlockCache, BlockKey, LifeKey
from iggy_broker.archive.blocks import Block, BlockReader, Start, Table, load_table, wanted_bytes
from iggy_broker.archive.fences import read_fences
from iggy_broker.archive.fetching import Fetches
from iggy_broker.archive.memory import Memory
from iggy_broker.archive.patience import Patience
from iggy_broker.archive.shelves import (
    Shelf,
    check_owner,
    joined,
    list_folder,
    put_up,
    read_manifests,
    unchanging,
)
from iggy_broker.archive.store import ArchiveError
from iggy_broker.clock import Clock
from iggy_broker.errors import Reject
from iggy_broker.logs import event
from iggy_broker.metrics import Counters
from iggy_broker.storage.older import NotHere
from iggy_wire.archive import Life, Manifest
from iggy_wire.archive_fences import NO_FENCES
from iggy_wire.archive_listing import Segment, folders, parse_folder
from iggy_wire.errors import ErrorCode
from iggy_wire.sealing import Keyring

SEGMENTS_MAX: Final = 100_000
"""That a shard has in mind, of all partitions: those that were read least lately are forgotten."""
AGAIN_S: Final = 1.0
"""An archive that did not answer is not asked again so soon."""
DAMAGE_AGAIN_S: Final = 60.0
"""A block that was damaged is not fetched again so soon."""

POLL_BYTES_MAX: Final = 16 << 20
"""About the most that a poll of older messages brings."""
TOGETHER: Final = 2
"""Blocks that are fetched ahead by one read, if they are not larger than blocks are as a rule."""
TOGETHER_BYTES_MAX: Final = 12 << 20

_MANIFEST_READS: Final = 4  # at once, of one listing

logger = logging.getLogger(__name__)


class Library:
    """Of one shard, from its loop only."""

    def __init__(
        self,
        fetches: Fetches,
        *,
        keys: Keyring,
        cache_bytes: int,
        clock: Clock,
        counters: Counters,
    ) -> None:
        """Nothing is known yet. `cache_bytes`: of blocks that are kept in memory."""
        self.poll_bytes_max = max(min(POLL_BYTES_MAX, cache_bytes // 4), 1)
        """About the most that a poll gets: its blocks are in memory at once, whoever else reads."""
        kept_bytes = self.poll_bytes_max + 2 * blocks.READ_BYTES  # both its ends are in a block
        self.ahead_bytes_max = max(min(cache_bytes // 2, cache_bytes - kept_bytes), 0)
        """Of blocks that are fetched before they are asked for, all together."""
        memory = Memory()
        self._reader = BlockReader(keys, memory)
        self._cache = BlockCache(cache_bytes, kept_bytes, memory)
        self._ahead_coming_bytes = 0
        self._fetches = fetches
        self._clock = clock
        self._counters = counters
        self._shelves: dict[LifeKey, Shelf] = {}  # those that were used last behind
        self._damaged_s: dict[BlockKey, float] = {}  # when that was found
        self._known = NO_FENCES
        self._patience = Patience()
        self._away_until_s = 0.0
        self._trouble = ""

    # -- asking --------------------------------------------------------------------------------

    def shelf(self, life: LifeKey, end: int) -> Shelf:
        """What there is of a life of a partition. `end`: where its log begins. NotHere, Reject."""
        shelf = self._shelves.pop(life, None)
        if shelf is None:
            raise self.look_again(life, end)
        self._shelves[life] = shelf
        return shelf

    def look_again(self, life: LifeKey, end: int) -> NotHere:
        """To be raised: there may be more by now. Reject."""
        return self._not_here(("list", life), partial(self._list, life, end))

    def table(self, life: LifeKey, segment: Segment) -> Table:
        """Where its blocks begin. NotHere, Reject."""
        table = self._shelves[life].table(segment)
        if table is None:
            key = ("table", life, segment.manifest_key)
            raise self._not_here(key, partial(self._look_up, life, segment))
        return table

    def block(self, life: LifeKey, segment: Segment, table: Table, number: int) -> Block:
        """One of its blocks. NotHere, Reject."""
        one = _wanted(life, segment, table, number)
        block = self._cache.get(one.key)
        if block is not None and block.damage:
            found_s = self._damaged_s.get(one.key, 0.0)
            block = block if self.now_s() - found_s < DAMAGE_AGAIN_S else None
        if block is None:
            raise self._not_here(one.key, partial(self._fetch, [one]))
        table.learn(number, block)
        return block

    def look_ahead(self, life: LifeKey, offset: int, *, end: int, size_bytes: int) -> None:
        """Fetch about so many bytes from an offset on, up to offset `end`.

        As far as nobody has to wait for that, and nothing is lost that was fetched so before.
        """
        self._cache.expire(self.now_s())
        if not self._may_look_ahead:
            return
        batch: list[Wanted] = []
        may_be_one = True  # at once if nothing is ahead; later it waits for the one behind it
        for one in self._following(life, offset, end):
            if size_bytes <= 0:
                break
            size_bytes -= one.size_bytes
            is_here = one.key in self._cache or self._fetches.get(one.key) is not None
            if batch and (is_here or not batch[0].goes_with(one)):
                self._fetch_ahead(batch)
                batch, may_be_one = [], False
            if is_here:
                may_be_one = False
                continue
            batch.append(one)
            if len(batch) == TOGETHER:
                self._fetch_ahead(batch)
                batch, may_be_one = [], False
        else:
            may_be_one = True  # nothing is behind it
        if batch and may_be_one:
            self._fetch_ahead(batch)

    def _following(self, life: LifeKey, offset: int, end: int) -> Iterator[Wanted]:
        """Blocks from the one with an offset on, as far as they are known."""
        shelf = self._shelves[life]
        while offset < end and (segment := shelf.listing.at_offset(offset)) is not None:
            table = shelf.tables.get(segment.manifest_key)
            if table is None:
                key = ("table", life, segment.manifest_key)
                if self._fetches.get(key) is None and self._may_look_ahead:
                    self._begin([key], partial(self._look_up, life, segment))
                return
            for number in range(table.number_of(max(offset, segment.start_offset)), len(table)):
                one = _wanted(life, segment, table, number)
                if one.start.offset >= end:
                    return
                if one.start.offset >= segment.next_offset:
                    break  # from there on it is another one's
                yield one
                if number + 1 == len(table) and not one.is_whole:
                    return  # where the next one begins is known when this one was read
            offset = segment.next_offset

    @property
    def _may_look_ahead(self) -> bool:
        is_away = bool(self._trouble) and self.now_s() < self._away_until_s
        return self._fetches.is_idle and not is_away

    def _fetch_ahead(self, batch: list[Wanted]) -> None:
        size_bytes = sum(one.size_bytes for one in batch)
        ahead_bytes = self._cache.ahead_bytes + self._ahead_coming_bytes
        if self._may_look_ahead and ahead_bytes + size_bytes <= self.ahead_bytes_max:
            self._ahead_coming_bytes += size_bytes
            fetch = partial(self._fetch, batch, is_ahead=True)
            task = self._begin([one.key for one in batch], fetch)
            task.add_done_callback(partial(self._came, size_bytes))

    def _came(self, size_bytes: int, _: asyncio.Task[None]) -> None:
        """What was fetched ahead is there, or will not come."""
        self._ahead_coming_bytes -= size_bytes

    def tell_damaged(self, life: LifeKey, segment: Segment, block: Block) -> Reject:
        """To be raised: what follows a block cannot be had, and the archive is to blame."""
        what = f"{segment.folder}/{segment.first_offset:020d}: {block.damage}"
        detail = f"{what}; messages from offset {block.next_offset} on are not served"
        if self._patience.may_tell(what, self.now_s()):
            told = event("archive_damaged", folder=life.folder, offset=block.next_offset)
            logger.error("! in the archive, %s", detail, extra=told)
        return Reject(block.damage_code, detail)

    def check_gap(self, life: LifeKey, segment: Segment | None, end: int) -> None:
        """A poll may go on to a segment, or to the log at offset `end`: what is missing before that
        is not there. NotHere, Reject: its manifest is, and cannot be understood.
        """
        shelf = self._shelves[life]
        key = shelf.damaged_before(segment, end)
        if key is None:
            return
        if self.now_s() - shelf.listed_s >= DAMAGE_AGAIN_S:
            raise self.look_again(life, end)
        offset = shelf.damaged[key]
        detail = f"{key} is no manifest; messages from offset {offset} on are not served"
        if self._patience.may_tell(key, self.now_s()):
            told = event("archive_damaged", folder=life.folder, offset=offset)
            logger.error("! in the archive, %s", detail, extra=told)
        raise Reject(ErrorCode.CANNOT_READ_MESSAGE, detail)

    def close(self) -> None:
        """Fetch nothing more."""
        self._fetches.close()

    # -- fetching ------------------------------------------------------------------------------

    def _not_here(self, key: object, fetch: Callable[[], Awaitable[None]]) -> NotHere:
        running = self._fetches.get(key)
        if running is None:
            if self._trouble and self.now_s() < self._away_until_s:
                raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, self._trouble)
            if self._fetches.is_full:
                self._counters.archive_reads_refused_total += 1
                detail = f"{len(self._fetches)} reads of the archive run or wait: ask again"
                raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, detail)
            running = self._begin([key], fetch)
        return NotHere(running, "the archive is being read: ask again")

    def _begin(
        self, keys: Sequence[object], fetch: Callable[[], Awaitable[None]]
    ) -> asyncio.Task[None]:
        task = self._fetches.begin(keys, partial(self._guarded, fetch))
        self._counters.archive_reads_waiting = len(self._fetches)
        return task

    async def _guarded(self, fetch: Callable[[], Awaitable[None]]) -> None:
        """What fails is told to those who ask next."""
        try:
            await fetch()
        except (ArchiveError, OSError) as error:
            self._trouble = str(error)
            self._away_until_s = self.now_s() + AGAIN_S
            self._counters.archive_reads_failures_total += 1
            if self._patience.may_tell("away", self.now_s()):
                told = event("archive_unreadable")
                logger.warning("! older messages cannot be read: %s", error, extra=told)
            return
        finally:
            self._counters.archive_reads_waiting = len(self._fetches) - 1
        if self._trouble:
            self._trouble = ""
            logger.info("= older messages are read again", extra=event("archive_readable"))

    async def _list(self, life: LifeKey, end: int) -> None:
        partition = parse_folder("/".join(life.folder.rsplit("/", 6)[-6:]))
        assert partition is not None, "a partition's folder"
        ours = Life(life.incarnation, life.purges)
        plain, own = (
            partial(list_folder, folder=one, life=ours) for one in folders(partition, ours)
        )
        run, before = self._fetches.run, self._shelves.get(life)
        # At once: a store that is far away takes its time for each.
        fences, *parts = await asyncio.gather(
            run(partial(read_fences, known=self._known)), run(plain), run(own)
        )
        self._known = fences
        found = joined(parts)
        if not found.keys:
            await run(check_owner)
        manifests: dict[str, Manifest | None] = {**unchanging(before), **found.last}
        new = [key for key in found.keys if key not in manifests]
        reads = [new[number::_MANIFEST_READS] for number in range(_MANIFEST_READS)]
        reading = [run(partial(read_manifests, keys=part)) for part in reads if part]
        for read in await asyncio.gather(*reading):
            manifests |= read
        there = {key: manifests[key] for key in found.keys if key in manifests}
        shelf = put_up(found.sizes, there, ours, fences=fences, end=end, before=before)
        shelf.listed_s = self.now_s()
        self._shelves[life] = shelf
        for key in shelf.listing.missing:
            if self._patience.may_tell(key, self.now_s()):
                told = event("archive_damaged", folder=life.folder)
                logger.error("! %s is missing in the archive, or cut short", key, extra=told)
        while sum(len(one.manifests) for one in self._shelves.values()) > SEGMENTS_MAX:
            if len(self._shelves) == 1:
                break
            del self._shelves[next(iter(self._shelves))]

    async def _look_up(self, life: LifeKey, segment: Segment) -> None:
        table = await self._fetches.run(partial(load_table, segment=segment))
        if (shelf := self._shelves.get(life)) is not None:
            shelf.take(segment, table)

    async def _fetch(self, batch: Sequence[Wanted], *, is_ahead: bool = False) -> None:
        size_bytes = sum(one.size_bytes for one in batch)
        segment, places = batch[0].segment, [(one.start, one.stop) for one in batch]
        try:
            async with self._fetches.lane() as lane:
                with self._cache.room(size_bytes):
                    read = self._reader.read
                    found = await lane.run(lambda store, disk: read(store, segment, places))
        except FileNotFoundError:
            self._shelves.pop(batch[0].key.life, None)  # it is not as it was listed
            return
        self._cache.expire(self.now_s())
        for one, block in zip(batch, found, strict=True):
            self._keep(one.key, block, is_ahead=is_ahead)
        self._counters.archive_reads_cache_bytes = self._cache.blocks_bytes

    def _keep(self, key: BlockKey, block: Block, *, is_ahead: bool) -> None:
        self._counters.archive_reads_fetches_total += 1
        self._counters.archive_reads_bytes_total += len(block.data)
        self._damaged_s.pop(key, None)
        if block.damage:
            if block.damage_code is ErrorCode.CANNOT_READ_MESSAGE:
                self._counters.count("checksum_errors_total", "archive")
            if len(self._damaged_s) >= SEGMENTS_MAX:
                self._damaged_s.clear()
            self._damaged_s[key] = self.now_s()
        self._cache.put(key, block, ahead_s=self.now_s() if is_ahead else None)

    def now_s(self) -> float:
        """Of the clock, from any beginning."""
        return self._clock.monotonic_us() / 1_000_000


class Wanted(NamedTuple):
    """A block that is not here."""

    key: BlockKey
    segment: Segment
    start: Start
    stop: int
    size_bytes: int
    """That are read of it at first."""

    @property
    def is_whole(self) -> bool:
        """Whether that is all up to where it ends at the latest."""
        return self.size_bytes == self.stop - self.start.position

    def goes_with(self, behind: Wanted) -> bool:
        """Whether the one behind it can be had by the same read."""
        size_bytes = self.size_bytes + behind.size_bytes
        is_near = behind.segment is self.segment and self.is_whole
        return is_near and size_bytes <= TOGETHER_BYTES_MAX


def _wanted(life: LifeKey, segment: Segment, table: Table, number: int) -> Wanted:
    start, stop = table.start(number), table.stop(number)
    key = BlockKey(life, segment.manifest_key, start.position)
    return Wanted(key, segment, start, stop, wanted_bytes(start, stop))
