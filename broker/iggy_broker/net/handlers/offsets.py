"""Stored offsets of consumers. Served by the shard that owns the partition.

Iggy protocol 0.11: a store or delete that names something missing, or no partition, is refused with
RESOURCE_NOT_FOUND; a read of something missing is an empty success, except for a missing partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from iggy_broker.errors import Reject
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.net.context import DONE, Answer, Context, Services
from iggy_broker.net.handlers.segments import delete_segments, resolve_segments
from iggy_broker.net.targets import Target, consumer_key, group_place, read_target
from iggy_broker.storage.partition import ConsumerKey, Partition
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import AckLevel, Consumer, ConsumerKind
from iggy_wire.request_base import Request
from iggy_wire.requests import (
    DeleteConsumerOffset,
    DeleteSegments,
    GetConsumerOffset,
    StoreConsumerOffset,
)

_OFFSET: Final = Struct("<IQQ")  # partition, current offset, stored offset

_MISSING: Final = (ErrorCode.STREAM_ID_NOT_FOUND, ErrorCode.TOPIC_ID_NOT_FOUND)


def resolve_write(
    services: Services, request: StoreConsumerOffset | DeleteConsumerOffset
) -> Target:
    """The partition that a store or delete names; RESOURCE_NOT_FOUND."""
    if request.partition_id is None:
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, "name the partition whose offset you mean")
    try:
        return read_target(
            services, request.stream.value, request.topic.value, request.partition_id
        )
    except Reject as missing:
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, missing.detail) from None


def resolve_read(services: Services, request: GetConsumerOffset) -> Target | None:
    """The partition that a read names, None if stream or topic is missing; PARTITION_NOT_FOUND."""
    try:
        return read_target(
            services, request.stream.value, request.topic.value, request.partition_id
        )
    except Reject as missing:
        if missing.code in _MISSING:
            return None
        raise


async def store(context: Context, target: Target, request: StoreConsumerOffset) -> Answer:
    """Remember an offset; lower than before is fine. INVALID_OFFSET beyond the end."""
    assert target.partition is not None, "offsets are served by the owner"
    place = _group(context, target, request.consumer)
    target.partition.store_offset(_key(place, request.consumer), request.offset)
    if place is not None:
        _committed(context, target, place)
    await _durable(target.partition, request.ack)
    return DONE


async def delete(context: Context, target: Target, request: DeleteConsumerOffset) -> Answer:
    """Forget an offset; CONSUMER_OFFSET_NOT_FOUND if none is stored."""
    assert target.partition is not None, "offsets are served by the owner"
    place = _group(context, target, request.consumer)
    target.partition.delete_offset(_key(place, request.consumer))
    if place is not None:
        _committed(context, target, place)
    await _durable(target.partition, request.ack)
    return DONE


async def get(context: Context, target: Target, request: GetConsumerOffset) -> Answer:
    """Partition, current and stored offset; empty if nothing is stored. Of a group: to anybody."""
    assert target.partition is not None, "offsets are served by the owner"
    key = consumer_key(context.services.replica.state, request.consumer, target)
    stored = None if key is None else target.partition.offsets.get(key)
    if stored is None:
        return DONE
    current = target.partition.current_offset
    return Answer(_OFFSET.pack(target.partition_id, current, stored))


async def _durable(partition: Partition, ack: AckLevel) -> None:
    """Wait for the disk where the topic and the client want it."""
    if partition.must_wait and ack is not AckLevel.NONE:
        await partition.wait_durable()


def _group(context: Context, target: Target, consumer: Consumer) -> GroupPlace | None:
    """The group that the caller writes for as the owner of the partition; None if for itself."""
    if consumer.kind is not ConsumerKind.GROUP:
        return None
    state = context.services.replica.state
    place = group_place(state, consumer, target)
    session = context.session.number
    if place is None or not state.memberships.of_group(place).may_commit(
        session, target.partition_id
    ):
        detail = f"partition {target.partition_id} is not this client's in group {consumer.id}"
        raise Reject(ErrorCode.RESOURCE_NOT_FOUND, detail)
    return place


def _key(place: GroupPlace | None, consumer: Consumer) -> ConsumerKey:
    if place is None:
        return ConsumerKey(ConsumerKind.CONSUMER, consumer.number)
    return ConsumerKey(ConsumerKind.GROUP, place.group_id)


def _committed(context: Context, target: Target, place: GroupPlace) -> None:
    """Tell what is in flight of the group's offset, and let the partition go if it waits for it."""
    partition = target.partition
    assert partition is not None, "offsets are served by the owner"
    stored = partition.offsets.get(ConsumerKey(ConsumerKind.GROUP, place.group_id))
    partition.reads.committed(place.group_id, stored)
    if not partition.reads.is_busy(place.group_id):
        context.services.members.committed(place, target.partition_id)


@dataclass(frozen=True, slots=True)
class PartitionCommand:
    """A command that names one partition and runs on its owner, as a coroutine."""

    request: type[Request]
    resolve: Callable[[Services, Any], Target | None]  # None: an empty success
    serve: Callable[[Context, Target, Any], Awaitable[Answer]]
    names_life: bool = True  # whether P12 clients say which life of the partition they mean


PARTITION_COMMANDS: Final[dict[int, PartitionCommand]] = {
    Command.STORE_CONSUMER_OFFSET: PartitionCommand(StoreConsumerOffset, resolve_write, store),
    Command.DELETE_CONSUMER_OFFSET: PartitionCommand(DeleteConsumerOffset, resolve_write, delete),
    Command.GET_CONSUMER_OFFSET: PartitionCommand(GetConsumerOffset, resolve_read, get),
    Command.DELETE_SEGMENTS: PartitionCommand(
        DeleteSegments, resolve_segments, delete_segments, names_life=False
    ),
}
