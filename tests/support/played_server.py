"""A web service played by a test: real sockets, answers as they are told, what arrived is kept."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from threaded_server import ThreadedServer

MESSAGES = ("POST", "PUT", "PATCH")


@dataclass(frozen=True)
class Reply:
    """An answer: `body` is bytes, or a value that is sent as JSON."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Request:
    """What was asked."""

    method: str
    path: str
    headers: Message  # names in any case
    body: bytes
    client_certificate: bool = False


LOST = "the request is carried out, and its answer never sent"
SILENT = "nothing is done and nothing answered, until the caller has had enough"
Fault = Reply | str


class PlayedServer(ThreadedServer):
    """Serves while the block lasts. `faults` are what happens to the next requests that carry
    messages, one each; then all goes well. `login` is the Authorization that is asked for.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Request] = []
        self.faults: deque[Fault] = deque()
        self.login: str | None = None
        self._lock = threading.Lock()
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        super().__init__(server)
        scheme = "http"
        if tls is not None:
            scheme = "https"
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"

    def answer(self, request: Request) -> Reply:
        """What is done when all goes well. One request at a time."""
        raise NotImplementedError

    def sent(self) -> list[Request]:
        """The requests that carried messages."""
        return [one for one in self.seen if self.carries(one)]

    def carries(self, request: Request) -> bool:
        """Whether a request carries messages: those that `faults` are for."""
        return request.method in MESSAGES

    def take(self, request: Request) -> Reply | None:
        """None: close the connection."""
        with self._lock:
            self.seen.append(request)
            fault = self.faults.popleft() if self.faults and self.carries(request) else None
            if isinstance(fault, Reply):
                return fault
            if fault != SILENT:
                wrong = (
                    self.login is not None and request.headers.get("Authorization") != self.login
                )
                reply = Reply(401, {"error": "who?"}) if wrong else self.answer(request)
                return None if fault == LOST else reply
        self._over.wait()
        return None


def _handler(played: PlayedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_known = isinstance(self.connection, ssl.SSLSocket) and bool(
                self.connection.getpeercert()
            )
            asked = Request(self.command, self.path, self.headers, body, is_known)
            reply = played.take(asked)
            if reply is None:
                self.close_connection = True
                # At once: the caller must not take it for an answer that is late.
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            data = b"" if self.command == "HEAD" else reply.data
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in reply.headers:  # a HEAD may tell of what it does not send
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_DELETE = do_HEAD = do_POST = do_PUT = do_PATCH = _do  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Not into the tests' output."""

    return Handler
