"""Streams, topics, partitions and groups with their figures, as families of metrics.

One walk reads everything once, so that totals are the sums of the parts that are shown beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.placement import pack, shard_of
from iggy_broker.metrics_text import Family, Sample, labels, single
from iggy_broker.net.observer import NONE_STORED, STEP, Heard, watched_groups
from iggy_broker.storage.partition_table import PartitionFigures, SlotState

if TYPE_CHECKING:
    from iggy_broker.metadata.model import Group, Partition, State, Stream, Topic
    from iggy_broker.net.context import Services

TOPIC_SERIES_MAX: Final = 2000  # topics with series of their own
PARTITION_SERIES_MAX: Final = 2000  # partitions with series of their own

_TOTALS: Final = {
    "streams": "Streams.",
    "topics": "Topics.",
    "partitions": "Partitions.",
    "partitions_fenced": "Partitions that are not served: files are missing, or room on the disk.",
    "consumer_groups": "Consumer groups.",
    "consumer_group_members": "Members of all consumer groups.",
    "messages": "Stored messages.",
    "messages_size_bytes": "Bytes of all segments.",
    "segments_count": "Segments.",
    "partition_segments_max": "Segments of the partition that has most.",
    "lag_messages": "Lag of all groups together.",
    "group_lag_messages_max": "Lag of the group that is furthest behind.",
}
_OF_TOPIC: Final = {
    "topic_partitions": "Partitions of a topic.",
    "topic_messages": "Stored messages of a topic.",
    "topic_size_bytes": "Bytes of the segments of a topic.",
    "topic_segments": "Segments of a topic.",
}
_OF_PARTITION: Final = {
    "partition_messages": "Stored messages of a partition.",
    "partition_size_bytes": "Bytes of the segments of a partition.",
    "partition_segments": "Segments of a partition.",
    "partition_next_offset": "Offset that the next message of a partition gets.",
}
_OF_DAMAGE: Final = {
    "partition_damaged_offset": "First offset of a partition that a check found damaged, if any.",
}
_OF_GROUP: Final = {
    "group_members": "Members of a consumer group.",
    "group_lag_messages": "Messages that polls of next could still return to a group.",
    "group_partition_lag_messages": "The same, by partition.",
}


class Census:
    """What one walk found. `families` gives it once `count` is through."""

    def __init__(self, services: Services, heard: Heard) -> None:
        """`heard`: what all shards said of their groups."""
        self._services = services
        self._state: State = services.replica.state  # frozen: all is about one moment
        self._heard = heard
        self._totals = dict.fromkeys(_TOTALS, 0)
        self._series: dict[str, list[Sample]] = {
            name: [] for name in (*_OF_TOPIC, *_OF_PARTITION, *_OF_DAMAGE, *_OF_GROUP)
        }
        self._omitted = dict.fromkeys(("topic", "partition", "group"), 0)
        self._since_turn = 0

    async def count(self) -> None:
        """Walk through all of it; others have their turns of the loop meanwhile."""
        state = self._state
        self._totals["streams"] = len(state.streams)
        self._totals["consumer_group_members"] = sum(
            len(assignment.members) for assignment in state.memberships.groups.values()
        )
        for stream in state.streams_by_id():
            for topic in stream.topics_by_id():
                await self._count_topic(stream, topic)
        await self._count_groups()

    def families(self) -> list[Family]:
        """All that was counted."""
        found = [
            single(f"iggy_{name}", "gauge", description, self._totals[name])
            for name, description in _TOTALS.items()
        ]
        found += [
            Family(f"iggy_{name}", "gauge", description, self._series[name])
            for kind in (_OF_TOPIC, _OF_PARTITION, _OF_DAMAGE, _OF_GROUP)
            for name, description in kind.items()
        ]
        omitted: list[Sample] = [("", labels(of=of), count) for of, count in self._omitted.items()]
        description = "Things without series of their own, for being too many."
        return [*found, Family("iggy_series_omitted", "gauge", description, omitted)]

    async def _pause(self) -> None:
        self._since_turn += 1
        if self._since_turn >= STEP:
            self._since_turn = 0
            await asyncio.sleep(0)

    async def _count_topic(self, stream: Stream, topic: Topic) -> None:
        table, totals = self._services.table, self._totals
        sizes = [0, 0, 0]
        label = labels(stream=stream.name, topic=topic.name)
        for partition in topic.partitions:
            await self._pause()
            figures = table.read(partition.slot)
            if figures.incarnation != partition.incarnation:
                continue  # deleted since this walk began: its slot is free, or another one's
            values = (figures.messages_count, figures.size_bytes, figures.segments_count)
            sizes = [before + value for before, value in zip(sizes, values, strict=True)]
            totals["partitions_fenced"] += figures.state == SlotState.FENCED
            most = totals["partition_segments_max"]
            totals["partition_segments_max"] = max(most, figures.segments_count)
            part = f'{label},partition="{partition.id}"'
            self._show_partition(part, figures)
            self._show_damage(part, figures, table.damaged(partition.slot))
        totals["topics"] += 1
        totals["partitions"] += len(topic.partitions)
        totals["consumer_groups"] += len(topic.groups)
        for name, value in zip(
            ("messages", "messages_size_bytes", "segments_count"), sizes, strict=True
        ):
            totals[name] += value
        if len(self._series["topic_messages"]) >= TOPIC_SERIES_MAX:
            self._omitted["topic"] += 1
        else:
            self._show(_OF_TOPIC, label, (len(topic.partitions), *sizes))

    def _show_partition(self, label: str, figures: PartitionFigures) -> None:
        if len(self._series["partition_messages"]) >= PARTITION_SERIES_MAX:
            self._omitted["partition"] += 1
            return
        values = (
            figures.messages_count,
            figures.size_bytes,
            figures.segments_count,
            figures.next_offset,
        )
        self._show(_OF_PARTITION, label, values)

    def _show_damage(self, label: str, figures: PartitionFigures, offset: int | None) -> None:
        """Until retention or a purge has taken it."""
        series = self._series["partition_damaged_offset"]
        if offset is None or len(series) >= PARTITION_SERIES_MAX:
            return
        if figures.first_offset <= offset < figures.next_offset:
            series.append(("", label, offset))

    def _show(self, names: Iterable[str], label: str, values: Iterable[int]) -> None:
        for name, value in zip(names, values, strict=True):
            self._series[name].append(("", label, value))

    async def _count_groups(self) -> None:
        memberships, totals = self._state.memberships, self._totals
        watched = 0
        for stream, topic, group in watched_groups(self._state):
            watched += 1
            label = labels(stream=stream.name, topic=topic.name, group=group.name)
            members = len(memberships.of_group(GroupPlace(stream.id, topic.id, group.id)).members)
            self._series["group_members"].append(("", label, members))
            lags = [await self._lag(stream, topic, group, place) for place in topic.partitions]
            for partition, lag in zip(topic.partitions, lags, strict=True):
                if lag is not None:
                    part = f'{label},partition="{partition.id}"'
                    self._series["group_partition_lag_messages"].append(("", part, lag))
            known = [lag for lag in lags if lag is not None]
            totals["lag_messages"] += sum(known)
            if len(known) == len(lags):  # else a sum would be too low
                self._series["group_lag_messages"].append(("", label, sum(known)))
                most = totals["group_lag_messages_max"]
                totals["group_lag_messages_max"] = max(most, sum(known))
        self._omitted["group"] = totals["consumer_groups"] - watched

    async def _lag(
        self, stream: Stream, topic: Topic, group: Group, partition: Partition
    ) -> int | None:
        """What polls of next could still return, from behind the stored offset or the oldest on.

        None when nobody can say: the shard is silent, or the partition is not served.
        """
        await self._pause()
        packed = pack(stream.id, topic.id, partition.id)
        if self._heard.silent and (
            shard_of(packed, self._services.shards_count) in self._heard.silent
        ):
            return None
        figures = self._services.table.read(partition.slot)
        if figures.incarnation != partition.incarnation:
            return None
        stored = self._heard.offsets.get((packed, partition.incarnation, group.id), NONE_STORED)
        if stored is None:
            return None
        return max(0, figures.visible_next_offset - max(stored + 1, figures.first_offset))
