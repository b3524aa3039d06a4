"""Whether a shard may copy: the archive can be used, and is that of this data directory.

The first shard finds out for all, at the start and again and again: another directory may take the
archive over at any time, and its volume may be gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from iggy_broker.archive.owner import NotOurs, NotThere, claim, look, prepare
from iggy_broker.archive.patience import AGAIN_S_MAX, AGAIN_S_MIN, Patience
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.clock import Clock
from iggy_broker.logs import event
from iggy_broker.metrics import Counters
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.gate import Gate

OWNER_LOOK_S_MIN: Final = 1.0
"""Pause between two looks whose it is; more with a longer interval."""
LOOK_S: Final = 1.0

logger = logging.getLogger(__name__)


class Lane(Protocol):
    """Where blocking work is done."""

    async def run(self, work: Callable[[ArchiveStore, Disk], None]) -> None:
        """Do it; what it raises."""


class Standing:
    """Of one shard."""

    def __init__(
        self,
        root: str,
        *,
        abandoned: str,
        lane: Lane,
        clock: Clock,
        gate: Gate,
        counters: Counters,
    ) -> None:
        """`root`: the data directory. `abandoned`: see `owner`. Nobody has looked yet."""
        self._root = root
        self._abandoned = abandoned
        self._lane = lane
        self._clock = clock
        self._gate = gate
        self._counters = counters
        self._is_ours = True
        self._is_checked = False
        self._told = Patience()
        self.is_first = True

    @property
    def may_copy(self) -> bool:
        """Whether the archive is ours, as far as we know."""
        if self.is_first:
            return self._is_ours
        return bool(self._counters.shared.values("archiver_checked")[0])

    async def settle(self) -> None:
        """Until the archive can be used. The first shard tidies up what an earlier run left."""
        if self.is_first:
            await self._check()
            return
        # In memory that another process writes: nobody would wake us.
        while not self.may_copy:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Is it ours, now? NotOurs, NotThere, ArchiveError, OSError: it is not to be used."""
        await self._lane.run(self._look)

    async def watch(self, interval_s: float) -> None:
        """Of the first shard, until cancelled: notice when another directory has the archive."""
        while True:
            await asyncio.sleep(max(interval_s, OWNER_LOOK_S_MIN))
            try:
                await self.look()
            except (NotOurs, NotThere) as error:
                self._is_ours = False
                self._counters.archiver_checked = 0
                self._tell(error)
                await self._check()
            except (ArchiveError, OSError):
                continue  # what is copied fails as well, or works again

    async def _check(self) -> None:
        pause_s = AGAIN_S_MIN
        while True:
            try:
                await self._prepare()
                if not self._is_checked:  # once: it makes a folder that is missing
                    await self._lane.run(lambda store, disk: store.check())
                    self._is_checked = True
                await self._claim()
            except (ArchiveError, OSError) as error:
                self._tell(error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, AGAIN_S_MAX)
                continue
            self._is_ours = True
            self._gate.is_stuck = False
            self._counters.archiver_failing = 0
            self._counters.archiver_checked = 1
            return

    def _look(self, store: ArchiveStore, disk: Disk) -> None:
        look(store, disk, self._root, abandoned=self._abandoned)

    def _prepare(self) -> Awaitable[None]:
        now_us = self._clock.now_us()
        return self._lane.run(lambda store, disk: prepare(disk, self._root, now_us=now_us))

    def _claim(self) -> Awaitable[None]:
        now_us, abandoned = self._clock.now_us(), self._abandoned
        return self._lane.run(partial(claim, root=self._root, now_us=now_us, abandoned=abandoned))

    def _tell(self, error: Exception) -> None:
        self._counters.archiver_failing = 1
        self._gate.is_stuck = True
        if not self._told.may_tell("check", self._clock.monotonic_us() / 1_000_000):
            return
        if isinstance(error, NotOurs):
            logger.error("! nothing is archived: %s", error, extra=event("archive_taken"))
        elif isinstance(error, NotThere):
            logger.error("! nothing is archived: %s", error, extra=event("archive_missing"))
        else:
            told = event("archive_failed", of="check")
            logger.warning("! not archived: %s", error, extra=told)
