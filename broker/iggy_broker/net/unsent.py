"""Memory of replies that the clients of one shard have not taken: of a capped sum.

A range of a log file costs no memory, however slow its reader. What was cut to measure, was made
for this client, or came from another shard does. Who asks for much and reads nothing would
otherwise cost as much as there is, one connection at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from iggy_broker.logs import event

if TYPE_CHECKING:
    from iggy_broker.net.outbox import Outbox

logger = logging.getLogger(__name__)

UNSENT_BYTES_MAX: Final = 256 * 1024 * 1024  # beyond: the client that holds most of it is closed


class Unsent:
    """Who holds how much."""

    __slots__ = ("_bytes_max", "_holders", "_on_closed", "bytes")

    def __init__(
        self, bytes_max: int = UNSENT_BYTES_MAX, on_closed: Callable[[], None] = lambda: None
    ) -> None:
        """Nobody holds anything. `on_closed` is called for each client that is closed."""
        self._bytes_max = bytes_max
        self._on_closed = on_closed
        self._holders: dict[Outbox, int] = {}
        self.bytes = 0

    def changed(self, outbox: Outbox, by_bytes: int) -> None:
        """`outbox` holds more or less memory. If that is too much in all, the largest ends."""
        holders = self._holders
        held_bytes = holders.get(outbox, 0) + by_bytes
        self.bytes += by_bytes
        if held_bytes:
            holders[outbox] = held_bytes
        else:
            holders.pop(outbox, None)
        while by_bytes > 0 and self.bytes > self._bytes_max:
            largest = max(holders, key=holders.__getitem__)
            logger.warning(
                "! unread replies take more than %d bytes: closed the client with most, %d",
                self._bytes_max,
                holders[largest],
                extra=event("connection_closed", bytes=holders[largest]),
            )
            self._on_closed()
            largest.give_up()
