"""Probes and metrics over HTTP, without login: `/healthz`, `/readyz`, `/metrics`. Knows no object.

Alive means: what is wrong is not cured by a restart, or nothing is wrong. Ready means: this replica
works, or waits for its turn.
"""

import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from iggy_operator.program.metrics import Metrics

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Answers:
    """What the server asks. A probe's answer is empty if all is well."""

    alive: Callable[[], str]
    ready: Callable[[], str]
    metrics: Metrics


@contextlib.asynccontextmanager
async def served(port: int, answers: Answers) -> AsyncIterator[int]:
    """Serves in here; the port, which is another one for 0. Raises OSError."""
    application = web.Application()
    application.router.add_get("/healthz", _probe(answers.alive))
    application.router.add_get("/readyz", _probe(answers.ready))
    application.router.add_get("/metrics", _metrics(answers.metrics))
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        listener = _listener(port)
        await web.SockSite(runner, listener).start()
        yield listener.getsockname()[1]
    finally:
        await runner.cleanup()


def _listener(port: int) -> socket.socket:
    """One socket for both families: with port 0, two would have different ports."""
    try:
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    except (OSError, ValueError):  # no IPv6 here; a port that is taken is so below as well
        return socket.create_server(("", port))


def _probe(trouble: Callable[[], str]) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        text = trouble()
        return web.Response(text=f"{text or 'ok'}\n", status=503 if text else 200)

    return answer


def _metrics(metrics: Metrics) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        body, content_type = metrics.text()
        return web.Response(body=body, headers={"Content-Type": content_type})

    return answer
