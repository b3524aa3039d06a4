"""One request over HTTP, from its head to its answer: match, ask who, read, serve."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from iggy_broker.errors import Reject
from iggy_broker.net.http import bodies
from iggy_broker.net.http.call import Call
from iggy_broker.net.http.console.files import Console, is_console
from iggy_broker.net.http.cors import CorsHeaders
from iggy_broker.net.http.limits import InFlight
from iggy_broker.net.http.problems import (
    PATH_PREFIX,
    QUERY_PREFIX,
    Refusal,
    of_status,
    problem,
    unreadable,
)
from iggy_broker.net.http.query import CONSISTENCY, BadQuery, parse_query
from iggy_broker.net.http.reading import BodyReader
from iggy_broker.net.http.replies import JSON, Reply
from iggy_broker.net.http.routing import Route, Router, UndecodableSegment, allowed
from iggy_broker.net.http.waits import Waits
from iggy_wire.errors import WireError

if TYPE_CHECKING:
    from iggy_broker.config_http import Http
    from iggy_broker.net.http.auth import Asker, Auth
    from iggy_broker.net.http.commands import Commands

_SUCCESSES: Final = range(200, 400)
_VIEW: Final = ("iggy-view", "0")  # of a single node, always
_PING: Final = "/ping"
_SERVER: Final = ("server", "iggy-broker")


class App:
    """The routes of one shard and what their handlers work with."""

    def __init__(
        self,
        settings: Http,
        *,
        routes: Sequence[Route],
        commands: Commands,
        auth: Auth,
        metrics: Callable[[], Awaitable[Reply]],
        openapi: Callable[[], bytes],
    ) -> None:
        """`metrics` collects them anew; `openapi` is the description as JSON."""
        self.is_strict = settings.strict_compat
        self.commands = commands
        self.auth = auth
        self.metrics = metrics
        self.openapi = openapi
        self._router = Router(routes)
        self._cors = CorsHeaders(settings.cors)
        shown = settings.metrics.endpoint if settings.metrics.enabled else None
        self._console = Console(shown) if settings.web_ui else None
        self.waits = Waits(commands.services.counters)
        self._in_flight = InFlight()
        self._reader = BodyReader(self._in_flight, size_bytes_max=settings.max_request_size_bytes)

    async def serve(self, request: BaseRequest) -> Response:
        """The answer to a request, whatever it is."""
        commands = self.commands
        commands.services.counters.http_api_requests_total += 1
        target = request.raw_path if request.raw_path[:1] == "/" else request.rel_url.raw_path_qs
        path, _, query = target.partition("?")
        if self._console is not None and is_console(path):
            return self._console_file(request, path)
        try:
            reply = await self._answer(request, path, query)
        except Refusal as refusal:
            reply = refusal.reply
        except Reject as refusal:
            commands.services.counters.refused(refusal.code)
            reply = problem(refusal.code, refusal.detail)
        except WireError as malformed:
            commands.services.counters.refused(malformed.code)
            reply = problem(malformed.code, malformed.detail)
        return self._response(request, reply, is_viewed=path != _PING)

    def _console_file(self, request: BaseRequest, path: str) -> Response:
        """A file of the console: without a login, and not for scripts of other origins."""
        assert self._console is not None, "asked before"
        known = request.headers.get("If-None-Match", "")
        reply = self._console.reply(request.method, path, known)
        headers = [_SERVER, *reply.headers]
        if reply.content_type:
            headers.append(("content-type", reply.content_type))
        return Response(status=reply.status, body=reply.body, headers=headers)

    def busy(self, request: BaseRequest, reason: str) -> Response:
        """The answer to whatever is asked while there is too much to do."""
        return self._response(request, of_status(503, "server_busy", reason), is_viewed=False)

    async def _answer(self, request: BaseRequest, path: str, query: str) -> Reply:
        as_json = _wants_json(request)
        try:
            routes, values = self._router.find(path)
        except UndecodableSegment:
            text = f"{PATH_PREFIX}the path is not the percent-encoding of UTF-8"
            raise Refusal(unreadable(400, text, as_json=as_json)) from None
        if request.method == "OPTIONS" and self._cors.enabled:
            return Reply(200, headers=(("allow", allowed(routes)),) if routes else ())
        if not routes:
            return Reply(404)
        method = "GET" if request.method == "HEAD" else request.method
        route = routes.get(method)
        if route is None:
            return Reply(405, headers=(("allow", allowed(routes)),))
        asker = None
        if not route.is_public:
            asker = await self.auth.asker(request.headers.get("Authorization"))
        try:
            return await self._serve(request, route, asker, values, query)
        except BadQuery as bad:
            raise Refusal(unreadable(400, f"{QUERY_PREFIX}{bad}", as_json=as_json)) from None
        except bodies.BadBody as bad:
            raise Refusal(unreadable(bad.status, bad.text, as_json=as_json)) from None

    async def _serve(
        self, request: BaseRequest, route: Route, asker: Asker | None, values: list[str], query: str
    ) -> Reply:
        parameters = route.query
        if route.method == "GET" and route.is_consistent:
            parameters = (*parameters, CONSISTENCY)
        asked = parse_query(query, parameters) if parameters else {}
        body = None
        if route.body is not None:
            body = await self._reader.read(request, route.body, as_json=_wants_json(request))
        call = Call(
            self,
            values,
            asked,
            body,
            asker,
            request.remote or "",
            request.protocol,
            request.headers.get("Authorization"),
        )
        if asker is None or not route.is_write:
            return await route.handler(call)
        with self._in_flight.write(asker.token):
            return await route.handler(call)

    def _response(self, request: BaseRequest, reply: Reply, *, is_viewed: bool) -> Response:
        is_preflight = request.method == "OPTIONS" and self._cors.enabled
        headers = [_SERVER, *reply.headers]
        if reply.content_type:
            headers.append(("content-type", reply.content_type))
        if is_preflight:
            headers += self._cors.of_preflight(request.headers)
        else:
            if reply.status in _SUCCESSES and is_viewed:
                headers.append(_VIEW)
            headers += self._cors.of_reply(request.headers)
        response = Response(status=reply.status, body=reply.body, headers=headers)
        if ("connection", "close") in reply.headers:
            response.force_close()
        return response


def _wants_json(request: BaseRequest) -> bool:
    """Whether the client asks for JSON in so many words: then it is told everything in JSON."""
    return JSON in request.headers.get("Accept", "").lower()
