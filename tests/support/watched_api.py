"""As much of an API server as watches see: discovery, lists, streams of events and bookmarks."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from iggy_operator.program.api_kinds import API_KINDS, SPARK_KINDS, ApiKind
from scripted_api import status


class WatchedApi:
    """Objects by their paths, and who watches them."""

    def __init__(self) -> None:
        self.kinds = {kind: API_KINDS[kind] for kind in API_KINDS if kind not in SPARK_KINDS}
        self.objects: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.watches: dict[str, list[asyncio.Queue[bytes | None]]] = defaultdict(list)
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.denied: set[str] = set()
        """Namespaces in which nobody has a right any more."""
        self.version = 100

    def tell(self, kind: str, event: str, value: Mapping[str, Any]) -> None:
        """To everybody who watches this kind."""
        self.version += 1
        metadata = {**value["metadata"], "resourceVersion": str(self.version)}
        body = {**value, "metadata": metadata}
        if event == "ADDED":  # who comes too late for the stream finds it in the list
            self.objects[API_KINDS[kind].path()].append(body)
        line = json.dumps({"type": event, "object": body}).encode() + b"\n"
        for namespace in {"", metadata.get("namespace", "")}:
            for queue in self.watches[API_KINDS[kind].path(namespace=namespace)]:
                queue.put_nowait(line)

    def bookmark(self) -> None:
        """To everybody who watches anything."""
        for path in self.watches:
            for kind in API_KINDS.values():
                if kind.path() == path:
                    self.tell(kind.kind, "BOOKMARK", {"metadata": {}})

    def cut(self) -> None:
        """All streams end, as when a server is restarted."""
        for queues in self.watches.values():
            for queue in queues:
                queue.put_nowait(None)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, dict(request.query)))
        if (found := self._discovered(request.path)) is not None:
            return web.json_response(found)
        path, namespace = _without_namespace(request.path)
        if all(kind.path() != path for kind in self.kinds.values()):
            return status(404, "the server could not find the requested resource")
        if namespace in self.denied:
            return status(403, "you may not do that")
        if request.query.get("watch") == "true":
            return await self._stream(request)
        found = [
            item
            for item in self.objects[path]
            if namespace in ("", item["metadata"].get("namespace"))
        ]
        metadata = {"resourceVersion": str(self.version)}
        return web.json_response({"metadata": metadata, "items": found})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.watches[request.path].append(queue)
        try:
            while (line := await queue.get()) is not None:
                await response.write(line)
        finally:
            self.watches[request.path].remove(queue)
        return response

    def _discovered(self, path: str) -> dict[str, Any] | None:
        if path == "/version":
            return {"major": "1", "minor": "34"}
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            versions = {kind.api_version for kind in self.kinds.values() if "/" in kind.api_version}
            groups = [
                {"name": text.partition("/")[0], "versions": [version], "preferredVersion": version}
                for text in sorted(versions)
                for version in [{"groupVersion": text, "version": text.partition("/")[2]}]
            ]
            return {"groups": groups}
        here = [kind for kind in self.kinds.values() if kind.root == path]
        return {"resources": [_resource(kind) for kind in here]} if here else None


def _without_namespace(path: str) -> tuple[str, str]:
    before, _, after = path.partition("/namespaces/")
    namespace, _, plural = after.partition("/")
    return (f"{before}/{plural}", namespace) if plural else (path, "")


def _resource(kind: ApiKind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "kind": kind.kind,
        "namespaced": kind.is_namespaced,
        "verbs": ["get", "list", "watch", "patch"],
    }
