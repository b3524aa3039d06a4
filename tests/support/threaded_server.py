"""A server of the standard library that serves in a thread, for the length of a block."""

from __future__ import annotations

import threading
from socketserver import TCPServer
from types import TracebackType
from typing import Self


class ThreadedServer:
    """Subclasses hand over the server. `_over` is set as the block ends, for answers that wait."""

    def __init__(self, server: TCPServer) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=lambda: server.serve_forever(poll_interval=0.05), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
