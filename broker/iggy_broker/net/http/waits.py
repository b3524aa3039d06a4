"""The polls over HTTP of one shard that wait for messages: how many may, and what ends them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from iggy_broker.errors import Deny
from iggy_broker.net.p12_waiting import Ending
from iggy_broker.net.waits import WAITS_MAX, WAITS_PER_CONNECTION_MAX
from iggy_wire.errors import ErrorCode

if TYPE_CHECKING:
    from aiohttp.web_protocol import RequestHandler

    from iggy_broker.metrics import Counters

WAITS_PER_TOKEN_MAX = WAITS_PER_CONNECTION_MAX  # over HTTP a token stands for a client


class Waits:
    """By connection, of which each has one request at a time."""

    def __init__(self, counters: Counters) -> None:
        """Nobody waits. `counters` are of all transports."""
        self._counters = counters
        self._by_token: Counter[str] = Counter()
        self._over: dict[RequestHandler, asyncio.Future[Ending]] = {}
        self._stops = False

    @contextmanager
    def one(self, connection: RequestHandler, token: str) -> Iterator[asyncio.Future[Ending]]:
        """For the length of one wait; the future says when it must end.

        Deny with DEFERRED_POLL_CAPACITY_EXCEEDED beyond the limits.
        """
        counters, mine = self._counters, self._by_token[token]
        if mine >= WAITS_PER_TOKEN_MAX or counters.polls_waiting >= WAITS_MAX:
            detail = f"{mine} polls of this token wait, {counters.polls_waiting} of all"
            raise Deny(ErrorCode.DEFERRED_POLL_CAPACITY_EXCEEDED, detail)
        over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._by_token[token] += 1
        counters.polls_waiting += 1
        self._over[connection] = over
        if connection.transport is None:
            self.end(connection)
        elif self._stops:
            self._end(over, Ending.NOW)
        try:
            yield over
        finally:
            del self._over[connection]
            counters.polls_waiting -= 1
            self._by_token[token] -= 1
            if not self._by_token[token]:
                del self._by_token[token]

    def end(self, connection: RequestHandler) -> None:
        """The client is gone: nothing is to be read for it."""
        self._end(self._over.get(connection), Ending.CANCELLED)

    def end_all(self) -> None:
        """The shard stops: all are answered with what is there."""
        self._stops = True
        for over in self._over.values():
            self._end(over, Ending.NOW)

    @staticmethod
    def _end(over: asyncio.Future[Ending] | None, ending: Ending) -> None:
        if over is not None and not over.done():
            over.set_result(ending)
