"""A blocking client that can ask before it wants the answer: the server works, and the answer comes
closer, while the caller does something else. No thread is needed for that.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from iggy_client.client import Client
from iggy_client.session import Call, Pending
from iggy_wire.request_base import Request

T = TypeVar("T")


class AheadClient(Client):
    """A `Client` with `ask`."""

    _asked: Pending | None = None  # sent, and its reply is not taken yet

    def ask(self, call: Call[T]) -> Callable[[], T]:
        """Send a command; what this returns waits for its answer, once.

        Only for a command that may be done twice: whatever else is asked before the answer is taken
        throws it away, and then the command is sent again. What does not fit into the socket's
        memory stays with the server, which ends a connection that does not move for long.

        Raises:
            LinkError, WireError: as other calls; a refusal is raised when the answer is taken.
        """
        self._throw_away()
        pending = self._session.start(call.request)
        self._asked = pending  # even if sending is interrupted
        self._link.send(pending.parts)

        def answer() -> T:
            if self._asked is not pending:
                return self.call(call)
            self._asked = None
            started = time.monotonic()
            return call.read(self._answer(pending, self._link.receive(), started))

        return answer

    def close(self) -> None:
        """Close the connection, which ends the session too. May be repeated."""
        self._asked = None
        super().close()

    def _exchange(self, request: Request) -> memoryview:
        self._throw_away()
        return super()._exchange(request)

    def _throw_away(self) -> None:
        """An answer that nobody took would be taken for that of the next command."""
        if self._asked is not None:
            self._asked = None
            self._link.receive()
