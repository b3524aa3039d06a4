"""A store as if it were far away: a proxy that keeps each request for a while."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PIPE_BYTES = 1 << 20
"""Moved at once, without a copy."""


class _Exchange:
    """One connection. Requests follow one another: what comes before an answer is one request."""

    def __init__(self, near: socket.socket, far: socket.socket, delay_s: float) -> None:
        self._near, self._far, self._delay_s = near, far, delay_s
        self._is_asked = False

    def run(self) -> None:
        """Until either side ends it."""
        back = threading.Thread(target=self._pass, args=(self._far, self._near), daemon=True)
        back.start()
        self._pass(self._near, self._far)
        back.join()
        self._near.close()
        self._far.close()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        with contextlib.suppress(OSError):  # it was ended in the middle of something
            while count := os.splice(source.fileno(), theirs, PIPE_BYTES):
                if source is self._near and not self._is_asked:
                    time.sleep(self._delay_s)
                self._is_asked = source is self._near
                while count:
                    count -= os.splice(ours, sink.fileno(), count)
        os.close(ours)
        os.close(theirs)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def far_store(host: str, port: int, *, delay_s: float) -> Iterator[str]:
    """HOST:PORT where that store seems to be so many seconds away, in threads of this process."""

    def accept() -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((host, port))
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                exchange = _Exchange(near, far, delay_s)
                threading.Thread(target=exchange.run, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
