"""One shard: a process built from its parts, run, and closed in reverse order. The wiring is here.

The supervisor makes the `Plan` before it forks; everything with a loop, a thread or a file of its
own is made here, after the fork.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import uvloop

from iggy_broker import logs
from iggy_broker.config import Config
from iggy_broker.logs import event
from iggy_broker.maintenance import Maintenance, gate_of, indexes_of, with_older
from iggy_broker.metadata.info import InfoKeeper
from iggy_broker.metadata.journal import Journal
from iggy_broker.metadata.model import State
from iggy_broker.metadata.options import node_settings
from iggy_broker.metadata.replica import Follower, Replica, Writer
from iggy_broker.metrics import PUBLISH_INTERVAL_S, Counters, SharedCounters
from iggy_broker.net.context import Services
from iggy_broker.net.edge import CONNECTIONS_MAX, HEARTBEAT_STEP, STALL_CHECK_S, Edge
from iggy_broker.net.handlers.tokens import drop_expired_tokens
from iggy_broker.net.intake import Landing
from iggy_broker.net.listener import tls_of
from iggy_broker.net.observer import Observer
from iggy_broker.net.owner import ShardOwner
from iggy_broker.net.peers import Link, Links
from iggy_broker.net.pulse import ClockWatch, watch_loop
from iggy_broker.partition_host import OwnedPartitions
from iggy_broker.storage.cutting import DecisionKind
from iggy_broker.storage.disk import StorageFailed
from iggy_broker.storage.explain import explain
from iggy_broker.storage.partition import StorageParts
from iggy_broker.storage.partition_table import PartitionTable
from iggy_broker.storage.syncer import Syncer, run_saver
from iggy_broker.surroundings import Surroundings
from iggy_broker.transports import HttpSecrets, open_monitoring, open_transports
from iggy_wire.sealing import NO_KEYS, Keyring

if TYPE_CHECKING:
    from iggy_broker.net.tls import ListenerTls

logger = logging.getLogger(__name__)

EXIT_FAILED: Final = 70  # a shard died of a failed sync, a lost neighbour or a bug
LOOK_AFTER_S: Final = 1.0  # segments that waited go then, partitions that waited are opened
_DAMAGE: Final = frozenset({"damage_found", "segment_damaged", "offset_file_damaged"})
_STOP_STEP_S: Final = 0.01  # how often a stopping shard looks whether all is answered


@dataclass(frozen=True, slots=True)
class Plan:
    """What a shard gets from the supervisor, through the fork."""

    shard_id: int
    shards_count: int
    config: Config
    state: State  # metadata as recovered
    journal: Journal | None  # shard 0 only
    table: PartitionTable
    counters: SharedCounters
    listeners: dict[str, socket.socket]  # by name: bound, not listening
    monitoring: socket.socket | None  # shard 0 only
    links: dict[int, socket.socket]  # to every other shard
    doors: dict[int, socket.socket]  # to every other shard, for connections that move
    lifeline: int  # a pipe's reading end; its end means that the supervisor died
    ports: dict[str, int]  # by the same names
    started_at_us: int
    keys: Keyring = NO_KEYS
    http: HttpSecrets | None = None  # None: HTTP is off


def run_shard(plan: Plan) -> int:
    """Run one shard until it is told to stop; the exit code."""
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(Shard(plan, loop, Surroundings(loop)).run())
    finally:
        loop.close()


class Shard:
    """The parts of one shard and their lives."""

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop, around: Surroundings) -> None:
        """Nothing runs yet."""
        self._plan = plan
        self._around = around
        self._loop = loop
        self._stop = asyncio.Event()
        self._failure: str | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._parts = contextlib.AsyncExitStack()  # closed in reverse order of opening
        self._counters = Counters(plan.counters, plan.shard_id)

    async def run(self) -> int:
        """From recovery to the last marker of a clean stop."""
        self._loop.set_exception_handler(self._on_bug)
        self._around.watch(
            self._plan.lifeline, on_stop=self._stop.set, on_orphaned=self._on_supervisor_lost
        )
        try:
            edge = await self._build()
        except OSError as error:
            why = explain(error, str(self._plan.config.system.path))
            told = event("cannot_start")
            logger.critical("! shard %d cannot start: %s", self._plan.shard_id, why, extra=told)
            return EXIT_FAILED
        self._around.started()
        self._counters.ready = 1
        self._counters.publish()
        await self._stop.wait()
        if self._failure is None:
            await self._drain(edge)
        if self._failure is not None:
            # Nothing is certain any more. Go down at once; the next start recovers.
            told = event("shard_failed")
            logger.critical("! shard %d stops: %s", self._plan.shard_id, self._failure, extra=told)
            return EXIT_FAILED
        await self._parts.aclose()
        return 0 if self._failure is None else EXIT_FAILED

    # -- building ------------------------------------------------------------------------------

    async def _build(self) -> Edge:
        plan, around = self._plan, self._around
        syncer = around.syncer(self._on_storage_failed, self._counters)
        self._parts.callback(syncer.close)
        parts = StorageParts(
            around.disk, around.clock, plan.table, syncer, indexes_of(plan.config),
            warn=self._warn, gate=gate_of(plan.config), keys=plan.keys,
        )  # fmt: skip
        parts, close = with_older(plan.config, parts, around.archive_lane, self._counters)
        self._parts.callback(close)
        host = OwnedPartitions(
            str(plan.config.system.path),
            shard_id=plan.shard_id,
            shards_count=plan.shards_count,
            node=node_settings(plan.config),
            parts=parts,
            system=plan.config.system,
        )
        await self._recover(host)
        self._parts.push_async_callback(self._close_partitions, host, syncer)
        links = Links()
        replica = self._replica(host, links)
        services = Services(
            shard_id=plan.shard_id,
            shards_count=plan.shards_count,
            config=plan.config,
            clock=around.clock,
            replica=replica,
            table=plan.table,
            partitions=host.open,
            counters=self._counters,
            started_at_us=plan.started_at_us,
            ports=plan.ports,
        )
        if tls_of(plan.config):
            services.certificates = self._follow_certificates()
        self._look_after_groups(host, services)
        landing = Landing()
        edge = self._edge(services, landing, links)
        services.observer = observer = Observer(edge, links, parts.indexes)
        self._parts.callback(observer.close)
        await self._connect(links, ShardOwner(services), landing)
        self._keep(self._publish())
        self._keep(watch_loop(self._counters))
        self._start_saver(host)
        self._maintain(host, replica, parts)
        if plan.monitoring is not None:
            await open_monitoring(services, plan.counters, plan.monitoring, self._parts)
        return await self._accept(edge)

    async def _recover(self, host: OwnedPartitions) -> None:
        clock, counters, found = self._around.clock, self._counters, host.recovery
        began_us = clock.monotonic_us()
        await host.open_all(self._plan.state)
        counters.recovery_seconds = clock.monotonic_us() - began_us
        counters.recovery_partitions = found.partitions
        counters.recovery_messages = found.messages
        counters.recovery_cut_bytes = found.cut_bytes
        counters.damaged_segments = found.damaged_segments
        for kind, count in found.decisions.items():
            counters.count("recovery_decisions", kind.name.lower(), count)
        counters.count("checksum_errors_total", "disk", found.decisions[DecisionKind.DAMAGED])
        took_ms = counters.recovery_seconds // 1000
        logger.info(
            "= %d partitions with %d messages are open",
            found.partitions,
            found.messages,
            extra=event(
                "recovered",
                partitions=found.partitions,
                messages=found.messages,
                cut_bytes=found.cut_bytes,
                decisions={kind.name.lower(): count for kind, count in found.decisions.items()},
                took_ms=took_ms,
            ),
        )

    def _warn(self, text: str) -> None:
        """What storage met."""
        if isinstance(text, logs.Note) and text.event in _DAMAGE:
            self._counters.count("checksum_errors_total", "disk")
        logs.warn(text)

    def _replica(self, host: OwnedPartitions, links: Links) -> Replica:
        plan = self._plan
        if plan.journal is None:
            return Follower(plan.state, host=host, links=links)
        writer = Writer(
            plan.state,
            host=host,
            journal=plan.journal,
            links=links,
            clock=self._around.clock,
            in_flight=plan.table.in_flight,
        )
        self._keep(writer.run())
        root = str(plan.config.system.path)
        info = InfoKeeper(self._around.disk, root, lambda: writer.state)
        self._keep(info.run())
        self._parts.callback(info.look)
        self._parts.callback(plan.journal.close)
        return writer

    async def _connect(self, links: Links, owner: ShardOwner, landing: Landing) -> None:
        for peer, sock in self._plan.links.items():
            link = Link(peer, owner, loop=self._loop, landing=landing, on_lost=self._on_lost)
            await self._around.connect(link, sock)
            links.add(link)
        self._parts.callback(links.close)

    def _edge(self, services: Services, landing: Landing, links: Links) -> Edge:
        self._parts.callback(services.passwords.close)
        return Edge(
            services,
            loop=self._loop,
            landing=landing,
            links=links,
            connections_max=min(self._around.connections_max(), CONNECTIONS_MAX),
        )

    async def _accept(self, edge: Edge) -> Edge:
        config = self._plan.config
        self._keep(self._close_stalled(edge))
        if config.heartbeat.enabled:
            self._keep(self._listen_for_heartbeats(edge))
        cleaner = config.personal_access_token.cleaner
        if self._plan.shard_id == 0 and cleaner.enabled:
            self._keep(drop_expired_tokens(edge.services, interval_us=cleaner.interval_us))
        edge.doors = self._around.doors(edge, self._plan.doors)
        edge.doors.open()
        self._parts.callback(edge.doors.close)
        plan = self._plan
        await open_transports(edge, self._around, plan.listeners, self._parts, http=plan.http)
        return edge

    def _follow_certificates(self) -> Mapping[str, ListenerTls]:
        # Large; the supervisor has imported it.
        from iggy_broker.net.tls import Certificates

        certificates = Certificates(self._plan.config, tells=self._plan.shard_id == 0)
        self._keep(certificates.watch())
        return certificates.listeners

    def _start_saver(self, host: OwnedPartitions) -> None:
        saver = self._plan.config.system.partition.message_saver
        if saver.enabled and saver.enforce_fsync:
            interval_ms = max(1, saver.interval_us // 1000)
            self._keep(run_saver(lambda: list(host.open.values()), interval_ms=interval_ms))

    def _maintain(self, host: OwnedPartitions, replica: Replica, parts: StorageParts) -> None:
        maintenance = Maintenance(
            self._plan.config,
            state=lambda: replica.state,
            partitions=host.open,
            parts=parts,
            counters=self._counters,
        )
        self._parts.callback(lambda: maintenance.close())
        is_first, lane = self._plan.shard_id == 0, self._around.archive_lane
        for work in maintenance.works(is_first=is_first, archive_lane=lane):
            self._keep(work)

    def _look_after_groups(self, host: OwnedPartitions, services: Services) -> None:
        host.on_released = services.members.release
        self._parts.callback(services.members.close)
        self._keep(self._look_after_partitions(host))
        if self._plan.shard_id == 0:
            timeout_us = self._plan.config.consumer_group.rebalancing_timeout_us
            self._keep(services.members.run_timeouts(timeout_us))

    async def _look_after_partitions(self, host: OwnedPartitions) -> None:
        while True:
            await asyncio.sleep(LOOK_AFTER_S)
            host.look_after()

    async def _publish(self) -> None:
        clock = ClockWatch(self._around.clock, self._counters)
        while True:
            await asyncio.sleep(PUBLISH_INTERVAL_S)
            if self._plan.shard_id == 0:
                clock.look()
            self._counters.log_lines_suppressed_total = logs.LIMITER.suppressed_total
            logs.tell_suppressed()
            self._counters.publish()

    async def _close_stalled(self, edge: Edge) -> None:
        while True:
            await asyncio.sleep(STALL_CHECK_S)
            edge.close_stalled()

    async def _listen_for_heartbeats(self, edge: Edge) -> None:
        step_s = self._plan.config.heartbeat.interval_us / 1_000_000 * HEARTBEAT_STEP
        while True:
            await asyncio.sleep(step_s)
            edge.send_away_silent()

    def _keep(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run `work` as long as the shard lives; what it raises stops the shard."""
        task = self._loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._on_task_done)
        self._parts.callback(task.cancel)

    # -- stopping ------------------------------------------------------------------------------

    async def _drain(self, edge: Edge) -> None:
        """Answer what is being served, then close the clients; bounded."""
        self._counters.ready = 0
        self._counters.publish()
        edge.doors = None
        timeout_us = self._plan.config.system.sharding.shutdown_drain_timeout_us
        deadline = self._loop.time() + timeout_us / 1_000_000
        while edge.connections and self._failure is None and self._loop.time() < deadline:
            for connection in list(edge.connections):
                edge.waits.end(connection)
                if connection.idle and connection not in edge.waits:
                    connection.close()
            await asyncio.sleep(_STOP_STEP_S)
        for connection in list(edge.connections):
            connection.abort()
        await edge.services.http.close(max(0.0, deadline - self._loop.time()))
        # Other shards may still wait for us to serve their last frames.
        self._counters.drained = 1
        self._counters.publish()
        for _ in range(int(timeout_us / 1_000_000 / _STOP_STEP_S)):
            if self._plan.counters.all_set("drained") or self._failure is not None:
                break
            await asyncio.sleep(_STOP_STEP_S)

    async def _close_partitions(self, host: OwnedPartitions, syncer: Syncer) -> None:
        """Leave the markers of a clean stop, unless a sync failed: they say that all is durable."""
        syncer.close()  # after this, the results of all syncs wait for their turn of the loop
        await asyncio.sleep(0)
        if self._failure is None:
            host.close(self._around.threads)

    def _on_supervisor_lost(self) -> None:
        # As if we were killed too: a broker without its supervisor must not linger on the volume.
        self._around.die(EXIT_FAILED)

    def _on_lost(self, peer: int) -> None:
        # Who stops says first that it is done. Whoever goes without that answers nobody any more.
        if not self._plan.counters.values("drained")[peer]:
            self._fail(f"shard {peer} is gone")

    def _on_storage_failed(self, failure: StorageFailed) -> None:
        self._fail(str(failure))

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error, "a background task failed")

    def _on_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._on_error(context.get("exception"), context.get("message", "bug"))

    def _on_error(self, error: BaseException | None, what: str) -> None:
        if isinstance(error, StorageFailed):  # no bug: why, and not where, is what people need
            self._on_storage_failed(error)
            return
        logger.critical("! %s", what, exc_info=error, extra=event("shard_failed"))
        self._fail(f"{what}: {type(error).__name__}: {error}")

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._stop.set()
