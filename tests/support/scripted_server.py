"""A server that answers as a test tells it to: real sockets, real frames, no state."""

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from iggy_wire.codes import Operation
from iggy_wire.dialect import P11
from iggy_wire.framing import FrameReader
from iggy_wire.header import HEADER_BYTES, RequestHeader, encode_reply
from iggy_wire.replies import LoginReply, success_bytes
from iggy_wire.request_base import Request
from iggy_wire.requests import decode_request

Answer = Callable[[RequestHeader, bytes], Iterable[bytes]]


class HangUp(Exception):
    """Raised by an answer: close the connection now."""


def polite(header: RequestHeader, body: bytes) -> Iterable[bytes]:
    """Every login succeeds as session 7; everything else is an empty success."""
    if header.operation == Operation.REGISTER:
        login = LoginReply(0, 7, P11.version, "scripted")
        return [encode_reply(header, success_bytes(login.encode()), op=7, commit=7)]
    framed = header.operation not in (Operation.NON_REPLICATED, Operation.LOGOUT)
    return [encode_reply(header, success_bytes() if framed else b"")]


def after_login(*frames: Any) -> Any:
    """Answers every request but the login with these: bytes, or functions of the header."""

    def answer(header: RequestHeader, body: bytes) -> Iterable[bytes]:
        if header.operation == Operation.REGISTER:
            return polite(header, body)
        return [frame(header) if callable(frame) else frame for frame in frames]

    return answer


class ScriptedServer:
    """Serves on a port of its own while the block lasts. Set `answer` at any time."""

    def __init__(self, answer: Answer = polite) -> None:
        self.answer = answer
        self.seen: list[tuple[RequestHeader, bytes]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        host, port = self._listener.getsockname()
        self.address = f"{host}:{port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for connection in self._connections:
            _shut(connection)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def requests(self) -> list[Request]:
        """What was asked, decoded."""
        return [decode_request(P11, header, body) for header, body in self.seen]

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # shut down
                return
            self._connections.append(connection)
            self._start(lambda connection=connection: self._serve(connection))  # type: ignore[misc]

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader(256 << 20)
        with connection:
            try:
                while data := connection.recv(1 << 16):
                    for frame in reader.feed(data):
                        self._respond(connection, bytes(frame))
            except (HangUp, OSError):
                return

    def _respond(self, connection: socket.socket, frame: bytes) -> None:
        header, body = RequestHeader.decode(frame), frame[HEADER_BYTES:]
        self.seen.append((header, body))
        for reply in self.answer(header, body):
            connection.sendall(reply)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # closed already
        connection.shutdown(socket.SHUT_RDWR)
