"""How far topics and sinks are, asked of the broker at a bounded cost."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from iggy_client.client import Client
from iggy_client.errors import ClientError, LinkError
from iggy_operator.resources import Sink
from iggy_wire.primitives import Consumer
from iggy_wire.replies import Group, PartitionInfo, TopicDetails
from iggykube.local.plan import JobPlan, LocalPlan, TopicPlan
from iggykube.local.snapshot import GroupRow, PartitionRow

REFRESH_S_MIN: Final = 0.5
REFRESH_SHARE_MAX: Final = 0.05
"""Asking takes at most that share of the time: many partitions are asked for less often."""

GROUPS_MAX: Final = 32
"""Of a topic; of more the first ones are asked for."""
PARTITION_ROWS_MAX: Final = 64
"""So many partitions are told of one by one: those with the most lag."""

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Progress:
    """One sink or group. Counts of messages, over all partitions."""

    committed: int
    end: int
    lag: int
    partitions: tuple[PartitionRow, ...] = ()


class Numbers:
    """The newest answers of the broker."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._topics: dict[Place, TopicDetails] = {}
        self._groups: dict[Place, tuple[Group, ...]] = {}
        self._stored: dict[tuple[Place, str], dict[int, int]] = {}
        self._due_s = 0.0
        self._has_news = False

    def refresh(self, client: Client, plan: LocalPlan, now_s: float) -> None:
        """Ask again if it is time. A broker that does not answer leaves the old numbers."""
        if now_s < self._due_s:
            return
        try:
            if not client.is_open:
                client.reconnect()
            for item in plan.topics:
                self._ask(client, item)
        except (ClientError, LinkError):
            pass  # whether the broker is alive is seen at its process; these numbers can wait
        cost_s = time.monotonic() - now_s
        self._due_s = now_s + max(REFRESH_S_MIN, cost_s / REFRESH_SHARE_MAX)
        self._has_news = True

    def take_news(self) -> bool:
        """Whether `refresh` has asked since the last call."""
        had_news, self._has_news = self._has_news, False
        return had_news

    def _ask(self, client: Client, item: TopicPlan) -> None:
        stream, topic = item.stream.stream_name, item.topic.topic_name
        details = client.get_topic(stream, topic)
        if details is None:
            return
        jobs = {job.name for job in item.jobs}
        sinks = [job.name for job in item.jobs if isinstance(job.connector, Sink)]
        groups = [group for group in client.get_groups(stream, topic) if group.name not in jobs]
        groups = groups[:GROUPS_MAX]
        place = (stream, topic)
        for name in (*sinks, *(group.name for group in groups)):
            self._stored[place, name] = _stored(client, place, name, details)
        self._topics[place], self._groups[place] = details, tuple(groups)

    def _details(self, item: TopicPlan) -> TopicDetails | None:
        return self._topics.get((item.stream.stream_name, item.topic.topic_name))

    def partitions(self, item: TopicPlan) -> int:
        """Partitions of the topic."""
        details = self._details(item)
        return details.topic.partitions_count if details else item.topic.partitions_count

    def messages(self, item: TopicPlan) -> int:
        """Messages that can be read."""
        details = self._details(item)
        return details.topic.messages_count if details else 0

    def size_bytes(self, item: TopicPlan) -> int:
        """Their stored size."""
        details = self._details(item)
        return details.topic.size_bytes if details else 0

    def progress(self, sink: JobPlan) -> Progress:
        """What the sink's consumer group has stored at the broker, against the ends."""
        return self._progress((sink.stream_name, sink.topic_name), sink.name)

    def groups(self, item: TopicPlan) -> tuple[GroupRow, ...]:
        """The topic's other consumer groups, in order of their names."""
        place = (item.stream.stream_name, item.topic.topic_name)
        rows = []
        for group in sorted(self._groups.get(place, ()), key=lambda group: group.name):
            found = self._progress(place, group.name)
            numbers = (found.committed, found.end, found.lag, found.partitions)
            rows.append(GroupRow(group.name, group.members_count, *numbers))
        return tuple(rows)

    def _progress(self, place: Place, group: str) -> Progress:
        details = self._topics.get(place)
        stored = self._stored.get((place, group), {})
        rows = []
        for info in () if details is None else details.partitions:
            end = _end(info)
            committed = min(end, stored.get(info.id, 0))
            rows.append(PartitionRow(info.id, committed, end, end - committed))
        committed, end = sum(row.committed for row in rows), sum(row.end for row in rows)
        return Progress(committed, end, end - committed, most_behind(rows))


def most_behind(rows: Iterable[PartitionRow]) -> tuple[PartitionRow, ...]:
    """The partitions with the most lag, in order of their numbers."""
    behind = sorted(rows, key=lambda row: (-row.lag, row.partition))[:PARTITION_ROWS_MAX]
    return tuple(sorted(behind, key=lambda row: row.partition))


def _stored(client: Client, place: Place, group: str, details: TopicDetails) -> dict[int, int]:
    """By partition the offset behind the last one that is done; those that have one."""
    stored = {}
    consumer = Consumer.group(group)
    for partition in details.partitions:
        offset = client.get_offset(consumer, *place, partition.id)
        if offset is not None:
            stored[partition.id] = offset.stored_offset + 1
    return stored


def _end(partition: PartitionInfo) -> int:
    """The offset that the next message gets. An empty partition reports offset 0, too."""
    if partition.messages_count == 0 and partition.current_offset == 0:
        return 0
    return partition.current_offset + 1
