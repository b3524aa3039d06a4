"""The read-only listener: /ping, /ready and /metrics. No login, no message data."""

from __future__ import annotations

import asyncio
import shutil
import socket
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from iggy_broker.metrics import SharedCounters
from iggy_broker.metrics_text import OPENMETRICS, TEXT, Family, end, lines, single
from iggy_broker.net import families
from iggy_broker.net.census import Census
from iggy_broker.net.context import Services

DISK_S_MAX: Final = 2.0  # a disk that takes longer to say how full it is is left out of the scrape
_OPEN_TYPE: Final = OPENMETRICS.partition(";")[0]


class Monitoring:
    """Serves figures of the whole broker from shard 0."""

    def __init__(self, services: Services, shared: SharedCounters) -> None:
        """Nothing listens yet."""
        self._services = services
        self._shared = shared
        self._runner: web.AppRunner | None = None
        self._scrape: asyncio.Task[list[Family]] | None = None  # whoever asks meanwhile shares it
        self._scrape_s = 0.0  # how long the one before took
        self._requests = 0
        self._disk: asyncio.Task[tuple[int, int, int] | None] | None = None

    async def start(self, sock: socket.socket) -> None:
        """Listen on a bound socket."""
        app = web.Application(middlewares=[self._counted])
        app.router.add_get("/ping", self._ping)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.SockSite(self._runner, sock).start()

    async def close(self) -> None:
        """Stop listening."""
        for task in (self._scrape, self._disk):
            if task is not None:
                task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._requests += 1
        return await handler(request)

    async def _ping(self, request: web.Request) -> web.Response:
        return web.Response(text="pong\n")

    async def _ready(self, request: web.Request) -> web.Response:
        waiting = [
            shard for shard, is_ready in enumerate(self._shared.values("ready")) if not is_ready
        ]
        if waiting:
            text = f"recovering or stopping: shards {waiting}\n"
            return web.Response(status=503, text=text)
        return web.Response(text="ready\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.get_running_loop().create_task(self._collect())
        found = await asyncio.shield(self._scrape)
        is_open = _OPEN_TYPE in request.headers.get("Accept", "")
        written: list[str] = []
        for family in found:
            written += lines(family, is_open=is_open)
            await asyncio.sleep(0)  # some have thousands of series
        text = "\n".join([*written, *end(is_open=is_open), ""])
        headers = {
            "Content-Type": OPENMETRICS if is_open else TEXT,
            "X-Content-Type-Options": "nosniff",
        }
        return web.Response(body=text.encode(), headers=headers)

    async def _collect(self) -> list[Family]:
        """All metrics as of now."""
        loop, services = asyncio.get_running_loop(), self._services
        began_s = loop.time()
        heard = await services.observer.everywhere()
        census = Census(services, heard)
        await census.count()
        found = [
            *families.of_shards(self._shared),
            *census.families(),
            *families.of_metadata(services),
            *families.of_broker(services, len(heard.silent)),
            *families.of_certificates(services),
            *families.of_disk(await self._disk_usage()),
        ]
        description = "Requests to the listener of probes and metrics."
        name = "iggy_http_requests_total"
        found.append(single(name, "counter", description, self._requests))
        description = "How long it took to collect the metrics of the scrape before."
        found.append(single("iggy_scrape_seconds", "gauge", description, self._scrape_s))
        self._scrape_s = round(loop.time() - began_s, 6)
        return found

    async def _disk_usage(self) -> tuple[int, int, int] | None:
        """Total, used and free bytes. In a thread, one at a time: a disk may hang."""
        loop, path = asyncio.get_running_loop(), self._services.config.system.path
        asked = self._disk = self._disk or loop.create_task(_usage_of(path))
        await asyncio.wait([asked], timeout=DISK_S_MAX)
        if not asked.done():
            return None
        self._disk = None
        return asked.result()


async def _usage_of(path: Path) -> tuple[int, int, int] | None:
    try:
        return await asyncio.to_thread(shutil.disk_usage, path)
    except OSError:
        return None
