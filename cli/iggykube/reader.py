"""Where a consumer stands in each partition, alone or as a member of a group."""

from collections.abc import Collection
from typing import Final

from iggy_client.client import Client, messages
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import PARTITION_NOT_OWNED, Consumer, PollingStrategy
from iggy_wire.replies import Polled
from iggykube.connection import BrokerProblem
from iggykube.option_types import Position

POLL_MESSAGES_MAX: Final = 1000
POLL_BYTES_USUAL: Final = 4 << 20
"""A reply is sized for about so much, by the messages seen so far; servers give 63 MiB at most."""


class Reader:
    """Reads partitions by offset and remembers how far. Stores nothing at the broker."""

    def __init__(self, client: Client, stream: str, topic: str, start: Position) -> None:
        """Asks nothing yet."""
        self._client = client
        self._place = stream, topic
        self._start = start
        self._consumer: Consumer | int = 0
        self._next: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._read: set[int] = set()
        self._reads_all = False
        self._count = POLL_MESSAGES_MAX
        self.has_read = False
        """Whether a partition was ever ours to poll."""

    def begin(self, partitions: Collection[int]) -> None:
        """Read these, or all if there are none. Raises BrokerProblem if one is not there.

        Who may poll and may not look at the topic can read partitions that are named.
        """
        self._reads_all = not partitions
        try:
            known = self._known()
        except ClientError as error:
            if self._reads_all or error.code != ErrorCode.UNAUTHORIZED:
                raise
            known = tuple(partitions)
        for partition in partitions or known:
            if partition not in known:
                fix = f"it has {len(known)}, from 0 on" if known else "it has none"
                raise BrokerProblem(f"topic {self._name} has no partition {partition}: {fix}")
            self._next[partition] = self._first(partition)

    @property
    def _name(self) -> str:
        return "/".join(self._place)

    def _known(self) -> tuple[int, ...]:
        """The topic's partitions. Raises BrokerProblem if there is no topic."""
        details = self._client.get_topic(*self._place)
        if details is None:
            raise BrokerProblem(f"there is no topic {self._name}: create it first")
        return tuple(partition.id for partition in details.partitions)

    @property
    def partitions(self) -> tuple[int, ...]:
        """Those that are ours to read now."""
        return tuple(self._next)

    def is_at_end(self) -> bool:
        """Whether everything was read that each partition held when it was first polled."""
        return all(
            partition in self._ends and self._next[partition] >= self._ends[partition]
            for partition in self._next
        )

    def poll(self, partition: int, count: int) -> list[Message]:
        """The next messages, at most `count`; none where there are no more, for now."""
        wanted = min(count, self._count)
        strategy = PollingStrategy.offset(self._next[partition])
        polled = self._poll(partition, strategy, wanted)
        if polled.partition_id == PARTITION_NOT_OWNED:
            self.lose(partition)
            return []
        self.has_read = True
        if not polled.count:
            self._check_end(partition, polled.current_offset)
            self._ends[partition] = self._next[partition]
        else:
            self._ends.setdefault(partition, polled.current_offset + 1)
            size_bytes = max(1, len(polled.region) // polled.count)
            self._count = max(1, min(POLL_MESSAGES_MAX, POLL_BYTES_USUAL // size_bytes))
        return list(messages(polled))

    def _check_end(self, partition: int, last_offset: int) -> None:
        """Offsets begin anew in a topic that was purged, and nothing would be seen for long."""
        position = self._next[partition]
        if partition in self._read and last_offset + 1 < position:
            raise BrokerProblem(
                f"partition {partition} of {self._name} ends before offset {position}, where "
                "reading had come to: the topic was purged or made anew, so start again"
            )

    def done(self, partition: int, offset: int) -> None:
        """Everything up to and including `offset` was printed."""
        self._next[partition] = offset + 1
        self._read.add(partition)

    def refresh(self) -> None:
        """Learn what has become ours, and what is no more. A new partition is read from its start.

        Raises BrokerProblem if the topic is gone.
        """
        if not self._reads_all:
            return
        known = self._known()
        for partition in self.partitions:
            if partition not in known:
                self.lose(partition)
        for partition in known:
            self._next.setdefault(partition, 0)

    def lose(self, partition: int) -> None:
        """This one is no more ours."""
        self._next.pop(partition, None)
        self._ends.pop(partition, None)
        self._read.discard(partition)

    def close(self) -> None:
        """Done."""

    def _poll(self, partition: int, strategy: PollingStrategy, count: int) -> Polled:
        return self._client.poll(
            *self._place, partition, consumer=self._consumer, strategy=strategy, count=count
        )

    def _first(self, partition: int) -> int:
        """The offset where a partition begins to be read."""
        start = self._start
        if start.kind == "first":
            return 0  # the broker begins at the oldest that it still has
        if start.kind == "offset":
            return start.value
        strategy = PollingStrategy.last()
        if start.kind == "timestamp":
            strategy = PollingStrategy.timestamp(start.value)
        polled = self._peek(partition, strategy)
        first = next(iter(messages(polled)), None)
        if first is not None and start.kind != "next":
            return first.offset
        # Nothing is there, or only what comes is wanted. An empty partition tells 0, too.
        return polled.current_offset + 1 if polled.count or polled.current_offset else 0

    def _peek(self, partition: int, strategy: PollingStrategy) -> Polled:
        """One message, as nobody's: what a member is handed counts as under way."""
        return self._client.poll(*self._place, partition, strategy=strategy, count=1)


class GroupReader(Reader):
    """A member of a group: reads what it is assigned, from the group's offset on."""

    def __init__(
        self, client: Client, stream: str, topic: str, start: Position, *, group: str
    ) -> None:
        """`start` counts where the group has stored nothing."""
        super().__init__(client, stream, topic, start)
        self._group = group
        self._consumer = Consumer.group(group)

    def begin(self, partitions: Collection[int]) -> None:
        """Join; the group is made if it is not there."""
        try:
            self._client.create_group(*self._place, self._group)
        except ClientError as error:
            if error.code != ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS:
                raise
        self._client.join_group(*self._place, self._group)
        self.refresh()

    def refresh(self) -> None:
        """Ask for the assignment. Joins again if the broker does not know us any more."""
        assigned = self._client.sync_group(*self._place, self._group)
        if assigned is None:
            self._client.join_group(*self._place, self._group)
            assigned = self._client.sync_group(*self._place, self._group)
        ours = () if assigned is None else assigned.partitions
        for partition in self.partitions:
            if partition not in ours:
                self.lose(partition)
        for partition in ours:
            if partition not in self._next:
                self._next[partition] = self._begin_at(partition)

    def _begin_at(self, partition: int) -> int:
        stored = self._client.get_offset(self._consumer, *self._place, partition)
        if stored is not None:
            return stored.stored_offset + 1
        return 0 if self._start.kind == "next" else self._first(partition)

    def done(self, partition: int, offset: int) -> None:
        """Commit. A partition that went to another member is read by that one again."""
        try:
            self._client.store_offset(self._consumer, *self._place, partition, offset)
        except ClientError as error:
            if error.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise
            self.lose(partition)
        else:
            super().done(partition, offset)

    def close(self) -> None:
        """Leave, so that the others need not wait for us to be missed."""
        self._client.leave_group(*self._place, self._group)
