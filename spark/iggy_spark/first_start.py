"""Where a streaming query begins, the same at every call until its first batch is done.

Spark stores that nowhere and asks again after a failed first batch, so a start that moves is
written down before it is used: in `stateLocation`, else at the broker if there is a group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iggy_spark import starts, state
from iggy_spark.errors import OffsetFormatError, OptionError
from iggy_spark.offsets import Offsets, QueryOffsets, TopicState
from iggy_spark.option_values import resource_name
from iggy_spark.options import ReadOptions
from iggy_spark.start_mark import SUFFIX, StartMark
from iggy_spark.topics import Topics

_log = logging.getLogger(__name__)


class FirstStart:
    """The start of one query."""

    def __init__(self, options: ReadOptions, topics: Topics) -> None:
        """Opens nothing."""
        self._options = options
        self._topics = topics
        moves, group = options.starting.moves, options.consumer_group
        self._marks = options.state_location is None and moves is not None and group is not None
        self._mark_name = f"{group}{SUFFIX}"
        self._forgotten = not self._marks
        self._fresh = False  # written down by this very process

    def find(self) -> QueryOffsets:
        """The start.

        Raises:
            OptionError: it moves and cannot be written down, or is no place in the topics.
            BrokerRefused, BrokerUnavailable: as `Topics.look`.
        """
        location, moves = self._options.state_location, self._options.starting.moves
        if location is not None:
            written = state.read_initial(location)
            if written is not None:
                self._options.selection.check(written)
                return written
            self._fresh = moves is not None
            return state.write_initial(location, QueryOffsets.of(self._resolved()))
        if self._marks:
            resource_name("consumerGroup, with .start behind it", self._mark_name)
            return QueryOffsets.of(self._at_broker())
        if moves is not None and not self._options.unsafe_moving_start:
            raise OptionError(
                f"{moves} needs stateLocation, a folder beside the checkpoint: without it messages "
                "that arrive before the first batch is done can be lost. Set it, or consumerGroup, "
                "or startingOffsets=earliest, or unsafeMovingStart=true to take the risk"
            )
        return QueryOffsets.of(self._resolved())

    def check_replay(self) -> None:
        """Spark repeats a batch that was planned before this process. If that is the first one, its
        start had been written down, and must not be another one now.

        Raises:
            OffsetFormatError: it was not there any more.
        """
        if self._fresh:
            kept = self._options.state_location or f"consumer {self._mark_name}"
            raise OffsetFormatError(
                "the checkpoint's first batch is not done, and where it began is gone from "
                f"{kept}: bring it back, or use a new checkpoint and say where to start"
            )

    def forget(self, done: QueryOffsets, found: Iterable[TopicState]) -> None:
        """The first batch is done, up to `done`: nobody asks for the start again."""
        if self._forgotten:
            return
        for item in found:
            if item.name in done.topics:
                self._mark(item.name).remove(item.ends)
        self._forgotten = True

    def _resolved(self) -> list[Offsets]:
        return [self._resolve(item) for item in self._look()]

    def _look(self) -> list[TopicState]:
        found = self._topics.look()
        starts.check_places(self._options.selection, found, self._options.starting)
        return found

    def _resolve(self, found: TopicState) -> Offsets:
        connection = self._topics.connection(found.name)
        return starts.resolve_start(self._options, found, connection, stream=True)

    def _at_broker(self) -> list[Offsets]:
        found = self._look()
        marks = {item.name: self._mark(item.name) for item in found}
        written = {item.name: marks[item.name].read(item.ends) for item in found}
        begun = any(positions is not None for positions in written.values())
        topics = []
        for item in found:
            positions = written[item.name]
            if positions is None and begun:
                # It came after the start was written down, so all that is in it is new.
                positions = dict.fromkeys(item.ends, 0)
            elif positions is None:
                positions = dict(self._resolve(item).positions)
                marks[item.name].write(positions)
            topics.append(Offsets(item.name, str(item.incarnation), positions))
        if not begun:
            self._fresh = True
            _log.warning(
                "there is no stateLocation: until the first batch is done, the broker keeps the "
                "start, as consumer %s",
                self._mark_name,
            )
        return topics

    def _mark(self, topic: str) -> StartMark:
        options = self._options.for_topic(self._topics.name(topic))
        return StartMark(options, self._topics.connection(topic))
