"""Targets of sinks that cannot be had here, played by small servers with their documented answers.

They keep what they took, so that a test compares what arrived:
- Elasticsearch and OpenSearch: bulk API, `GET /`, data streams
- Quickwit: ingest API with detailed responses, indexes
- a web service that takes a request whole or not at all, and a token server
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from played_server import PlayedServer, Reply, Request

Document = dict[str, Any]


class PlayedElasticsearch(PlayedServer):
    """`indexes` has name → id → document. `judge` may give a document another status than success,
    with the target's words.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.indexes: dict[str, dict[str, Document]] = {}
        self.streams: set[str] = set()
        self.judge: Callable[[str, Document], tuple[int, str, str] | None] = lambda id_, doc: None
        self.bulk_bytes_max = 100 << 20  # http.max_content_length

    def documents(self) -> list[Document]:
        return [found for index in self.indexes.values() for found in index.values()]

    def carries(self, request: Request) -> bool:
        return request.path.startswith("/_bulk")

    def answer(self, request: Request) -> Reply:
        if self.carries(request):
            return self._bulk(request)
        if request.path == "/":
            return Reply(body={"version": {"number": "8.19.0"}})
        found = re.fullmatch(r"/_data_stream/(.+)", request.path)
        if found is not None and found[1] in self.streams:
            return Reply(body={"data_streams": [{"name": found[1]}]})
        return Reply(404, {"error": {"type": "index_not_found_exception"}, "status": 404})

    def _bulk(self, request: Request) -> Reply:
        if len(request.body) > self.bulk_bytes_max:
            return Reply(413)
        assert request.body.endswith(b"\n")
        assert request.headers["Content-Type"] == "application/x-ndjson"
        lines = request.body.splitlines()
        items = [
            self._item(json.loads(head), _object(line))
            for head, line in zip(lines[::2], lines[1::2], strict=True)
        ]
        failed = any("error" in item for named in items for item in named.values())
        return Reply(body={"errors": failed, "items": items})

    def _item(self, head: dict[str, dict[str, str]], document: Document) -> dict[str, Any]:
        ((action, place),) = head.items()
        index = self.indexes.setdefault(place["_index"], {})
        id_ = place.get("_id", f"generated-{len(index)}")
        wrong = self.judge(id_, document)
        if wrong is None and action == "create" and id_ in index:
            wrong = 409, "version_conflict_engine_exception", "document already exists"
        if wrong is not None:
            status, kind, reason = wrong
            return {action: {"status": status, "error": {"type": kind, "reason": reason}}}
        status = 200 if id_ in index else 201
        index[id_] = document
        return {action: {"status": status}}


class PlayedQuickwit(PlayedServer):
    """`indexes` has name → documents. `judge` may refuse one, with a reason."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.indexes: dict[str, list[Document]] = {}
        self.configurations: list[bytes] = []
        self.judge: Callable[[Document], str | None] = lambda document: None
        self.tells = True  # which documents it refuses

    def carries(self, request: Request) -> bool:
        return "/ingest" in request.path

    def answer(self, request: Request) -> Reply:
        parts = urlsplit(request.path)
        if request.path == "/api/v1/indexes" and request.method == "POST":
            return self._make(request)
        found = re.fullmatch(r"/api/v1/indexes/([^/]+)", parts.path)
        if found is not None:
            return Reply(200 if found[1] in self.indexes else 404, {"index": found[1]})
        found = re.fullmatch(r"/api/v1/([^/]+)/ingest", parts.path)
        if found is None or found[1] not in self.indexes:
            return Reply(404, {"message": "index not found"})
        assert parse_qs(parts.query) == {"commit": ["auto"], "detailed_response": ["true"]}
        return self._ingest(self.indexes[found[1]], request.body)

    def _make(self, request: Request) -> Reply:
        assert request.headers["Content-Type"] == "application/yaml"
        self.configurations.append(request.body)
        found = re.search(rb"^index_id: (\S+)", request.body, re.MULTILINE)
        if found is None or b"doc_mapping" not in request.body:
            return Reply(400, {"message": "missing field `doc_mapping`"})
        self.indexes.setdefault(found[1].decode(), [])
        return Reply(body={})

    def _ingest(self, index: list[Document], body: bytes) -> Reply:
        failures = []
        lines = body.splitlines()
        for line in lines:
            document = _object(line)
            reason = self.judge(document)
            if reason is None:
                index.append(document)
            else:
                told = {"document": line.decode(), "message": reason, "reason": "invalid_schema"}
                failures.append(told)
        reply = {
            "num_docs_for_processing": len(lines),
            "num_ingested_docs": len(lines) - len(failures),
            "num_rejected_docs": len(failures),
            "parse_failures": failures if self.tells else None,
        }
        return Reply(body={name: value for name, value in reply.items() if value is not None})


class PlayedService(PlayedServer):
    """Takes a request whole or not at all. `judge` gives the status for a message; the first that
    is no success is the answer.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.messages: list[Any] = []
        self.status = 200
        self.judge: Callable[[Any], int | None] = lambda message: None
        self.refused = 0  # requests

    def answer(self, request: Request) -> Reply:
        if not self.carries(request):
            return Reply(404)
        found = messages_of(request)
        for message in found:
            status = self.judge(message)
            if status is not None:
                self.refused += 1
                return Reply(
                    status, f"cannot take it: {request.headers.get('Authorization')}".encode()
                )
        self.messages += found
        return Reply(self.status)


def messages_of(request: Request) -> list[Any]:
    """The messages of a request, by its kind of content."""
    match request.headers["Content-Type"]:
        case "application/x-ndjson":
            return [json.loads(line) for line in request.body.splitlines()]
        case "application/json":
            found = json.loads(request.body)
            return found if isinstance(found, list) else [found]
    return [request.body]


class PlayedTokens(PlayedServer):
    """Hands out the tokens t1, t2 and so on, by client credentials."""

    def __init__(self, client: str, *, life_s: float | None = 3600, **settings: Any) -> None:
        """`client` is the header Authorization of who may have one."""
        super().__init__(**settings)
        self.login = client
        self.life_s = life_s
        self.given = 0

    def answer(self, request: Request) -> Reply:
        form = parse_qs(request.body.decode())
        assert form["grant_type"] == ["client_credentials"]
        self.scope = form.get("scope")
        self.given += 1
        token = {"access_token": f"t{self.given}", "token_type": "Bearer"}
        return Reply(body=token if self.life_s is None else token | {"expires_in": self.life_s})


def _object(line: bytes) -> Document:
    def once(pairs: list[tuple[str, Any]]) -> Document:
        found = dict(pairs)
        assert len(found) == len(pairs), "a field is there twice"
        return found

    document = json.loads(line, object_pairs_hook=once)
    assert isinstance(document, dict)
    return document
