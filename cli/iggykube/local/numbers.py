"""How far topics and sinks are, asked of the broker at a bounded cost."""

import time
from dataclasses import dataclass
from typing import Final

from iggy_client.client import Client
from iggy_client.errors import ClientError, LinkError
from iggy_wire.primitives import Consumer
from iggy_wire.replies import PartitionInfo, TopicDetails
from iggykube.local.plan import LocalPlan, SinkPlan, TopicPlan

REFRESH_S_MIN: Final = 0.5
REFRESH_SHARE_MAX: Final = 0.05
"""Asking takes at most that share of the time: many partitions are asked for less often."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One sink. Counts of messages, over all partitions."""

    committed: int
    end: int
    lag: int


class Numbers:
    """The newest answers of the broker."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._topics: dict[tuple[str, str], TopicDetails] = {}
        self._stored: dict[str, dict[int, int]] = {}
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
        for sink in item.sinks:
            stored = {}
            group = Consumer.group(sink.name)  # the job is its only member
            for partition in details.partitions:
                offset = client.get_offset(group, stream, topic, partition.id)
                if offset is not None:
                    stored[partition.id] = offset.stored_offset + 1
            self._stored[sink.name] = stored
        self._topics[stream, topic] = details

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

    def progress(self, sink: SinkPlan) -> Progress:
        """What the sink's consumer group has stored at the broker, against the ends."""
        details = self._topics.get((sink.stream_name, sink.topic_name))
        ends = {} if details is None else {part.id: _end(part) for part in details.partitions}
        stored = self._stored.get(sink.name, {})
        done = {partition: min(end, stored.get(partition, 0)) for partition, end in ends.items()}
        committed, end = sum(done.values()), sum(ends.values())
        return Progress(committed, end, end - committed)


def _end(partition: PartitionInfo) -> int:
    """The offset that the next message gets. An empty partition reports offset 0, too."""
    if partition.messages_count == 0 and partition.current_offset == 0:
        return 0
    return partition.current_offset + 1
