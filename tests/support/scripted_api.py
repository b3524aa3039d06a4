"""An HTTP server that answers as a test says: for what a real API server does not do on request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from iggy_operator.program.api_access import Access

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class ScriptedApi:
    """Its address, what it was asked, and what it answers."""

    answer: Answer
    url: str = ""
    tokens: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        text = await request.text()
        self.bodies.append(json.loads(text) if text else None)
        return await self.answer(request)


def status(code: int, message: str, **headers: str) -> web.Response:
    """A refusal as the API server words it."""
    body = {"kind": "Status", "status": "Failure", "code": code, "message": message}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.json_response(body, status=code, headers=named)


@asynccontextmanager
async def scripted(answer: Answer) -> AsyncIterator[ScriptedApi]:
    """Serves in here."""
    api = ScriptedApi(answer)
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield api
    finally:
        await runner.cleanup()


def write_kubeconfig(path: Path, url: str, user: Mapping[str, str] | None = None) -> Path:
    """A kubeconfig of one server and one user."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": dict(user or {})}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return path


def access_to(folder: Path, url: str, token_file: Path | None = None) -> Access:
    """The way to such a server."""
    user = {} if token_file is None else {"tokenFile": str(token_file)}
    return Access(folder / "none", write_kubeconfig(folder / "kubeconfig", url, user))
