"""One replica from start to end: definitions, Lease, then passes and watches, until it is stopped.

Exit codes: 0 stopped as asked, 1 cannot start or a bug, 2 a wrong setting, 3 the Lease was lost.
"""

import asyncio
import contextlib
import logging
import random
import signal
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final

from iggy_client import AsyncClient
from iggy_operator import VERSION
from iggy_operator.clock import Clock, SystemClock
from iggy_operator.cluster import ClusterError, Ref
from iggy_operator.core import Core, Tuning
from iggy_operator.endings import Endings
from iggy_operator.program.api_access import Access
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.api_cluster import ApiCluster
from iggy_operator.program.broker_metrics import read_metrics
from iggy_operator.program.definitions import trouble_with_definitions
from iggy_operator.program.http_server import Answers, served
from iggy_operator.program.lease import Lease, LeaseLostError, identity_of
from iggy_operator.program.loop_lag import TROUBLE_S, LoopLag
from iggy_operator.program.metrics import Metrics
from iggy_operator.program.settings import Settings
from iggy_operator.program.watches import Ears, Watches
from iggy_operator.schema import schemas

EXIT_FAILED: Final = 1
EXIT_LEASE_LOST: Final = 3
GRACE_S: Final = 20.0
"""Running passes get so long at a stop."""
RELEASE_S: Final = 5.0
"""And giving the Lease back so long."""
LAST_LOOK_S: Final = 10.0
"""And letting go of what is in a namespace that ends, if that is why we are stopped."""
DEFINITIONS_S: Final = 2.0
"""Definitions that are missing or too old are looked at again."""
_LOG: Final = logging.getLogger(__name__)


class Replica:
    """One operator process."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        """Nothing is connected yet; to be made on the loop that runs it."""
        self._settings = settings
        self._clock = clock or SystemClock()
        self._client = ApiClient(Access())
        self._metrics = Metrics()
        self._lag = LoopLag(self._clock)
        self._stopping = asyncio.Event()
        self._state = "starting"
        self._lease = Lease(
            self._client,
            self._clock,
            Ref("Lease", settings.namespace, settings.lease_name),
            identity=identity_of(settings.pod_name),
            duration_s=settings.lease_seconds,
        )
        cluster = ApiCluster(
            self._client,
            self._clock,
            identity=settings.pod_name,
            namespaces=settings.watch_namespaces,
        )
        self._endings = Endings(cluster, settings.watch_namespaces or (settings.namespace,))
        tuning = Tuning(
            settings.workers,
            settings.resync_seconds,
            self._metrics,
            ending=self._endings.ending,
            read_metrics=read_metrics,
        )
        self._core = Core(
            cluster, AsyncClient.connect, self._clock, random.random, settings.release, tuning
        )
        self._watches = Watches(
            Ears(
                client=self._client,
                clock=self._clock,
                chance=random.random,
                told=self._core.changed,
                namespaces=settings.watch_namespaces,
                silence_s=settings.watch_silence_seconds,
            )
        )
        self._metrics.loop_lag_s = self._lag.worst_s
        self._metrics.silences_s = self._watches.silences_s

    def stop(self) -> None:
        """As SIGTERM does: passes that run come to their end, then the Lease is given back."""
        self._stopping.set()

    async def run(self) -> int:
        """Work until stopped; the exit code."""
        answers = Answers(self._alive, self._ready, self._metrics)
        try:
            async with served(self._settings.http_port, answers) as port:
                _LOG.info("iggy-operator %s: probes and metrics on port %d", VERSION, port)
                async with _beside(self._lag.run()):
                    async with _beside(self._endings.run()):
                        code = await self._until_stopped()
                    await self._last_look()
                    return code
        except OSError as error:
            _LOG.error("cannot serve port %d: %s", self._settings.http_port, error)
            return EXIT_FAILED
        finally:
            await self._client.close()

    async def _last_look(self) -> None:
        """Pods are the first to go with a namespace: so this may be the last chance."""
        try:
            async with asyncio.timeout(LAST_LOOK_S):
                await self._endings.look_at_all()
        except TimeoutError:
            _LOG.warning("no answer about namespaces that end")

    async def _until_stopped(self) -> int:
        waiting = asyncio.create_task(self._until_leader())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait((waiting,))
            return 0
        await waiting
        stopping.cancel()
        return await self._lead()

    async def _until_leader(self) -> None:
        told = ""
        while text := await trouble_with_definitions(self._client):
            self._state = text
            if text != told:  # once, and again when it is another trouble
                _LOG.error("not starting: %s", told := text)
            await asyncio.sleep(DEFINITIONS_S)
        self._state = ""
        _LOG.info("waiting for the Lease %s", self._settings.lease_name)
        await self._lease.acquire()

    async def _lead(self) -> int:
        _LOG.info("this replica works now")
        self._metrics.is_leader = True
        self._metrics.gauges = self._core
        core = asyncio.create_task(self._core.run())
        watches = asyncio.create_task(self._watches.run())
        lease = asyncio.create_task(self._lease.hold())
        stopping = asyncio.create_task(self._stopping.wait())
        tasks = {core, watches, lease, stopping}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if lease.done():
                raise lease.exception() or AssertionError("it holds for ever")
            if not stopping.done():
                failed = core if core.done() else watches
                raise failed.exception() or AssertionError("they work for ever")
            await self._finish(core, lease)
        except LeaseLostError as error:
            _LOG.error("the Lease is lost, another replica may be working: %s", error)
            return EXIT_LEASE_LOST
        finally:
            self._metrics.is_leader = False
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await self._give_back()
        return 0

    async def _finish(self, core: asyncio.Task[None], lease: asyncio.Task[None]) -> None:
        """No further pass begins; those that run come to their end, while the Lease is ours."""
        _LOG.info("stopping: passes that run get %.0f s", GRACE_S)
        self._state = "stopping"
        self._core.stop()
        done, _ = await asyncio.wait(
            (core, lease), timeout=GRACE_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            if error := task.exception():
                raise error
        if not done:
            _LOG.warning("passes are cut off: they are run again by whoever works next")

    async def _give_back(self) -> None:
        try:
            async with asyncio.timeout(RELEASE_S):
                await self._lease.release()
        except (ClusterError, TimeoutError) as error:
            _LOG.warning("the Lease is not given back, it ends by itself: %s", error)
        else:
            _LOG.info("stopped, the Lease is free")

    def _alive(self) -> str:
        if self._lag.worst_s() > TROUBLE_S:
            return f"the loop was held up for {self._lag.worst_s():.0f} s"
        if not self._metrics.is_leader:
            return ""
        return self._core.trouble() or self._watches.trouble()

    def _ready(self) -> str:
        if self._state or not self._metrics.is_leader:
            return self._state
        return "" if self._core.is_loaded else "reading all objects"


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Goes on as long as we are in here."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def run(settings: Settings) -> int:
    """One replica, ended by SIGTERM or SIGINT; the exit code."""
    schemas()  # takes a second, in which nobody would get an answer from a probe
    replica = Replica(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, replica.stop)
    return await replica.run()
