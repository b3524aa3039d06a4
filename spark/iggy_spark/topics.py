"""The topics of a query, at the broker or in an archive: which there are, how far each goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from iggy_spark import archive_places
from iggy_spark.connections import Calls, Connection
from iggy_spark.errors import BrokerRefused
from iggy_spark.offsets import TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.selection import TopicName, distinct

PATTERN_LOOK_S: Final = 5.0  # how long the topics that a pattern has found are those that it finds


class Topics:
    """What the options select. Opens nothing before it is asked."""

    def __init__(
        self, options: ReadOptions, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` in seconds."""
        self._options = options
        self._clock = clock
        self._names = {str(name): name for name in options.selection.topics}
        self._known = dict(self._names)  # also those that are gone
        self._found_s: float | None = None
        self._connections: dict[str, Connection] = {}

    def look(self) -> list[TopicState]:
        """What there is now, by name. A topic of a pattern may be gone, one that is named may not.

        Raises:
            BrokerRefused: a named topic does not exist, or no permission.
            BrokerUnavailable: not reached within `retryTimeoutMs`.
            OptionError: a pattern finds too many.
        """
        if self._options.selection.pattern is None:
            return [self._selected(self.connection(name).topic_state()) for name in self._names]
        now = self._clock()
        if self._found_s is None or now - self._found_s >= PATTERN_LOOK_S:
            self._find()
            self._found_s = now
        states = [self.connection(name).find_topic() for name in self._names]
        return [state for state in states if state is not None]

    def name(self, topic: str) -> TopicName:
        """Stream and topic of "stream/topic".

        Raises:
            BrokerRefused: no such topic.
        """
        if topic not in self._known and topic.count("/") == 1:
            return TopicName(*topic.split("/"))
        if topic not in self._known:
            self._find()
        if topic not in self._known:
            raise BrokerRefused(f"topic {topic} does not exist: was it deleted?")
        return self._known[topic]

    def connection(self, topic: str) -> Connection:
        """For questions about one of the topics."""
        found = self._connections.get(topic)
        if found is None:
            found = archive_places.connection(self._options.for_topic(self.name(topic)))
            self._connections[topic] = found
        return found

    @property
    def link(self) -> object | None:
        """The process's connection, which all topics share; see `Calls.link`. An archive that is
        read alone is always the same.
        """
        return Calls(self._options).link if self._options.has_broker else self

    def _find(self) -> None:
        matching = [
            name
            for name in archive_places.topic_names(self._options)
            if self._options.selection.matches(str(name))
        ]
        self._names = {str(name): name for name in distinct(matching, "subscribePattern")}
        self._known |= self._names

    def _selected(self, state: TopicState) -> TopicState:
        reads = self._options.selection.reads
        ends = {n: end for n, end in state.ends.items() if reads(state.name, n)}
        return replace(state, ends=ends)
