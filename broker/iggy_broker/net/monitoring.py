"""The read-only listener: /ping, /ready and /metrics. No login, no message data."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response
from aiohttp.web_server import Server

from iggy_broker.metrics import SharedCounters
from iggy_broker.metrics_text import OPENMETRICS, TEXT, single
from iggy_broker.net.context import Services
from iggy_broker.net.scrape import Scrape, text_of

CLOSE_S: Final = 2.0  # for answers that are being written as the broker stops

_METHODS: Final = ("GET", "HEAD")
_OPEN_TYPE: Final = OPENMETRICS.partition(";")[0]


class Monitoring:
    """Serves figures of the whole broker from shard 0."""

    def __init__(self, services: Services, shared: SharedCounters) -> None:
        """Nothing listens yet."""
        self._shared = shared
        self._scrape = Scrape(services, shared)
        self._server = Server(self._answer, access_log=None)
        self._listening: asyncio.AbstractServer | None = None
        self._requests = 0
        self._routes: dict[str, Callable[[BaseRequest], Awaitable[Response]]] = {
            "/ping": self._ping,
            "/ready": self._ready,
            "/metrics": self._metrics,
        }

    async def start(self, sock: socket.socket) -> None:
        """Listen on a bound socket."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._server, sock=sock)

    async def close(self) -> None:
        """Stop listening."""
        self._scrape.close()
        if self._listening is not None:
            self._listening.close()
        self._server.pre_shutdown()
        await self._server.shutdown(CLOSE_S)

    async def _answer(self, request: BaseRequest) -> Response:
        self._requests += 1
        route = self._routes.get(request.path)
        if route is None:
            return Response(status=404, text="404: Not Found")
        if request.method not in _METHODS:
            headers = {"Allow": ",".join(_METHODS)}
            return Response(status=405, text="405: Method Not Allowed", headers=headers)
        return await route(request)

    async def _ping(self, request: BaseRequest) -> Response:
        return Response(text="pong\n")

    async def _ready(self, request: BaseRequest) -> Response:
        waiting = [
            shard for shard, is_ready in enumerate(self._shared.values("ready")) if not is_ready
        ]
        if waiting:
            text = f"recovering or stopping: shards {waiting}\n"
            return Response(status=503, text=text)
        return Response(text="ready\n")

    async def _metrics(self, request: BaseRequest) -> Response:
        is_open = _OPEN_TYPE in request.headers.get("Accept", "")
        found = await self._scrape.collect()
        description = "Requests to the listener of probes and metrics."
        counted = single("iggy_http_requests_total", "counter", description, self._requests)
        text = await text_of([*found, counted], is_open=is_open)
        headers = {
            "Content-Type": OPENMETRICS if is_open else TEXT,
            "X-Content-Type-Options": "nosniff",
        }
        return Response(body=text, headers=headers)
