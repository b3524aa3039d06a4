"""How much one shard does for HTTP clients at a time. Beyond: try again, nothing was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from iggy_broker.net.http.problems import Refusal, of_status

WRITES_PER_TOKEN_MAX: Final = 32  # unanswered writes of one token (as the original)
WRITES_MAX: Final = 128  # unanswered writes of all tokens (as the original's whole server)
BODY_BYTES_MAX: Final = 64 << 20  # of bodies that are being read or served
CONNECTIONS_MAX: Final = 1024  # open connections; beyond, a new one is closed at once
FIRST_REQUEST_S: Final = 30.0  # from the connection to the first whole head of a request
FIELD_BYTES_MAX: Final = 16 << 10  # of one header of a request; beyond, 400
BODY_S: Final = 60.0  # from the head of a request to the end of its body
KEPT_ALIVE_S: Final = 75.0  # from an answer to the next request on the same connection
LINGER_S: Final = 2.0  # what is still sent after a 413 is read for so long, so that it is seen
UNREAD_S: Final = 30.0  # an answer of which nothing is taken for so long ends its connection
UNREAD_BYTES_MAX: Final = 128 << 20  # of answers that are not taken yet; beyond, 503
POLL_BYTES_MAX: Final = 8 << 20  # of messages in one answer; who wants more polls again


class InFlight:
    """What is being served."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._writes: Counter[str] = Counter()  # by token; as many as are being served
        self._total = 0
        self.body_bytes = 0

    @contextmanager
    def write(self, token: str) -> Iterator[None]:
        """For the length of one write of a token. Refusal (429, 503) beyond the limits."""
        if self._writes[token] >= WRITES_PER_TOKEN_MAX:
            reason = f"{WRITES_PER_TOKEN_MAX} writes of this token are not answered yet"
            raise Refusal(of_status(429, "too_many_in_flight_writes", reason))
        if self._total >= WRITES_MAX:
            raise Refusal(of_status(503, "server_busy", "too many writes are not answered yet"))
        self._writes[token] += 1
        self._total += 1
        try:
            yield
        finally:
            self._total -= 1
            self._writes[token] -= 1
            if not self._writes[token]:
                del self._writes[token]

    def take(self, size_bytes: int) -> None:
        """So much more of a body. Refusal (503) if that is too much."""
        if self.body_bytes + size_bytes > BODY_BYTES_MAX:
            raise Refusal(of_status(503, "server_busy", "too many bodies are being read"))
        self.body_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """So much less."""
        self.body_bytes -= size_bytes
