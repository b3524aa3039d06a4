"""One seed: a broker, its clients, and everything that can go wrong, life after life."""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from iggy_broker.storage.disk import StorageFailed
from iggy_client.errors import ClientError, LinkError
from simulated_disk import Crashed
from simulation import endings
from simulation.admin import Admin
from simulation.archive import SimulatedArchive
from simulation.archive_quiet import archive_quiet, pause
from simulation.archived import ArchiveOracle
from simulation.audit import Auditor
from simulation.broker import SimulatedBroker
from simulation.clients import SimulatedClient
from simulation.disk import FaultyDisk
from simulation.endings import ENDINGS, HINDERED
from simulation.faults import Troubles, rot
from simulation.loop import DeadlockError, Schedule, SimulatedLoop, told
from simulation.lost_volume import lose_volume
from simulation.members import Ownership
from simulation.network import Network
from simulation.oracle import Key, Oracle, ViolationError
from simulation.outcome import Outcome
from simulation.people import People
from simulation.quick import no_exit, quick_archiver, quick_passwords
from simulation.settings import POLICIES
from simulation.visitors import Visitor
from simulation.workload import LOST, STREAM, TOPICS, Worker

CLIENTS = 7
VISITORS = 2  # of them
OPERATIONS_A_LIFE = 44
INDEX_ROT = 0.4  # of the starts find an index with a bit flipped: that must never matter
LIMIT_S = 4000.0  # virtual
READY_LIMIT_S = 60.0
CALM_LIMIT_S = 15.0  # more than a hand-over may wait, on a slow disk
LATE_S = 0.5  # longer than anything takes through the network


class Scenario:
    """Runs in one schedule; `run` gives the outcome."""

    def __init__(
        self,
        seed: int,
        *,
        operations_a_life: int = OPERATIONS_A_LIFE,
        endings: tuple[str, ...] = ENDINGS,
        kept: int = 0,
    ) -> None:
        self.seed = seed
        self.chance = random.Random(f"scenario-{seed}")
        self.schedule = Schedule(seed, kept=kept)
        self.network = Network(self.schedule, seed)
        disk = FaultyDisk(self.schedule, seed)
        disk.make_folders("/mnt")
        disk.settle()
        shards = self.chance.choice((1, 2, 2, 2))
        self.oracle = Oracle()
        self.pauses = random.Random(f"policy-{seed}")
        self.policy = self.pauses.choice(list(POLICIES))
        self.oracle.count(self.policy)
        self.archive = SimulatedArchive(self.schedule, seed, self.oracle.count)
        self.archived = ArchiveOracle(self.archive, self.oracle, self._violated)
        world = self.schedule, self.network, disk, self.archive
        self.broker = SimulatedBroker(*world, policy=self.policy, shards_count=shards)
        self.oracle.kept = self.policy in ("archive, continuous", "archive, when due")
        self.oracle.gaps = self.policy == "archive, not waited for"
        disk.on_remove = lambda path: self.archived.leaves(self.broker.disk, path)
        self.operations_a_life = operations_a_life
        self.endings = list(endings)
        self.chance.shuffle(self.endings)
        self.operator = SimulatedLoop(self.schedule, "operator")
        self.people = People(self.oracle, random.Random(f"people-{seed}"))
        self.auditor = Auditor(
            SimulatedClient(self.network, self.operator, "auditor", seed),
            self.broker,
            self.oracle,
            self.people,
            self.chance,
        )
        self.ownership = Ownership(self.schedule)
        self.broker.on_edge = self.ownership.watch
        self.workers = [self._worker(number) for number in range(CLIENTS)]
        self.troubles = Troubles(self.broker, self.network, self.operator, self.chance)
        self.open = False  # clients may come in
        self.expected_end = self.power_cut_next = False  # the latter: what a crash is
        self.power_cut = False  # since the last audit
        self.violation: BaseException | None = None
        self.schedule.after_step = self._after_step

    def _worker(self, number: int) -> Worker:
        loop = SimulatedLoop(self.schedule, f"client{number}")
        client = SimulatedClient(self.network, loop, f"{number}", self.seed)
        if number >= CLIENTS - VISITORS:
            return Visitor(client, self.oracle, number, self.people)
        worker = (Admin if number == 0 else Worker)(client, self.oracle, number)
        worker.member.ownership = self.ownership
        if isinstance(worker, Admin):
            worker.people = self.people
        return worker

    # -- running -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        done: asyncio.Future[None] = self.operator.create_future()

        async def whole() -> None:
            try:
                await self._operate()
            except Exception as error:  # noqa: BLE001 - told by the outcome
                self._violated(error)
            if not done.done():
                done.set_result(None)

        self._done = done
        self.operator.call_soon(lambda: self.operator.create_task(whole()))
        for worker in self.workers:
            loop = worker.client.loop
            loop.call_soon(self._begin, worker)
        try:
            self.schedule.run_until(done, limit_s=LIMIT_S)
        except DeadlockError as error:
            self._violated(error)
        finally:
            self.broker.kill()
            for loop in (self.operator, *(worker.client.loop for worker in self.workers)):
                loop.kill()
        return self._outcome()

    def _begin(self, worker: Worker) -> None:
        worker.client.loop.create_task(self._work(worker))

    def _outcome(self) -> Outcome:
        error = self.violation
        return Outcome(
            self.seed,
            self.schedule.trace.digest,
            sum(worker.operations for worker in self.workers),
            self.broker.life,
            self.oracle.counts,
            dict(self.broker.disk.happened),
            "" if error is None else f"{type(error).__name__}: {error}",
            "" if error is None else "".join(traceback.format_exception(error)),
            self.schedule.trace.lines,
        )

    def _violated(self, error: BaseException) -> None:
        if self.violation is None:
            self.violation = error
            self.schedule.note("VIOLATION", error)
        if not self._done.done():
            self._done.set_result(None)

    def _after_step(self, loop: SimulatedLoop) -> None:
        broker = self.broker
        if broker.has_crashed and broker.loops and not broker.is_down:
            self.crash(power_cut=self.power_cut_next)

    def crash(self, *, power_cut: bool) -> None:
        """The machine, or all processes at once."""
        self.oracle.count("power cuts" if power_cut else "kills")
        self.power_cut = self.power_cut or power_cut
        self.broker.disk.stopped = True
        self.expected_end = True
        self.broker.crash(power_cut=power_cut)

    # -- the operator --------------------------------------------------------------------------

    async def _operate(self) -> None:
        rotting = {len(self.endings) - 2: ".log", self.chance.randint(1, 5): ".index"}
        before = ""
        for life, ending in enumerate([*self.endings, ""]):
            if life in rotting:
                self._rot(rotting[life])
            if life and self.chance.random() < INDEX_ROT:
                self._rot(".index")
            await self.start()
            if life == 0:
                await self.auditor.first()
            else:
                await self.audit(rot=before == "clean stop")
            if ending:
                if before == "clean stop":  # stored offsets are read with the first question
                    self.broker.disk.failing_reads = self.chance.randint(2, 8)
                await self._live()
                await pause(self)
                await self._end(ending)
            before = ending
        await archive_quiet(self)
        await lose_volume(self)
        self.auditor.client.disconnect()

    async def _end(self, ending: str) -> None:
        if ending == "clean stop":
            await self._calm_down()
        self.schedule.note("ending", ending)
        self.oracle.count(ending)
        await endings.end(self, ending)
        self.open = False
        await self.settle_down()
        if ending != HINDERED:
            self.broker.disk.make_well()

    async def start(self) -> None:
        """Start until it stays up: a machine may crash again while it starts, or its disk fail."""
        while True:
            disk = self.broker.disk
            hindered = bool(disk.failing_syncs or disk.failing_folder_syncs or disk.failing_reads)
            self.expected_end = hindered
            try:
                self.broker.start()
                await self._get_ready()
                await asyncio.sleep(1.0 if hindered else 0.0)
            except Crashed:
                self.crash(power_cut=self.power_cut_next)
            except (OSError, StorageFailed) as error:
                if not hindered:
                    raise
                self.schedule.note("cannot start", error)
            if self.broker.is_ready:
                self.broker.disk.crash_at = None  # the crash was meant for the start
                self.broker.disk.make_well()
                self.expected_end = False
                return
            if not self.expected_end:
                raise ViolationError(f"the broker does not start: {self._why()}")
            if hindered:
                self.oracle.count("starts that a failing disk stopped")
                self.broker.disk.make_well()
            self.broker.failures.clear()

    async def _get_ready(self) -> None:
        """Until it is ready, or down."""
        ready_by_s = self.schedule.now_s + READY_LIMIT_S
        await asyncio.sleep(0.001)
        while not self.broker.is_ready and not self.broker.is_down:
            if self.schedule.now_s > ready_by_s:
                raise ViolationError("the broker does not get ready")
            await asyncio.sleep(0.002)

    async def audit(self, *, rot: bool) -> None:
        """With no client in: everything is there. `rot`: a bit flips before anybody reads it."""
        self.archive.calm = True  # what the log has no more is read there
        topic = self._rot_while_running() if rot else ""
        await self.auditor.after_restart(power_cut=self.power_cut)
        self.archive.calm = False
        self.archived.look_through()
        self.power_cut = False
        if topic:
            await self.auditor.repair(topic)

    async def _calm_down(self) -> None:
        """Clients pause, then leave: hand-overs end by their time, memberships with sessions."""
        self.open = False
        waits = CALM_LIMIT_S
        await self.wait(lambda: not self.auditor.handovers_count() or self.broker.is_down, waits)
        if not self.broker.is_down and self.auditor.handovers_count():
            raise ViolationError("a hand-over does not end, and nobody hinders it")
        await self.wait(lambda: self._all_have_left() or self.broker.is_down, waits)
        if not self.broker.is_down and not self._all_have_left():
            raise ViolationError("members of groups are left, and nobody is connected")
        await self.wait(lambda: self.auditor.shards_agree() or self.broker.is_down, waits)
        if self.broker.is_down:
            raise ViolationError(f"the broker ended by itself: {self._why()}")
        self.auditor.check_agreement()
        await archive_quiet(self)

    def _all_have_left(self) -> bool:
        """Send clients away, also those that were just coming in; is no membership left?"""
        for worker in self.workers:
            worker.client.disconnect()
        return not self.auditor.members_count()

    async def _live(self) -> None:
        """Let clients work until enough is done, with small troubles on the way."""
        before = sum(worker.operations for worker in self.workers)
        self.open = True
        self.oracle.count(self.troubles.next())  # lives are more than kinds: none is left out
        while sum(worker.operations for worker in self.workers) - before < self.operations_a_life:
            await asyncio.sleep(self.chance.uniform(0.001, 0.03))
            if self.broker.is_down:
                raise ViolationError(f"the broker ended by itself: {self._why()}")
            if self.chance.random() < 0.35:
                self.oracle.count(self.troubles.next())

    def _rot(self, suffix: str) -> None:
        """Flip a bit while the broker is down."""
        rotten = rot(self.broker.disk, suffix, self.chance)
        if rotten is not None:
            self.oracle.count(f"rot in {suffix}")
            if suffix == ".log":
                self._damage(*rotten)

    def _rot_while_running(self) -> str:
        """Flip a bit in a log that nobody has read since the start; in which topic."""
        if (rotten := rot(self.broker.disk, ".log", self.chance, unread=True)) is None:
            return ""
        self.oracle.count("rot while running")
        return self._damage(*rotten)

    def _damage(self, topic: int, partition_id: int) -> str:
        key: Key = (STREAM, list(TOPICS)[topic], partition_id)
        self.oracle.partitions[key].damaged = True
        return key[1]

    async def settle_down(self) -> None:
        """All processes end, by themselves or killed as the supervisor does."""
        await self.wait(lambda: self.broker.is_down, 30.0)
        await asyncio.sleep(LATE_S)  # what was answered before the end is still under way
        if not self.broker.is_down:
            self.oracle.count("shards that had to be killed")
            self.broker.kill()
        known = ("sync failed", "cannot be synced", "input/output error")
        unexpected = [t for t in self.broker.failures if not any(one in t for one in known)]
        if unexpected:
            raise ViolationError("; ".join(unexpected))

    async def wait(self, reached: Callable[[], bool], limit_s: float) -> None:
        end_s = self.schedule.now_s + limit_s
        while not reached() and self.schedule.now_s < end_s:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)

    def _why(self) -> str:
        errors = [told(context) for loop in self.broker.loops for context in loop.errors]
        reasons = [one._failure for one in self.broker.shards if one._failure is not None]
        return "; ".join([*self.broker.failures, *reasons, *errors]) or f"codes {self.broker.codes}"

    # -- a client ------------------------------------------------------------------------------

    async def _work(self, worker: Worker) -> None:
        client, chance = worker.client, worker.chance
        while True:
            if not self.open:
                await asyncio.sleep(chance.uniform(0.01, 0.08))
                continue
            try:
                await self._act(worker)
            except ClientError as refusal:
                self.schedule.note(client.name, "refused", refusal)
                self.oracle.count("refusals")
            except LOST as error:
                await self._lost(client, error)
            except Exception as error:  # noqa: BLE001 - told by the outcome
                self._violated(error)
                return
            if chance.random() < 0.3:
                await asyncio.sleep(chance.uniform(0.0, 0.01))

    async def _act(self, worker: Worker) -> None:
        client, chance = worker.client, worker.chance
        if not client.is_connected or chance.random() < 0.01:
            await worker.enter(chance.randrange(self.broker.shards_count))
            if not client.is_connected:
                return  # not let in
        self.schedule.note(client.name, await worker.act())

    async def _lost(self, client: SimulatedClient, error: Exception) -> None:
        if client.is_connected and isinstance(error, LinkError):
            self._violated(ViolationError(f"client {client.name}: {error}"))
        self.schedule.note(client.name, "lost", error)
        self.oracle.count("lost connections")
        client.disconnect()
        await asyncio.sleep(client.chance.uniform(0.001, 0.02))


def run_seed(
    seed: int,
    *,
    operations_a_life: int = OPERATIONS_A_LIFE,
    endings: tuple[str, ...] = ENDINGS,
    kept: int = 0,
    plant: Callable[[], AbstractContextManager[None]] | None = None,
) -> Outcome:
    """One seed from start to end. `plant` is a bug to be found."""
    with ExitStack() as stack:
        stack.enter_context(quick_passwords(seed))
        if plant is not None:
            stack.enter_context(plant())
        stack.enter_context(quick_archiver(seed))
        stack.enter_context(no_exit())
        disabled = logging.root.manager.disable
        stack.callback(logging.disable, disabled)
        logging.disable(logging.CRITICAL)
        scenario = Scenario(seed, operations_a_life=operations_a_life, endings=endings, kept=kept)
        try:
            return scenario.run()
        except BaseException as error:  # whatever it was: a run of many seeds must name this one
            if isinstance(error, KeyboardInterrupt):
                raise
            told = "".join(traceback.format_exception(error))
            return Outcome(seed, violation=f"the simulation failed: {error!r}", why=told)
