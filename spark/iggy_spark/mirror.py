"""Progress shown on the broker: the end of each finished batch, as the consumer group's offset.

For people, lag and `startingOffsets=committed`; the checkpoint stays the truth. Where the broker
gives no membership, a plain consumer of the same name holds the offsets instead.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerRefused, TopicRecreated
from iggy_spark.membership import CannotJoin, Membership
from iggy_spark.offsets import Offsets, QueryOffsets, TopicState
from iggy_spark.options import ReadOptions
from iggy_spark.topics import Topics
from iggy_wire.primitives import Consumer

REFUSED_AGAIN_S: Final = 10.0  # how long a partition whose offset was refused is left alone

_log = logging.getLogger(__name__)


class Mirror:
    """Stores positions for one group, as its only member.

    The first position of a partition is stored as it is, since a query that starts from an earlier
    checkpoint stands there. From then on they only grow within an incarnation; and who has lost the
    place in between takes nothing back either, since another may have gone on.
    """

    def __init__(self, options: ReadOptions, *, waits: bool = True) -> None:
        """Opens nothing. `waits` as for `Membership`."""
        assert options.consumer_group is not None, "checked with the options"
        self._group = options.consumer_group
        self._required = options.offset_mirror == "required"
        self._connection = Connection(options if waits else replace(options, retry_timeout_ms=0))
        self._membership = Membership(options, waits=waits)
        self._is_plain = False
        self._incarnation = ""
        self._joins = 0
        self._begun: set[int] = set()  # partitions that this life has stored, or found stored
        self._known: dict[int, int] = {}  # positions at the broker
        self._refused_s: dict[int, float] = {}  # when the broker refused

    def join(self, incarnation: str) -> bool:
        """Be the group's only member. False: the topic is another, as a look at it will show.

        Raises:
            Fenced: somebody else is a member; `Occupied` if this does not wait.
            BrokerRefused: refused, and the mirror is required.
            BrokerUnavailable: not reached within `retryTimeoutMs`.
        """
        if self._is_plain:
            return True
        try:
            self._membership.join(incarnation)
        except TopicRecreated:
            return False
        except CannotJoin as error:
            if self._required:
                raise
            self._is_plain = True
            _log.warning("%s; a plain consumer of this name shows the progress", error)
        return True

    def store(self, offsets: Offsets, *, is_last: bool = False) -> None:
        """Say that everything below `offsets` is done. `is_last`: also where that was just refused.

        Raises:
            Fenced, BrokerRefused, BrokerUnavailable: as `join`.
        """
        if not self.join(offsets.incarnation):
            return
        if offsets.incarnation != self._incarnation:
            self._incarnation = offsets.incarnation
            self._begun.clear()
            self._refused_s.clear()
            self._known.clear()
        if self._membership.joins != self._joins:
            self._joins = self._membership.joins
            self._known.clear()
        now = time.monotonic()
        for partition, position in offsets.positions.items():
            refused_s = self._refused_s.get(partition)
            if is_last or refused_s is None or now - refused_s >= REFUSED_AGAIN_S:
                try:
                    self._try(partition, position)
                except TopicRecreated:
                    return  # just now: the next look at the topic shows it

    def close(self) -> None:
        """Leave the group."""
        self._membership.close()

    def _try(self, partition: int, position: int) -> None:
        try:
            self._move(partition, position)
        except BrokerRefused as error:
            if self._required:
                raise
            self._refused_s[partition] = time.monotonic()
            _log.warning("progress in partition %d cannot be stored: %s", partition, error)

    def _move(self, partition: int, position: int) -> None:
        known = self._known.get(partition)
        if partition in self._begun and known is not None and known >= position:
            return
        while True:
            if known is None:
                known = self._stored(partition)
            only_grows = partition in self._begun or self._membership.joins > 1
            if known == position or (only_grows and known > position):
                break
            if self._write(partition, position):
                known = position
                break
            known = None
        self._begun.add(partition)
        self._known[partition] = known

    def _stored(self, partition: int) -> int:
        kind = Consumer.plain if self._is_plain else Consumer.group
        last = self._connection.stored_by(kind(self._group), partition)
        return 0 if last is None else last + 1

    def _write(self, partition: int, position: int) -> bool:
        # Iggy protocol 0.11 stores the last message that is done: "nothing yet" has no number.
        last = position - 1 if position else None
        if self._is_plain:
            self._connection.store_plain(self._group, partition, last)
            return True
        return self._membership.move(partition, last)


class Mirrors:
    """A mirror for each topic of a query, made when it is first needed."""

    def __init__(self, options: ReadOptions, topics: Topics) -> None:
        """Opens nothing; does nothing if the options name no group or want no mirror."""
        self._options = options
        self._topics = topics
        self._is_on = options.offset_mirror != "off" and options.consumer_group is not None
        self._mirrors: dict[str, Mirror] = {}

    def join(self, offsets: QueryOffsets) -> None:
        """Be the only member of every group.

        Raises:
            Fenced, BrokerRefused, BrokerUnavailable: as `Mirror.join`.
        """
        if self._is_on:
            for name, item in offsets.topics.items():
                self._mirror(name).join(item.incarnation)

    def store(self, offsets: QueryOffsets, states: Iterable[TopicState] | None = None) -> None:
        """Say that everything below is done; with `states`, of topics that still live that life.

        Raises:
            Fenced, BrokerRefused, BrokerUnavailable: as `Mirror.store`.
        """
        if not self._is_on:
            return
        there = None if states is None else {item.name: str(item.incarnation) for item in states}
        for name, item in offsets.topics.items():
            if there is None or there.get(name) == item.incarnation:
                self._mirror(name).store(item)

    def close(self) -> None:
        """Leave all groups."""
        for mirror in self._mirrors.values():
            mirror.close()

    def _mirror(self, topic: str) -> Mirror:
        found = self._mirrors.get(topic)
        if found is None:
            found = Mirror(self._options.for_topic(self._topics.name(topic)))
            self._mirrors[topic] = found
        return found
