"""Progress shown on the broker: the end of each finished batch, as a plain consumer's offset.

For people, lag and `startingOffsets=committed`; the checkpoint stays the truth.
"""

from __future__ import annotations

import logging

from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerRefused
from iggy_spark.offsets import Offsets

_log = logging.getLogger(__name__)


class Mirror:
    """Stores positions under one consumer name. Within an incarnation they only ever grow."""

    def __init__(self, connection: Connection, consumer: str, *, required: bool) -> None:
        """`required`: a refusal is an error; otherwise it is logged and tried again next time."""
        self._connection = connection
        self._consumer = consumer
        self._required = required
        self._incarnation = ""
        self._stored: dict[int, int] = {}

    def store(self, offsets: Offsets) -> None:
        """Say that everything below `offsets` is done.

        Raises:
            BrokerRefused: refused, and the mirror is required.
            BrokerUnavailable: not reached within `retryTimeoutMs`.
        """
        if offsets.incarnation != self._incarnation:
            self._incarnation = offsets.incarnation
            self._stored = {}
        for partition, position in offsets.positions.items():
            try:
                self._store(partition, position - 1)
            except BrokerRefused as error:
                if self._required:
                    raise
                _log.warning("offset %d of partition %d: %s", position - 1, partition, error)

    def _store(self, partition: int, last: int) -> None:
        # Iggy protocol 0.11 stores the last message that is done: "nothing yet" has no number.
        if last < 0 or self._stored.get(partition, -1) >= last:
            return
        if partition not in self._stored:
            before = self._connection.stored(self._consumer, partition)
            self._stored[partition] = -1 if before is None else before
        if self._stored[partition] < last:
            self._connection.store(self._consumer, partition, last)
            self._stored[partition] = last
