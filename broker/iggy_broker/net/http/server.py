"""The HTTP server of one shard: connections, their limits, and the parts behind them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from aiohttp.web_server import Server

from iggy_broker.logs import event
from iggy_broker.net.http import (
    openapi,
    routes_deferred,
    routes_messages,
    routes_streams,
    routes_system,
    routes_users,
)
from iggy_broker.net.http.app import App
from iggy_broker.net.http.auth import Auth
from iggy_broker.net.http.commands import Commands
from iggy_broker.net.http.issuers import Issuers, fetch
from iggy_broker.net.http.jwts import Jwts
from iggy_broker.net.http.limits import (
    CONNECTIONS_MAX,
    FIELD_BYTES_MAX,
    FIRST_REQUEST_S,
    KEPT_ALIVE_S,
    LINGER_S,
    UNREAD_BYTES_MAX,
    UNREAD_S,
)
from iggy_broker.net.http.metrics import HttpMetrics
from iggy_broker.net.http.problems import of_status
from iggy_broker.net.http.revocations import Revocations
from iggy_broker.net.http.routing import Route

if TYPE_CHECKING:
    from iggy_broker.config_http import Http
    from iggy_broker.net.edge import Edge

logger = logging.getLogger(__name__)

_CLOSED: Final = "connections_closed_total"
_LOOK_S: Final = 5.0  # how often it is looked who has not sent a request yet


def routes_of(settings: Http) -> tuple[Route, ...]:
    """All routes that these settings serve."""
    found: tuple[Route, ...] = (
        *routes_system.ROUTES, *routes_users.ROUTES, *routes_streams.ROUTES,
        *routes_messages.ROUTES,
    )  # fmt: skip
    if settings.strict_compat:
        found = tuple(route.as_original() for route in found)
    else:
        found += routes_deferred.ROUTES
    if not settings.metrics.enabled:
        return found
    return (*found, routes_system.metrics_route(settings.metrics.endpoint))


class Listening(Protocol):
    """What accepts connections."""

    def close(self) -> None:
        """Accept no more."""
        ...


class HttpServer:
    """Makes a protocol for every connection; `shard.py` has it listen."""

    def __init__(self, edge: Edge, *, secret: bytes, revoked: dict[str, int]) -> None:
        """`secret` signs tokens, `revoked` are those of earlier lives."""
        services, settings = edge.services, edge.services.config.http
        clock = services.clock
        # Of the shard's descriptors; clients of the binary protocol have the others.
        self._connections_max = min(CONNECTIONS_MAX, edge.connections_max // 4)
        edge.connections_max -= self._connections_max
        self._counters = services.counters
        revocations = Revocations(services.config.system.path, revoked, clock)
        jwts = Jwts(settings.jwt, secret, clock)
        skew_us = settings.jwt.clock_skew_us
        issuers = Issuers(settings.jwt.trusted_issuers, skew_us=skew_us, clock=clock, fetch=fetch)
        self.auth = Auth(services, edge.links, jwts, issuers, revocations)
        routes = routes_of(settings)
        metrics = HttpMetrics(services, services.counters.shared)
        self.app = App(
            settings,
            routes=routes,
            commands=Commands(edge),
            auth=self.auth,
            metrics=metrics.answer,
            openapi=lambda: openapi.described(routes),
        )
        self.listening: Listening | None = None  # whoever opens us sets it
        self._connections: dict[RequestHandler, float] = {}  # since when without a request, or 0
        self._unread: dict[_Connection, tuple[int, float]] = {}  # bytes, and since when so many
        self._server = _Server(self, self._serve)
        self._looking = asyncio.get_running_loop().create_task(self._look())

    def __call__(self) -> RequestHandler:
        """The protocol of a new connection."""
        return self._server()

    async def _serve(self, request: BaseRequest) -> Response:
        self._connections[request.protocol] = 0.0
        if self._unread and self.unread_bytes > UNREAD_BYTES_MAX:
            return self.app.busy(request, "too many answers are not taken by their clients")
        return await self.app.serve(request)

    @property
    def unread_bytes(self) -> int:
        """Answers in memory that their clients have not taken yet."""
        return sum(connection.unread_bytes for connection in self._unread)

    def clogged(self, connection: _Connection) -> None:
        """The client takes its answer slowly, or not at all."""
        self._unread[connection] = connection.unread_bytes, asyncio.get_running_loop().time()

    def drained(self, connection: _Connection) -> None:
        """It has taken it."""
        self._unread.pop(connection, None)

    def opened(self, connection: RequestHandler) -> bool:
        """Count a new connection; False if there are too many and it must go."""
        if len(self._connections) >= self._connections_max:
            self._counters.connections_refused_total += 1
            told = event("connection_refused", connections_max=self._connections_max)
            logger.warning(
                "! %d HTTP connections: a new one is closed", self._connections_max, extra=told
            )
            return False
        self._connections[connection] = asyncio.get_running_loop().time()
        self._counters.http_api_connections = len(self._connections)
        return True

    def closed(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._connections.pop(connection, None)
        self.app.waits.end(connection)
        self._unread.pop(connection, None)
        self._counters.http_api_connections = len(self._connections)

    def hear(self, question: bytes) -> bool:
        """Another shard tells something: whether it was about a logout."""
        return self.auth.hear(question)

    async def close(self, timeout_s: float) -> None:
        """Let nobody in any more, answer what is being served for so long, close all."""
        if self.listening is not None:
            self.listening.close()
        self.app.waits.end_all()
        self._looking.cancel()
        self._server.pre_shutdown()
        await self._server.shutdown(timeout_s)

    async def _look(self) -> None:
        """Close those who take too long to ask anything."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            self._counters.http_api_unread_bytes = self.unread_bytes
            self._close_unread(loop.time())
            since_s = loop.time() - FIRST_REQUEST_S
            for connection in [one for one, at in self._connections.items() if 0 < at < since_s]:
                self._counters.count(_CLOSED, "slow")
                told = event("connection_closed")
                logger.info("! an HTTP client that asked nothing was closed", extra=told)
                connection.force_close()

    def _close_unread(self, now_s: float) -> None:
        """Close those who have taken nothing of an answer for too long."""
        for connection, (before, since_s) in list(self._unread.items()):
            size_bytes = connection.unread_bytes
            if size_bytes != before:
                self._unread[connection] = size_bytes, now_s
            elif now_s - since_s > UNREAD_S:
                self._counters.count(_CLOSED, "unread")
                told = event("connection_closed")
                logger.info("! an HTTP client that takes no answer was closed", extra=told)
                connection.abort()


class _Server(Server):
    """aiohttp's, with protocols of ours."""

    def __init__(self, owner: HttpServer, serve: Callable[[BaseRequest], Any]) -> None:
        super().__init__(serve)
        self._owner = owner

    def __call__(self) -> RequestHandler:
        return _Connection(self._owner, self)


class _Connection(RequestHandler):
    """One connection. What aiohttp cannot parse is answered in our words."""

    __slots__ = ("_owner",)

    def __init__(self, owner: HttpServer, server: _Server) -> None:
        # Bodies are taken as they come: a compressed one is no JSON, and cannot grow in here.
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEPT_ALIVE_S,
            access_log=None,  # type: ignore[arg-type] # as documented
            auto_decompress=False,
            max_field_size=FIELD_BYTES_MAX,
            lingering_time=LINGER_S,
            logger=logger,
        )
        self._owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Unless there are too many."""
        super().connection_made(transport)
        if not self._owner.opened(self):
            self.force_close()

    @property
    def unread_bytes(self) -> int:
        """What the client has not taken yet."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """An answer is larger than what the client takes at once."""
        super().pause_writing()
        self._owner.clogged(self)

    def resume_writing(self) -> None:
        """It has taken most of it."""
        super().resume_writing()
        self._owner.drained(self)

    def abort(self) -> None:
        """Close now, whatever was to be sent."""
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client is gone."""
        self._owner.closed(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """A request that is no HTTP, or a bug of ours. Nothing of the request is repeated."""
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            logger.critical("! an HTTP request failed", exc_info=exc, extra=event("http_failed"))
        phrase = HTTPStatus(status).phrase
        code = phrase.lower().replace(" ", "_").replace("-", "_")
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun")
        reply = of_status(status, code, phrase)
        response = Response(status=status, body=reply.body, content_type=reply.content_type)
        response.force_close()
        return response
