"""The operator without its ears: queue, workers, passes and the resync, wired together.

Whoever watches calls `changed`; who probes reads `trouble`. Knows no watch library and no lease.
"""

import asyncio
import itertools
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from iggy_operator.backoff import Chance, pause_s
from iggy_operator.broker_admin import Connect
from iggy_operator.brokers import BrokerPool
from iggy_operator.cache import ObjectCache
from iggy_operator.clock import Clock
from iggy_operator.cluster import Cluster, ClusterError, Object, Ref
from iggy_operator.desired.release import Release
from iggy_operator.figures import ReadMetrics, no_metrics
from iggy_operator.kinds.common import World
from iggy_operator.log_context import about
from iggy_operator.meter import NO_METER, Meter
from iggy_operator.objects import generation_of, uid_of
from iggy_operator.passes import Passes
from iggy_operator.queue import WORKERS, After, Done, Outcome, Workers, WorkQueue

RESYNC_S: Final = 60.0
RESYNCS_MISSED_MAX: Final = 5
"""A resync that has not ended for so many of its times is trouble."""
KEY_AGE_S_MAX: Final = 600.0
"""So is a key that has been due for so long."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tuning:
    """How much is done at once, how often, and who counts it."""

    workers: int = WORKERS
    resync_s: float = RESYNC_S
    meter: Meter = NO_METER
    ending: Collection[str] = ()
    """Namespaces that are being deleted, at each moment: see `endings`."""
    read_metrics: ReadMetrics = no_metrics
    """Of a broker."""


class Core:
    """One operator. `run` works until `stop`."""

    def __init__(
        self,
        cluster: Cluster,
        connect: Connect,
        clock: Clock,
        chance: Chance,
        product: Release,
        tuning: Tuning = Tuning(),
    ) -> None:
        """`connect`: `AsyncClient.connect`; `chance`: `random.random`."""
        self._clock = clock
        self._chance = chance
        self._tuning = tuning
        self.cache = ObjectCache()
        self.is_loaded = False
        self._queue: WorkQueue[Ref] = WorkQueue(chance)
        self._brokers = BrokerPool(connect, clock, chance, tuning.meter)
        world = World(
            cluster,
            self.cache,
            self._brokers,
            clock,
            product,
            meter=tuning.meter,
            ending=tuning.ending,
            read_metrics=tuning.read_metrics,
        )
        self._workers: Workers[Ref] = Workers(self._queue, clock, self._pass, count=tuning.workers)
        self._passes = Passes(world, add=self._workers.add, check=self._workers.check)
        self._numbers = itertools.count(1)
        self._resynced_s = clock.monotonic_s()
        self._is_stopping = asyncio.Event()

    def changed(self, ref: Ref, value: Object | None = None) -> None:
        """As `Passes.changed`."""
        self._passes.changed(ref, value)

    def stop(self) -> None:
        """Passes that run come to their end, and so does `run`."""
        self._is_stopping.set()
        self._workers.stop()

    def due(self) -> Iterable[Ref]:
        """Objects that are due for a pass, or have one."""
        return self._queue.due(self._clock.monotonic_s())

    def oldest_s(self) -> float:
        """How long the longest due object has been waiting."""
        return self._queue.oldest_age_s(self._clock.monotonic_s())

    def resync_age_s(self) -> float:
        """Since the last resync."""
        return self._clock.monotonic_s() - self._resynced_s

    async def _pass(self, ref: Ref) -> Outcome:
        """One pass, with its number in every line of the log that belongs to it."""
        entry = self.cache.get(ref)
        uid = "" if entry is None else uid_of(entry.value)
        generation = 0 if entry is None else generation_of(entry.value)
        begun_s = self._clock.monotonic_s()
        with about(ref, uid=uid, generation=generation, pass_id=f"{next(self._numbers):x}"):
            outcome = await self._passes.run(ref)
        result = {Done: "done", After: "again"}.get(type(outcome), "failed")
        self._tuning.meter.passed(ref.kind, result, self._clock.monotonic_s() - begun_s)
        return outcome

    def trouble(self) -> str:
        """Why a probe should fail; empty if it should not."""
        now_s = self._clock.monotonic_s()
        age_s_max = RESYNCS_MISSED_MAX * self._tuning.resync_s
        if (age_s := now_s - self._resynced_s) > age_s_max:
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
                self.is_loaded = True
                return True
        return False

    async def _resync_for_ever(self) -> None:
        failures = 0
        while True:
            await self._pause(
                pause_s(failures, self._chance) if failures else self._tuning.resync_s
            )
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
