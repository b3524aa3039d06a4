"""Whether what a query has read is still what the broker has.

A broker that was put back to an older copy, or that lost its tail with the power, gives offsets a
second time, to other messages. Once the partition is as long as it was, its end tells nothing: a
query would go on at its position, and never see what came below. So the offsets of a query carry
when the broker took the last message before each of them, which rises within a partition, and after
every new connection these times are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iggy_spark import offsets
from iggy_spark.connections import Connection
from iggy_spark.offsets import Offsets, QueryOffsets
from iggy_spark.topics import Topics


class Tails:
    """The last messages that one query has read."""

    def __init__(self, topics: Topics) -> None:
        """Opens nothing."""
        self._topics = topics
        self._link: object | None = None  # the connection through which it was looked
        self._replaced: dict[str, list[str]] = {}

    @property
    def is_sure(self) -> bool:
        """Whether the connection is still the one through which it was looked."""
        return self._link is not None and self._topics.link is self._link

    def look(self, done: QueryOffsets) -> Mapping[str, list[str]]:
        """By topic, what was read and is not there any more, a sentence each. Asks the broker once
        for each connection.

        Raises:
            BrokerRefused, BrokerUnavailable: as `Topics.look`.
        """
        if not self.is_sure:
            self._topics.look()  # connects
            self._link = self._topics.link
            self._replaced = {}
            for name, item in done.topics.items():
                if found := self._look(self._topics.connection(name), item):
                    self._replaced[name] = found
        return self._replaced

    def mark(self, end: QueryOffsets, done: QueryOffsets) -> QueryOffsets:
        """`end` with the time of the last message before each position; of those that have not
        moved since `done` it is taken from there.
        """
        return QueryOffsets.of(
            self._marked(item, done.topics.get(name)) for name, item in end.topics.items()
        )

    def _marked(self, item: Offsets, done: Offsets | None) -> Offsets:
        goes_on = done is not None and done.incarnation == item.incarnation
        before = done if done is not None and goes_on else replace(item, positions={})
        connection = self._topics.connection(item.topic)
        last_us = {}
        for number, position in item.positions.items():
            if before.positions.get(number, 0) == position:
                us = before.last_us.get(number)
            else:
                us = connection.taken_us(number, position - 1)
            if us is not None:
                last_us[number] = us
        return replace(item, last_us=last_us)

    def _look(self, connection: Connection, item: Offsets) -> list[str]:
        found = connection.find_topic()
        if found is None or str(found.incarnation) != item.incarnation:
            return []  # told by the look at the topic itself
        there = {number: end for number, end in found.ends.items() if number in item.last_us}
        sentences = offsets.lost_tails(item.positions, there)
        for number in there:
            position, us = item.positions[number], item.last_us[number]
            taken_us = connection.taken_us(number, position - 1)
            if taken_us is not None and taken_us != us:
                first = connection.at_time(number, us + 1)  # times of a partition only rise
                first = position - 1 if first is None else min(first, position - 1)
                sentences.append(
                    f"partition {number}: offsets {first}\u2013{position - 1} were read, and other "
                    "messages have them now: was the broker put back to an older copy, or was "
                    "fsync off?"
                )
        return sentences
