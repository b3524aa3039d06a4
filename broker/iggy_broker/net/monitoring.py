"""The read-only listener: /ping, /ready and /metrics. No login, no message data."""

from __future__ import annotations

import socket
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from iggy_broker.metrics import SharedCounters
from iggy_broker.metrics_text import OPENMETRICS, TEXT, single
from iggy_broker.net.context import Services
from iggy_broker.net.scrape import Scrape, text_of

_OPEN_TYPE: Final = OPENMETRICS.partition(";")[0]


class Monitoring:
    """Serves figures of the whole broker from shard 0."""

    def __init__(self, services: Services, shared: SharedCounters) -> None:
        """Nothing listens yet."""
        self._shared = shared
        self._scrape = Scrape(services, shared)
        self._runner: web.AppRunner | None = None
        self._requests = 0

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
        self._scrape.close()
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
        is_open = _OPEN_TYPE in request.headers.get("Accept", "")
        found = await self._scrape.collect()
        description = "Requests to the listener of probes and metrics."
        counted = single("iggy_http_requests_total", "counter", description, self._requests)
        text = await text_of([*found, counted], is_open=is_open)
        headers = {
            "Content-Type": OPENMETRICS if is_open else TEXT,
            "X-Content-Type-Options": "nosniff",
        }
        return web.Response(body=text, headers=headers)
