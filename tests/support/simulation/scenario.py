"""One seed: a broker, its clients, and everything that can go wrong, life after life."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from iggy_client import calls
from iggy_client.errors import ClientError, LinkError
from simulated_disk import Crashed
from simulation.broker import SimulatedBroker, quick_passwords
from simulation.clients import SimulatedClient
from simulation.disk import FaultyDisk
from simulation.faults import Troubles, rot
from simulation.loop import DeadlockError, Schedule, SimulatedLoop
from simulation.network import Network
from simulation.oracle import Key, Oracle, ViolationError
from simulation.workload import LOST, STREAM, TOPICS, Worker, make_topics, read_all

CLIENTS = 5
OPERATIONS_A_LIFE = 72
LIMIT_S = 4000.0  # virtual
READY_LIMIT_S = 60.0
LATE_S = 0.5  # longer than anything takes through the network

ENDINGS = (
    "power cut at an operation",
    "power cut",
    "killed",
    "killed at an operation",
    "failed sync",
    "a shard dies",
    "clean stop",
    "crash while starting",
)


@dataclass
class Outcome:
    """What one seed came to."""

    seed: int
    digest: str
    operations: int
    lives: int
    counts: dict[str, int] = field(default_factory=dict)
    violation: str = ""
    trace: list[str] = field(default_factory=list)


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
        self.broker = SimulatedBroker(self.schedule, self.network, disk, shards_count=shards)
        self.oracle = Oracle()
        self.operations_a_life = operations_a_life
        self.endings = list(endings)
        self.chance.shuffle(self.endings)
        self.operator = SimulatedLoop(self.schedule, "operator")
        self.auditor = SimulatedClient(self.network, self.operator, "auditor", seed)
        self.workers = [
            Worker(
                SimulatedClient(
                    self.network, SimulatedLoop(self.schedule, f"client{n}"), f"{n}", seed
                ),
                self.oracle,
                n,
            )
            for n in range(CLIENTS)
        ]
        self.troubles = Troubles(self.broker, self.network, self.operator, self.chance)
        self.open = False  # clients may come in
        self.expected_end = False
        self.power_cut_next = False  # what a crash at an operation is
        self.power_cut = False  # since the last audit
        self.violation: BaseException | None = None
        self.schedule.after_step = self._after_step

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
            "" if error is None else f"{type(error).__name__}: {error}",
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
            self._crash(power_cut=self.power_cut_next)

    def _crash(self, *, power_cut: bool) -> None:
        self.oracle.count("power cuts" if power_cut else "kills")
        self.power_cut = self.power_cut or power_cut
        self.broker.disk.stopped = True
        self.expected_end = True
        self.broker.crash(power_cut=power_cut)

    # -- the operator --------------------------------------------------------------------------

    async def _operate(self) -> None:
        rotting = {len(self.endings) - 2: ".log", self.chance.randint(1, 5): ".index"}
        for life, ending in enumerate([*self.endings, ""]):
            if life in rotting:
                self._rot(rotting[life])
            await self._start()
            await self._audit(first=life == 0)
            if not ending:
                break
            if not await self._live():
                self.open = False
                await self._settle_down()
                await self._start()
                await self._audit(first=False)
                await self._live()
            self.schedule.note("ending", ending)
            self.oracle.count(ending)
            await self._end(ending)
            self.open = False
            await self._settle_down()
        await self._finish()

    async def _start(self) -> None:
        """Start until it stays up: a machine may crash again while it starts."""
        while True:
            self.expected_end = False
            try:
                self.broker.start()
            except Crashed:
                self._crash(power_cut=self.power_cut_next)
                continue
            ready_by_s = self.schedule.now_s + READY_LIMIT_S
            await asyncio.sleep(0.001)
            while not self.broker.is_ready and not self.broker.is_down:
                if self.schedule.now_s > ready_by_s:
                    raise ViolationError("the broker does not get ready")
                await asyncio.sleep(0.002)
            if self.broker.is_ready:
                self.broker.disk.crash_at = None  # the crash was meant for the start
                return
            if not self.expected_end:
                raise ViolationError(f"the broker does not start: {self._why()}")

    async def _audit(self, *, first: bool) -> None:
        """With no client in: everything is there, the same on every shard."""
        client, oracle = self.auditor, self.oracle
        await client.connect(0)
        if first:
            await make_topics(client, oracle)
            self._check_agreement()
            return
        await self._audit_streams()
        synced = not self.broker.disk.failed_syncs
        for key in list(oracle.partitions):
            if key not in oracle.partitions:
                continue
            if self.chance.random() < 0.3:
                await client.connect(self.chance.randrange(self.broker.shards_count))
            try:
                found = await read_all(client, key)
            except ClientError as refusal:
                if not oracle.partitions[key].damaged:
                    raise ViolationError(f"{key} cannot be read: {refusal}") from refusal
                continue
            oracle.restarted(key, found, power_cut=self.power_cut, synced_at_start=synced)
        self.power_cut = False
        self._check_agreement()

    async def _audit_streams(self) -> None:
        oracle = self.oracle
        for shard in range(self.broker.shards_count):
            await self.auditor.connect(shard)
            names = {stream.name for stream in await self.auditor.call(calls.get_streams())}
            oracle.streams_settled(names)
        for key in [key for key in oracle.partitions if not oracle.streams[key[0]]]:
            del oracle.partitions[key]

    def _check_agreement(self) -> None:
        states = [edge.services.replica.state for edge in self.broker.edges()]
        if any(state != states[0] for state in states):
            raise ViolationError("shards disagree on metadata, and nothing is under way")

    async def _live(self) -> bool:
        """Let clients work until enough is done, with small troubles on the way."""
        before = sum(worker.operations for worker in self.workers)
        self.open = True
        while sum(worker.operations for worker in self.workers) - before < self.operations_a_life:
            await asyncio.sleep(self.chance.uniform(0.001, 0.03))
            if self.broker.is_down:
                if "no space left" in self._why():
                    self.oracle.count("ended by a full disk")
                    self.broker.failures.clear()
                    return False
                raise ViolationError(f"the broker ended by itself: {self._why()}")
            if self.chance.random() < 0.35:
                self.oracle.count(self.troubles.next())
        return True

    def _rot(self, suffix: str) -> None:
        """Flip a bit while the broker is down."""
        rotten = rot(self.broker.disk, suffix, self.chance)
        if rotten is None:
            return
        if suffix == ".log":
            topic, partition_id = rotten
            key: Key = (STREAM, list(TOPICS)[topic], partition_id)
            self.oracle.partitions[key].damaged = True
        self.oracle.count(f"rot in {suffix}")

    async def _end(self, ending: str) -> None:
        chance, broker = self.chance, self.broker
        disk = broker.disk
        self.power_cut_next = ending.startswith("power") or chance.random() < 0.5
        if ending in ("power cut at an operation", "killed at an operation"):
            self.power_cut_next = ending.startswith("power")
            disk.crash_at = disk.operations + chance.randint(0, 120)
            await self._wait(lambda: broker.is_down, 5.0)
            if not broker.is_down:
                self._crash(power_cut=self.power_cut_next)
        elif ending in ("power cut", "killed"):
            self._crash(power_cut=ending == "power cut")
        elif ending == "failed sync":
            self.expected_end = True
            disk.failing_syncs = chance.randint(3, 5)  # that of a snapshot stops nobody
            await self._wait(lambda: broker.is_down, 10.0)
            disk.failing_syncs = 0
            if not broker.is_down:
                self._crash(power_cut=False)
        elif ending == "a shard dies":
            self.expected_end = True
            broker.kill_shard(chance.randrange(broker.shards_count))
        elif ending == "crash while starting":
            self._crash(power_cut=chance.random() < 0.5)
            self.broker.disk.crash_at = self.broker.disk.operations + chance.randint(0, 60)
            self.oracle.count("crashes while starting")
        else:
            self.expected_end = True
            broker.stop()

    async def _settle_down(self) -> None:
        """All processes end, by themselves or killed as the supervisor does."""
        await self._wait(lambda: self.broker.is_down, 30.0)
        await asyncio.sleep(LATE_S)  # what was answered before the end is still under way
        if not self.broker.is_down:
            self.oracle.count("shards that had to be killed")
            self.broker.kill()
        known = ("sync failed", "no space left")
        unexpected = [t for t in self.broker.failures if not any(one in t for one in known)]
        if unexpected:
            raise ViolationError("; ".join(unexpected))
        self.broker.disk.capacity_bytes = None
        self.broker.disk.failing_syncs = 0

    async def _wait(self, reached: Callable[[], bool], limit_s: float) -> None:
        end_s = self.schedule.now_s + limit_s
        while not reached() and self.schedule.now_s < end_s:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.005)

    def _why(self) -> str:
        errors = [str(context) for loop in self.broker.loops for context in loop.errors]
        reasons = [one._failure for one in self.broker.shards if one._failure is not None]
        return "; ".join([*self.broker.failures, *reasons, *errors]) or f"codes {self.broker.codes}"

    async def _finish(self) -> None:
        self.auditor.disconnect()

    # -- a client ------------------------------------------------------------------------------

    async def _work(self, worker: Worker) -> None:
        client, chance = worker.client, worker.chance
        while True:
            if not self.open:
                await asyncio.sleep(chance.uniform(0.001, 0.01))
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
            await client.connect(chance.randrange(self.broker.shards_count))
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
        stack.enter_context(quick_passwords())
        if plant is not None:
            stack.enter_context(plant())
        disabled = logging.root.manager.disable
        stack.callback(logging.disable, disabled)
        logging.disable(logging.CRITICAL)
        scenario = Scenario(seed, operations_a_life=operations_a_life, endings=endings, kept=kept)
        return scenario.run()
