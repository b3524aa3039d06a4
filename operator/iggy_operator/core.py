"""The operator without its ears: queue, workers, passes and the resync, wired together.

Whoever watches calls `changed`; who probes reads `trouble`. Knows no watch library and no lease.
"""

import asyncio
import logging
from typing import Final

from iggy_operator.backoff import Chance, pause_s
from iggy_operator.broker_admin import Connect
from iggy_operator.brokers import BrokerPool
from iggy_operator.cache import ObjectCache
from iggy_operator.clock import Clock
from iggy_operator.cluster import Cluster, ClusterError, Object, Ref
from iggy_operator.desired.release import Release
from iggy_operator.kinds.common import World
from iggy_operator.passes import Passes
from iggy_operator.queue import Workers, WorkQueue

RESYNC_S: Final = 60.0
RESYNC_AGE_S_MAX: Final = 300.0
"""A resync that has not ended for so long is trouble."""
KEY_AGE_S_MAX: Final = 600.0
"""So is a key that has been due for so long."""
_LOG: Final = logging.getLogger(__name__)


class Core:
    """One operator. `run` works until `stop`."""

    def __init__(
        self, cluster: Cluster, connect: Connect, clock: Clock, chance: Chance, product: Release
    ) -> None:
        """`connect`: `AsyncClient.connect`; `chance`: `random.random`."""
        self._clock = clock
        self._chance = chance
        self._queue: WorkQueue[Ref] = WorkQueue(chance)
        self._brokers = BrokerPool(connect, clock, chance)
        world = World(cluster, ObjectCache(), self._brokers, clock, product)
        self._workers: Workers[Ref] = Workers(self._queue, clock, lambda ref: self._passes.run(ref))
        self._passes = Passes(world, add=self._workers.add, check=self._workers.check)
        self._resynced_s = clock.monotonic_s()
        self._is_stopping = asyncio.Event()

    def changed(self, ref: Ref, value: Object | None = None) -> None:
        """As `Passes.changed`."""
        self._passes.changed(ref, value)

    def stop(self) -> None:
        """Passes that run come to their end, and so does `run`."""
        self._is_stopping.set()
        self._workers.stop()

    def trouble(self) -> str:
        """Why a probe should fail; empty if it should not."""
        now_s = self._clock.monotonic_s()
        if (age_s := now_s - self._resynced_s) > RESYNC_AGE_S_MAX:
            return f"the last resync ended {age_s:.0f} s ago"
        if (age_s := self._queue.oldest_age_s(now_s)) > KEY_AGE_S_MAX:
            return f"an object has been waiting for its pass for {age_s:.0f} s"
        return ""

    async def run(self) -> None:
        """List everything, then work. A bug in here ends the process: it is started anew."""
        try:
            if await self._loaded():
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._workers.run())
                    tasks.create_task(self._resync_for_ever())
        finally:
            await self._brokers.keep_only(())

    async def _loaded(self) -> bool:
        """Nobody gets a pass before all are known. False if `stop` came first."""
        failures = 0
        while not self._is_stopping.is_set():
            try:
                await self._passes.load()
            except ClusterError as error:
                failures += 1
                _LOG.warning("the first list: the API server: %s", error)
                await self._pause(pause_s(failures, self._chance))
            else:
                self._resynced_s = self._clock.monotonic_s()
                return True
        return False

    async def _resync_for_ever(self) -> None:
        failures = 0
        while True:
            await self._pause(pause_s(failures, self._chance) if failures else RESYNC_S)
            if self._is_stopping.is_set():
                return
            try:
                await self._passes.resync()
            except ClusterError as error:
                failures += 1
                _LOG.warning("the resync: the API server: %s", error)
            else:
                failures = 0
                self._resynced_s = self._clock.monotonic_s()

    async def _pause(self, seconds: float) -> None:
        """Or until `stop`."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_stopping.wait()
        except TimeoutError:
            return
