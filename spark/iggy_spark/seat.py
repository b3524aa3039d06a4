"""The seat of a source's driver: the only member of the consumer group with the source's name, so
that a second driver does not begin.

Nothing is read there. So that nobody takes the group for one that falls behind, the ends of the
topic are stored as its offsets now and then, and the group goes with its member.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerRefused, BrokerUnavailable
from iggy_spark.job_mirror import join_within
from iggy_spark.membership import Occupied
from iggy_spark.mirror import Mirror
from iggy_spark.offsets import Offsets
from iggy_spark.options import ReadOptions

AGAIN_S: Final = 1.0  # after the broker was not there
ENDS_S: Final = 10.0  # between two times that the ends are stored


class Seat:
    """Never waits while a batch runs, so that a request to stop is heard."""

    def __init__(self, options: ReadOptions, *, should_stop: Callable[[], bool]) -> None:
        """Opens nothing. `should_stop` is looked at while waiting for others to leave the group."""
        self._connection = Connection(replace(options, retry_timeout_ms=0))
        assert options.consumer_group is not None, "checked with the options"
        self._group = options.consumer_group
        self._mirror = Mirror(options, waits=False)
        self._should_stop = should_stop
        self._incarnation = ""
        self._due_s = self._ends_due_s = 0.0

    def take(self, *, contact_s: float) -> bool:
        """Become the group's only member; False if asked to stop while others are in it.

        Raises:
            Fenced: the others stay.
            BrokerRefused: no such topic.
            BrokerUnavailable: the broker was not there for `contact_s`.
        """
        return join_within(self._join, contact_s=contact_s, should_stop=self._should_stop)

    def keep(self) -> None:
        """Join again if the place was lost, and store the ends when it is time. A broker that is
        away is asked later; if it stays away, the query fails by itself. A topic that was made anew
        has a group that is new, too.

        Raises:
            Fenced: another has taken our place.
            BrokerRefused: the topic is gone.
        """
        if time.monotonic() < self._due_s:
            return
        try:
            self._join()
            if time.monotonic() >= self._ends_due_s:
                self._store_ends()
                self._ends_due_s = time.monotonic() + ENDS_S
        except (Occupied, BrokerUnavailable):
            self._due_s = time.monotonic() + AGAIN_S

    def close(self) -> None:
        """Leave the group, and let it go. Whoever uses this again joins again."""
        self._mirror.close()
        if self._incarnation:
            self._incarnation = ""
            with suppress(BrokerRefused, BrokerUnavailable):  # it only looks unused
                self._connection.forget_group(self._group)

    def _join(self) -> None:
        if self._incarnation and self._mirror.join(self._incarnation):
            return
        self._incarnation = str(self._connection.topic_state().incarnation)
        if not self._mirror.join(self._incarnation):
            raise BrokerUnavailable("the topic is being made anew")

    def _store_ends(self) -> None:
        found = self._connection.topic_state()
        self._incarnation = str(found.incarnation)
        self._mirror.store(Offsets(found.name, self._incarnation, found.ends))
