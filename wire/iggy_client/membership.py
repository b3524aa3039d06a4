"""What both clients can do as members of a consumer group, and with segments."""

from abc import abstractmethod
from typing import TypeVar

from iggy_client import calls
from iggy_client.session import Call
from iggy_wire.primitives import IdentifierLike
from iggy_wire.replies import GroupAssignment

T = TypeVar("T")


class MembershipMethods:
    """For the blocking client."""

    __slots__ = ()

    @abstractmethod
    def call(self, call: Call[T]) -> T:
        """Make a call."""

    def join_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> None:
        """Become a member, until `leave_group` or the end of the session. Twice is fine.

        Servers end the sessions of members that are silent for longer than their heartbeat allows
        (36 s by default): see `KeptAlive`.
        """
        self.call(calls.join_group(stream, topic, group))

    def leave_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> None:
        """Be no member any more."""
        self.call(calls.leave_group(stream, topic, group))

    def sync_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> GroupAssignment | None:
        """Which partitions are this member's to poll now; None when it is no member."""
        return self.call(calls.sync_group(stream, topic, group))

    def delete_segments(
        self, stream: IdentifierLike, topic: IdentifierLike, partition_id: int, count: int
    ) -> None:
        """Remove the `count` oldest closed segments, once all who store offsets have read them."""
        self.call(calls.delete_segments(stream, topic, partition_id, count))


class AsyncMembershipMethods:
    """For the async client: the same, awaited."""

    __slots__ = ()

    @abstractmethod
    async def call(self, call: Call[T]) -> T:
        """Make a call."""

    async def join_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> None:
        """Become a member; see `MembershipMethods.join_group`."""
        await self.call(calls.join_group(stream, topic, group))

    async def leave_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> None:
        """Be no member any more."""
        await self.call(calls.leave_group(stream, topic, group))

    async def sync_group(
        self, stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
    ) -> GroupAssignment | None:
        """Which partitions are this member's to poll now; None when it is no member."""
        return await self.call(calls.sync_group(stream, topic, group))

    async def delete_segments(
        self, stream: IdentifierLike, topic: IdentifierLike, partition_id: int, count: int
    ) -> None:
        """Remove the `count` oldest closed segments, once all who store offsets have read them."""
        await self.call(calls.delete_segments(stream, topic, partition_id, count))
