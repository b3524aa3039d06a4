"""The read-only listener: /ping, /ready and /metrics. No login, no message data, no disk access."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
from collections.abc import Iterator
from typing import Final

from aiohttp import web

from iggy_broker.metrics import FIELDS, SYNC_BUCKETS_S, SharedCounters
from iggy_broker.net.context import Services

PARTITION_SERIES_MAX: Final = 1000  # partitions with a series of their own; the rest is counted
_INTERNAL: Final = frozenset({"drained"})
_TEXT: Final = "text/plain"


class Monitoring:
    """Serves figures of the whole broker from shard 0."""

    def __init__(self, services: Services, shared: SharedCounters) -> None:
        """Nothing listens yet."""
        self._services = services
        self._shared = shared
        self._runner: web.AppRunner | None = None

    async def start(self, sock: socket.socket) -> None:
        """Listen on a bound socket."""
        app = web.Application()
        app.router.add_get("/ping", self._ping)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.SockSite(self._runner, sock).start()

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _ping(self, request: web.Request) -> web.Response:
        return web.Response(text="pong\n")

    async def _ready(self, request: web.Request) -> web.Response:
        waiting = [
            shard for shard, is_ready in enumerate(self._shared.values("ready")) if not is_ready
        ]
        if waiting:
            return web.Response(status=503, text=f"recovering: shards {waiting}\n")
        return web.Response(text="ready\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        text = "\n".join(exposition(self._services, self._shared)) + "\n"
        return web.Response(
            text=text, content_type=_TEXT, headers={"X-Content-Type-Options": "nosniff"}
        )


def exposition(services: Services, shared: SharedCounters) -> Iterator[str]:
    """All metrics as lines of Prometheus text, version 0.0.4."""
    for name, (kind, description) in FIELDS.items():
        if name not in _INTERNAL:
            values = shared.values(name)
            series = [(f'shard="{shard}"', value) for shard, value in enumerate(values)]
            yield from _metric(f"iggy_{name}", kind, description, series)
    yield from _syncs(shared)
    yield from _resources(services)
    yield from _disk(services)


def _syncs(shared: SharedCounters) -> Iterator[str]:
    yield "# HELP iggy_fsync_seconds How long syncs to the disk took."
    yield "# TYPE iggy_fsync_seconds histogram"
    for shard in range(shared.shards_count):
        counts, sum_us = shared.syncs(shard)
        label = f'shard="{shard}"'
        running = itertools.accumulate(counts)
        for bound, count in zip((*SYNC_BUCKETS_S, "+Inf"), running, strict=True):
            yield f'iggy_fsync_seconds_bucket{{{label},le="{bound}"}} {count}'
        yield f"iggy_fsync_seconds_sum{{{label}}} {sum_us / 1_000_000}"
        yield f"iggy_fsync_seconds_count{{{label}}} {sum(counts)}"


def _resources(services: Services) -> Iterator[str]:
    state, table = services.replica.state, services.table
    sizes: list[tuple[str, int]] = []
    segments: list[tuple[str, int]] = []
    total_segments = total_bytes = total_messages = partitions = topics = groups = 0
    for stream in state.streams_by_id():
        for topic in stream.topics_by_id():
            topics += 1
            groups += len(topic.groups)
            for partition in topic.partitions:
                figures = table.read(partition.slot)
                partitions += 1
                total_segments += figures.segments_count
                total_bytes += figures.size_bytes
                total_messages += figures.messages_count
                if len(sizes) < PARTITION_SERIES_MAX:
                    labels = f'stream="{stream.id}",topic="{topic.id}",partition="{partition.id}"'
                    segments.append((labels, figures.segments_count))
                    sizes.append((labels, figures.size_bytes))
    counts = {
        "streams": len(state.streams),
        "topics": topics,
        "partitions": partitions,
        "consumer_groups": groups,
        "users": len(state.users),
        "messages": total_messages,
        "segments_count": total_segments,
        "messages_size_bytes": total_bytes,
        "partition_series_omitted": partitions - len(sizes),
    }
    for name, value in counts.items():
        yield from _metric(
            f"iggy_{name}", "gauge", f"Current {name.replace('_', ' ')}.", [("", value)]
        )
    yield from _metric("iggy_partition_segments", "gauge", "Segments of a partition.", segments)
    yield from _metric("iggy_partition_size_bytes", "gauge", "Stored bytes of a partition.", sizes)


def _disk(services: Services) -> Iterator[str]:
    usage = shutil.disk_usage(services.config.system.path)
    disk = (("usage", usage.used), ("total", usage.total), ("free", usage.free))
    for name, value in disk:
        help_text = f"{name.capitalize()} bytes of the volume of the data directory."
        yield from _metric(f"iggy_disk_{name}_bytes", "gauge", help_text, [("", value)])
    uptime_us = services.clock.now_us() - services.started_at_us
    yield from _metric(
        "iggy_uptime_seconds", "gauge", "Age of the broker.", [("", uptime_us // 1_000_000)]
    )
    yield from _metric("iggy_process_id", "gauge", "Process of shard 0.", [("", os.getpid())])


def _metric(name: str, kind: str, description: str, series: list[tuple[str, int]]) -> Iterator[str]:
    yield f"# HELP {name} {description}"
    yield f"# TYPE {name} {kind}"
    for labels, value in series:
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
