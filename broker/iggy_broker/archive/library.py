"""What a shard has in memory of the archive, and how it gets more: listings, tables, blocks.

All is asked for in the loop and answered at once: with the thing, or with NotHere while it is
fetched in a thread. What fails is told to those who ask next, as a refusal that may be tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from iggy_broker.archive.block_cache import BlockCache, BlockKey, LifeKey
from iggy_broker.archive.blocks import Block, Start, Table, load_table, read_block
from iggy_broker.archive.fetching import Fetches
from iggy_broker.archive.patience import Patience
from iggy_broker.archive.shelves import Shelf, list_objects, put_up, read_manifests, unchanging
from iggy_broker.archive.store import ArchiveError
from iggy_broker.clock import Clock
from iggy_broker.errors import Reject
from iggy_broker.logs import event
from iggy_broker.metrics import Counters
from iggy_broker.storage.older import NotHere
from iggy_wire.archive import Life, Manifest
from iggy_wire.archive_fences import NO_FENCES
from iggy_wire.archive_listing import Segment, parse_folder
from iggy_wire.errors import ErrorCode
from iggy_wire.sealing import Keyring

SEGMENTS_MAX: Final = 100_000
"""That a shard has in mind, of all partitions: those that were read least lately are forgotten."""
AGAIN_S: Final = 1.0
"""An archive that did not answer is not asked again so soon."""
DAMAGE_AGAIN_S: Final = 60.0
"""A block that was damaged is not fetched again so soon."""

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
        self._keys = keys
        self.cache_bytes = cache_bytes
        self._fetches = fetches
        self._cache = BlockCache(cache_bytes)
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
        start, stop = table.start(number), table.stop(number)
        key = BlockKey(life, segment.manifest_key, start.position)
        block = self._cache.get(key)
        if block is not None and block.damage:
            found_s = self._damaged_s.get(key, 0.0)
            block = block if self._now_s() - found_s < DAMAGE_AGAIN_S else None
        if block is None:
            raise self._not_here(key, partial(self._fetch, key, segment, start, stop))
        table.learn(number, block)
        return block

    def look_ahead(self, life: LifeKey, segment: Segment, number: int, blocks: int) -> None:
        """Fetch so many blocks behind block `number`, as far as nobody has to wait for that."""
        shelf = self._shelves[life]
        for _ in range(blocks):
            table = shelf.tables.get(segment.manifest_key)
            if table is None or (self._trouble and self._now_s() < self._away_until_s):
                return
            number += 1
            if number == len(table):
                behind = shelf.listing.at_offset(segment.next_offset)
                if behind is None or table.stop(number - 1) < segment.size_bytes:
                    return
                segment, number = behind, 0
            if not self._fetches.is_idle:
                return
            self._fetch_ahead(life, shelf, segment, number)

    def tell_damaged(self, life: LifeKey, segment: Segment, block: Block) -> Reject:
        """To be raised: what follows a block cannot be had, and the archive is to blame."""
        what = f"{segment.folder}/{segment.first_offset:020d}: {block.damage}"
        detail = f"{what}; messages from offset {block.next_offset} on are not served"
        if self._patience.may_tell(what, self._now_s()):
            told = event("archive_damaged", folder=life.folder, offset=block.next_offset)
            logger.error("! in the archive, %s", detail, extra=told)
        return Reject(block.damage_code, detail)

    def close(self) -> None:
        """Fetch nothing more."""
        self._fetches.close()

    # -- fetching ------------------------------------------------------------------------------

    def _not_here(self, key: object, fetch: Callable[[], Awaitable[None]]) -> NotHere:
        running = self._fetches.get(key)
        if running is None:
            if self._trouble and self._now_s() < self._away_until_s:
                raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, self._trouble)
            if self._fetches.is_full:
                self._counters.archive_reads_refused_total += 1
                detail = f"{len(self._fetches)} reads of the archive run or wait: ask again"
                raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, detail)
            running = self._begin(key, fetch)
        return NotHere(running, "the archive is being read: ask again")

    def _begin(self, key: object, fetch: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task = self._fetches.begin(key, partial(self._guarded, fetch))
        self._counters.archive_reads_waiting = len(self._fetches)
        return task

    def _fetch_ahead(self, life: LifeKey, shelf: Shelf, segment: Segment, number: int) -> None:
        table = shelf.tables.get(segment.manifest_key)
        if table is None:
            key = ("table", life, segment.manifest_key)
            self._begin(key, partial(self._look_up, life, segment))
            return
        start, stop = table.start(number), table.stop(number)
        block = BlockKey(life, segment.manifest_key, start.position)
        if block not in self._cache:
            self._begin(block, partial(self._fetch, block, segment, start, stop))

    async def _guarded(self, fetch: Callable[[], Awaitable[None]]) -> None:
        """What fails is told to those who ask next."""
        try:
            await fetch()
        except (ArchiveError, OSError) as error:
            self._trouble = str(error)
            self._away_until_s = self._now_s() + AGAIN_S
            self._counters.archive_reads_failures_total += 1
            if self._patience.may_tell("away", self._now_s()):
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
        look = partial(list_objects, partition=partition, life=ours, known=self._known)
        found = await self._fetches.run(look)
        self._known = found.fences
        before = self._shelves.get(life)
        manifests: dict[str, Manifest] = unchanging(before)
        new = [key for key in found.keys if key not in manifests]
        reads = [new[number::_MANIFEST_READS] for number in range(_MANIFEST_READS)]
        parts = [self._fetches.run(partial(read_manifests, keys=keys)) for keys in reads if keys]
        for part in await asyncio.gather(*parts):
            manifests |= part
        there = {key: manifests[key] for key in found.keys if key in manifests}
        shelf = self._shelves[life] = put_up(found, there, ours, end=end, before=before)
        for key in shelf.listing.missing:
            if self._patience.may_tell(key, self._now_s()):
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

    async def _fetch(self, key: BlockKey, segment: Segment, start: Start, stop: int) -> None:
        try:
            work = partial(read_block, segment=segment, start=start, stop=stop, keys=self._keys)
            block = await self._fetches.run(work)
        except FileNotFoundError:
            self._shelves.pop(key.life, None)  # it is not as it was listed
            return
        counters = self._counters
        counters.archive_reads_fetches_total += 1
        counters.archive_reads_bytes_total += len(block.data)
        self._damaged_s.pop(key, None)
        if block.damage:
            if block.damage_code is ErrorCode.CANNOT_READ_MESSAGE:
                counters.count("checksum_errors_total", "archive")
            if len(self._damaged_s) >= SEGMENTS_MAX:
                self._damaged_s.clear()
            self._damaged_s[key] = self._now_s()
        self._cache.put(key, block)
        counters.archive_reads_cache_bytes = self._cache.size_bytes

    def _now_s(self) -> float:
        return self._clock.monotonic_us() / 1_000_000
