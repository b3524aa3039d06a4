"""A real object store behind a front that refuses what some stores refuse, and fails on cue.

`faults` are what happens to the next requests that change something, one each: a reply in place of
the store's, or LOST: the store does it, and the answer is never sent.
"""

from __future__ import annotations

import http.client
import re
from urllib.parse import urlsplit

from object_store import ObjectStore
from played_server import PlayedServer, Reply, Request

_UNWANTED = re.compile(r"x-amz-(checksum-.*|sdk-checksum-algorithm|trailer)", re.IGNORECASE)
_OF_THE_CONNECTION = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class StoreFront(PlayedServer):
    """Passes requests on to `store`; 400 for checksum headers and chunked bodies, 411 without
    length. `only` says which requests `faults` are for: part of their method and path.
    """

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._target = urlsplit(store.endpoint).netloc
        self.only = ""
        self.refused: list[str] = []

    def carries(self, request: Request) -> bool:
        changes = request.method in ("PUT", "POST", "DELETE")
        return changes and self.only in f"{request.method} {request.path}"

    def answer(self, request: Request) -> Reply:
        if problem := self._problem(request):
            self.refused.append(problem)
            return Reply(411 if "length" in problem else 400)
        connection = http.client.HTTPConnection(self._target)
        try:
            headers = {
                name: value
                for name, value in request.headers.items()
                if name.lower() not in ("connection", "expect")
            }
            connection.request(request.method, request.path, request.body or None, headers)
            found = connection.getresponse()
            body = found.read()
            kept = {
                name: value
                for name, value in found.getheaders()
                if name.lower() not in _OF_THE_CONNECTION
            }
            if request.method == "HEAD" and (length := found.getheader("Content-Length")):
                kept["Content-Length"] = length
            return Reply(found.status, body, kept)
        finally:
            connection.close()

    def _problem(self, request: Request) -> str:
        for name, value in request.headers.items():
            if _UNWANTED.fullmatch(name):
                return f"{name}: {value}"
            if name.lower() == "content-encoding" and "aws-chunked" in value:
                return f"{name}: {value}"
        if request.method in ("PUT", "POST") and "Content-Length" not in request.headers:
            return "no length"
        return ""

    def methods(self, part: str) -> set[str]:
        """How objects were asked for whose paths have this in them."""
        return {request.method for request in list(self.seen) if part in request.path}
