"""A way to the API server that counts what is written, and kills the writer in the middle of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
NOT_COUNTED: Final = ("leases", "events")  # the life itself, and words for people
PASSED: Final = ("Content-Type", "Accept", "User-Agent")
BYTES_MAX: Final = 1 << 16
LOST: Final = (OSError, http.client.HTTPException)


class KillingProxy(ThreadingHTTPServer):
    """In front of a port where the API server answers in plain HTTP, as `kubectl proxy` does."""

    daemon_threads = True

    def __init__(self, target: int) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.target = target
        self.written: list[str] = []
        """METHOD /path of all writes that changed something."""
        self.kills: list[str] = []
        """At which write each life ended."""
        self._turn = threading.Lock()
        self._victim: int | None = None
        self._killed: set[int] = set()
        self._versions: dict[str, str] = {}
        self._left = 0
        self._is_undone = False
        self._watches: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def kill_at_a_write(self, pid: int, *, undone: bool) -> None:
        """The process dies when its first write is done, before it gets the answer.

        `undone`: its first write is answered, and it dies with the second, which is not done.
        """
        with self._turn:
            self._victim, self._left, self._is_undone = pid, 1, undone

    def spare(self, pid: int) -> bool:
        """Do not kill that process any more; whether it lives."""
        with self._turn:
            self._victim = None
            return pid not in self._killed

    def may_write(self, what: str) -> bool:
        """Whether a write goes on to the API server."""
        with self._turn:
            # Several may be under way at a time, so more than one may be done by now.
            if self._victim is None or not self._is_undone or self._left > 0:
                return True
            self._kill(f"instead of {what}")
            return False

    def note(self, what: str, version: str) -> None:
        """A write is done, and not answered yet. One that changed nothing does not count."""
        with self._turn:
            if version and self._versions.get(what) == version:
                return
            self._versions[what] = version
            self.written.append(what)
            if self._victim is not None:
                self._left -= 1
                if not self._is_undone:
                    self._kill(f"after {what}")

    def _kill(self, what: str) -> None:
        assert self._victim is not None, "armed"
        os.kill(self._victim, signal.SIGKILL)
        self._killed.add(self._victim)
        self._victim = None
        self.kills.append(what)
        for item in self._watches:
            with contextlib.suppress(OSError):  # it has ended by itself
                item.shutdown(socket.SHUT_RDWR)
        self._watches.clear()

    def keep(self, watch: socket.socket) -> None:
        """A watch of the present life, which ends with it."""
        with self._turn:
            self._watches.add(watch)


class _Exchange(BaseHTTPRequestHandler):
    """One connection of the operator."""

    protocol_version = "HTTP/1.1"
    server: KillingProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = urlsplit(self.path)
        what = f"{self.command} {address.path}"
        parts = address.path.split("/")
        is_write = self.command in WRITES and not set(NOT_COUNTED) & set(parts)
        if is_write and not self.server.may_write(what):
            self.close_connection = True
            return
        headers = {name: self.headers[name] for name in PASSED if name in self.headers}
        way = http.client.HTTPConnection("127.0.0.1", self.server.target)
        with contextlib.closing(way), contextlib.suppress(*LOST):
            way.request(self.command, self.path, body, headers)
            if "watch" in parse_qs(address.query):
                self.server.keep(way.sock)
                self._stream(way.getresponse())
                return
            answer = way.getresponse()
            data = answer.read()
            if is_write and answer.status < http.client.BAD_REQUEST:
                self.server.note(what, json.loads(data)["metadata"].get("resourceVersion", ""))
            self._answer(answer, length=str(len(data)))
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 -- the library looks for these

    def _answer(self, answer: http.client.HTTPResponse, *, length: str = "") -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        if length:
            self.send_header("Content-Length", length)
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _stream(self, answer: http.client.HTTPResponse) -> None:
        """Line by line, as long as it goes on."""
        self.close_connection = True
        self._answer(answer)
        while data := answer.read1(BYTES_MAX):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test says what was of interest."""


@contextmanager
def killing_proxy(target: int) -> Iterator[KillingProxy]:
    """For the length of a block."""
    with KillingProxy(target) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, name="proxy", daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
