"""The whole broker in one process: real shards and supervisor code in simulated surroundings."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any, cast

from iggy_broker import supervisor
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.metrics import Counters, SharedCounters
from iggy_broker.net.edge import Edge
from iggy_broker.net.handover import Doors
from iggy_broker.net.peers import Link
from iggy_broker.shard import Plan, Shard
from iggy_broker.storage.disk import StorageFailed
from iggy_broker.storage.partition_table import PartitionTable
from iggy_broker.storage.syncer import Lane, Syncer
from iggy_broker.surroundings import Closeable, Surroundings
from simulation.archive import SimulatedArchive, SimulatedLane
from simulation.disk import FaultyDisk
from simulation.doors import SimulatedDoor, SimulatedDoors
from simulation.loop import Inline, Schedule, SimulatedClock, SimulatedLoop, told
from simulation.network import Network, Socket, link_up, listen
from simulation.settings import ROOT, SLOTS, small_config


class EndedError(BaseException):
    """The process ended itself. Not an Exception: nobody may handle it."""


_Done = Callable[[OSError | None], None]


class SimulatedSyncer(Syncer):
    """Lanes without threads: work is done at one moment, and its end is told at a later one."""

    __slots__ = ("_done", "_free_s", "_numbers", "_queued", "_simulated")

    def __init__(
        self, disk: FaultyDisk, on_failed: Callable[[StorageFailed], None], loop: SimulatedLoop
    ) -> None:
        self.disk = disk
        self.on_failed = on_failed
        self.failure: StorageFailed | None = None
        self._loop = loop
        self._simulated = disk
        self._free_s = dict.fromkeys(Lane, 0.0)
        self._numbers = 0
        self._queued: dict[int, tuple[Callable[[], OSError | None], _Done]] = {}
        self._done: dict[int, tuple[_Done, OSError | None]] = {}

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[OSError | None], None]
    ) -> None:
        begins_s = max(self._free_s[lane], self._loop.time())
        ends_s = begins_s + self._simulated.sync_duration_s()
        self._free_s[lane] = ends_s
        moment_s = begins_s + (ends_s - begins_s) * self._simulated._delays.random()

        def run() -> OSError | None:
            try:
                work()
            except OSError as error:
                return error
            return None

        self._numbers += 1
        number = self._numbers
        self._queued[number] = (run, done)

        def at_the_moment() -> None:
            if (task := self._queued.pop(number, None)) is not None:
                self._done[number] = (done, task[0]())

        def at_the_end() -> None:
            if (result := self._done.pop(number, None)) is not None:
                result[0](result[1])

        self._loop.call_at(moment_s, at_the_moment)
        self._loop.call_at(ends_s, at_the_end)

    def close(self) -> None:
        """All is done when this returns; the loop hears of it in its next turn."""
        for number in sorted(self._queued):
            run, done = self._queued.pop(number)
            self._done[number] = (done, run())
        for number in sorted(self._done):
            tell, error = self._done.pop(number)
            self._loop.call_soon(tell, error)


class SimulatedSurroundings(Surroundings):
    """What one shard has of the simulated world."""

    def __init__(self, broker: SimulatedBroker, loop: SimulatedLoop, shard: int) -> None:
        self.loop = loop
        self.disk = broker.disk
        self.clock = broker.clock
        self.edge: Edge | None = None
        self.on_stop: Callable[[], None] = lambda: None
        self.on_orphaned: Callable[[], None] = lambda: None
        self._broker = broker
        self._simulated = loop
        self._shard = shard

    def syncer(self, on_failed: Callable[[StorageFailed], None], counters: Counters) -> Syncer:
        del counters
        return SimulatedSyncer(self._broker.disk, on_failed, self._simulated)

    def archive_lane(self, name: str, opened: Callable[[], ArchiveStore]) -> SimulatedLane:
        return SimulatedLane(self._broker.archive, self._broker.disk, self._simulated)

    def threads(self, count: int) -> Inline:
        return Inline()

    def connections_max(self) -> int:
        return 1000

    async def connect(self, link: Link, sock: Any) -> None:
        await link_up(link, cast(Socket, sock))

    async def listen(
        self, listener: Any, protocol: Callable[[], Any], context: object
    ) -> Closeable:
        del context
        return listen(self._broker.network, self._simulated, self._shard, protocol)

    def doors(self, edge: Edge, doors: dict[int, Any]) -> Doors:
        self.edge = edge
        self._broker.on_edge(edge)
        return SimulatedDoors(edge, doors)

    def watch(
        self, lifeline: int, *, on_stop: Callable[[], None], on_orphaned: Callable[[], None]
    ) -> None:
        self.on_stop, self.on_orphaned = on_stop, on_orphaned

    def started(self) -> None:
        """Nothing: this process goes on to start many."""

    def die(self, code: int) -> None:
        self._broker.died(self._shard, code)
        raise EndedError


class SimulatedBroker:
    """Life after life over one disk. Not running until `start`."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        disk: FaultyDisk,
        archive: SimulatedArchive,
        *,
        policy: str,
        shards_count: int,
    ) -> None:
        self.schedule = schedule
        self.network = network
        self.disk = disk
        self.archive = archive
        self.clock = SimulatedClock(schedule)
        self.shards_count = shards_count
        self.config = small_config(policy)
        self.life = 0
        self.loops: list[SimulatedLoop] = []
        self.around: list[SimulatedSurroundings] = []
        self.codes: dict[int, int] = {}  # exit codes of shards that ended
        self.failures: list[str] = []  # what background tasks and callbacks died of
        self.tasks: list[asyncio.Task[int]] = []
        self.shards: list[Shard] = []
        self.counters = SharedCounters(shards_count)
        self.on_edge: Callable[[Edge], None] = lambda edge: None  # a shard lets clients in

    def start(self) -> None:
        """What the supervisor does, up to the fork, and the shards' first step.

        Raises what stops a start. `simulated_disk.Crashed`: the machine stopped meanwhile.
        """
        self.life += 1
        self.codes = {}
        self.tasks = []
        self.shards = []
        self.schedule.note("start", self.life)
        self.disk.make_folders(ROOT)  # as `DirectoryLock` needs it
        state, journal = supervisor.recover(self.config, self.disk, self.clock)
        count = self.shards_count
        self.counters = SharedCounters(count)
        self.loops = [
            SimulatedLoop(self.schedule, f"shard{shard}.{self.life}") for shard in range(count)
        ]
        self.around = [
            SimulatedSurroundings(self, loop, shard) for shard, loop in enumerate(self.loops)
        ]
        links, doors = self._links()
        table = PartitionTable(SLOTS)
        for shard, loop in enumerate(self.loops):
            plan = Plan(
                shard_id=shard,
                shards_count=count,
                config=self.config,
                state=state,
                journal=journal if shard == 0 else None,
                table=table,
                counters=self.counters,
                listeners={"tcp": cast(Any, None)},
                monitoring=None,
                links=cast(Any, links[shard]),
                doors=cast(Any, doors[shard]),
                lifeline=-1,
                ports={"tcp": 8090},
                started_at_us=self.clock.now_us(),
            )
            loop.call_soon(self._run, plan)

    def _run(self, plan: Plan) -> None:
        shard = plan.shard_id
        loop = self.loops[shard]
        process = Shard(plan, loop, self.around[shard])
        self.shards.append(process)
        task = loop.create_task(process.run())
        self.tasks.append(task)

        def ended(task: asyncio.Task[int]) -> None:
            if task.cancelled():
                self.failures.append(f"shard {shard}: cancelled while {task.get_stack()}")
            elif (error := task.exception()) is not None:
                if not isinstance(error, Exception):
                    return  # the machine stopped
                told = "".join(traceback.format_exception(error)[-3:])
                self.failures.append(f"shard {shard} at start: {told}")
            code = 70 if task.cancelled() or task.exception() else task.result()
            self._ended(shard, code)

        task.add_done_callback(ended)

    def _links(self) -> tuple[list[dict[int, Socket]], list[dict[int, SimulatedDoor]]]:
        links: list[dict[int, Socket]] = [{} for _ in self.loops]
        doors: list[dict[int, SimulatedDoor]] = [{} for _ in self.loops]
        for one, loop in enumerate(self.loops):
            for other in range(one + 1, len(self.loops)):
                pair = self.network.pair(loop, self.loops[other], name="link")
                links[one][other], links[other][one] = pair
                seed = self.network.chance.getrandbits(40)
                here, there = SimulatedDoor(loop, seed), SimulatedDoor(self.loops[other], seed + 1)
                here.peer, there.peer = there, here
                doors[one][other], doors[other][one] = here, there
        return links, doors

    @property
    def is_ready(self) -> bool:
        return not self.is_down and self.counters.all_ready

    @property
    def is_down(self) -> bool:
        return all(loop.dead for loop in self.loops)

    @property
    def has_crashed(self) -> bool:
        return self.disk.stopped

    def edges(self) -> list[Edge]:
        return [around.edge for around in self.around if around.edge is not None]

    def stop(self) -> None:
        """SIGTERM."""
        self.schedule.note("SIGTERM")
        for around, loop in zip(self.around, self.loops, strict=True):
            if not loop.dead:
                loop.call_soon(around.on_stop)

    def kill_shard(self, shard: int) -> None:
        """One process dies by itself; the supervisor stops the others."""
        self._ended(shard, -9)

    def kill_supervisor(self) -> None:
        """The shards notice it, each in its time."""
        self.schedule.note("the supervisor is killed")
        for around, loop in zip(self.around, self.loops, strict=True):
            if not loop.dead:
                loop.call_later(self.network.chance.uniform(0.0, 0.01), around.on_orphaned)

    def died(self, shard: int, code: int) -> None:
        """A process ended itself, and leaves everything as it is."""
        loop = self.loops[shard]
        self.schedule.note("died", loop.name, code)
        self.codes[shard] = code
        loop.dead = True
        self.network.process_died(loop)
        loop.kill()

    def kill(self) -> None:
        """SIGKILL for all processes."""
        for loop in self.loops:
            loop.dead = True
        for loop in self.loops:
            self.network.process_died(loop)
        for loop in self.loops:
            loop.kill()

    def crash(self, *, power_cut: bool) -> None:
        """All stops at once; the next `start` is on what the disk has kept."""
        self.schedule.note("power cut" if power_cut else "killed")
        for loop in self.loops:
            loop.dead = True
        lost, self.disk = self.disk, self.disk.crash(power_cut=power_cut)
        assert lost.stopped
        self.kill()

    def _ended(self, shard: int, code: int) -> None:
        if self.has_crashed or self.loops[shard].dead:
            return
        loop = self.loops[shard]
        self.schedule.note("ended", loop.name, code)
        self.codes[shard] = code
        for context in loop.errors:
            self.failures.append(f"{loop.name}: {told(context)}")
        loop.dead = True
        self.network.process_died(loop)
        loop.kill()
        if code:
            self.stop()
