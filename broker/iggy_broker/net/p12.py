"""What P12 says beyond P11, read from a request and written into a reply. Pure.

Handlers, and the shards that own partitions, speak P11; the shard that a client is connected to
adds the rest: whether the reply is the outcome of a logged operation, and in which context a
partition was served (Iggy protocol 0.12, headers and partition context).

Two things that P12 lets a server ask for are always so here and are not looked at: the least change
of metadata that a request must find was applied on every shard before anybody was told of it; and
who owns a partition in a group is looked up anew for every request, whatever its generation says.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.net.outbox import Part
from iggy_broker.net.targets import ReadTarget, Target, group_place
from iggy_broker.storage.partition import FileRange
from iggy_wire.codes import Command, FrameKind, Operation, is_result_framed
from iggy_wire.errors import ErrorCode
from iggy_wire.header import (
    HEADER_BYTES,
    PartitionContext,
    ReplyHeader,
    RequestHeader,
    frame_kind,
    stamp_reply,
)
from iggy_wire.primitives import PARTITION_NOT_OWNED
from iggy_wire.requests import DeleteConsumerOffset, StoreConsumerOffset
from iggy_wire.results import split_result

if TYPE_CHECKING:
    from iggy_broker.metadata.model import State
    from iggy_broker.net.context import Services
    from iggy_wire.request_base import Request

# Told in a result section, but nothing was logged, or nobody knows any more what was.
_UNSETTLED: Final = frozenset(
    {
        ErrorCode.TRANSIENT_NOT_COMMITTED,
        ErrorCode.TRANSIENT_NOT_ACCEPTED,
        ErrorCode.REQUEST_ALREADY_APPLIED,
        ErrorCode.NOT_PRIMARY,
        ErrorCode.DEFERRED_POLL_CAPACITY_EXCEEDED,
    }
)
_RENAMED: Final[dict[tuple[int, ErrorCode], ErrorCode]] = {
    (Command.CREATE_CONSUMER_GROUP, ErrorCode.FEATURE_UNAVAILABLE): (
        ErrorCode.TOO_MANY_CONSUMER_GROUPS
    ),
    (Command.CREATE_PARTITIONS, ErrorCode.TOO_MANY_PARTITIONS): ErrorCode.PARTITIONS_LIMIT_REACHED,
}
NO_CONTEXT: Final = PartitionContext()
_U32: Final = Struct("<I")
_SIZE_AT_BYTES: Final = 48
_HEAD_BYTES: Final = HEADER_BYTES + 16  # of a poll reply in P11


def check_life(target: Target, known: PartitionContext) -> None:
    """Reject with HISTORY_UNAVAILABLE a request that means an earlier life of the partition."""
    if known.incarnation != target.incarnation:
        detail = f"partition {target.partition_id}: life {known.incarnation} is over; look it up"
        raise Reject(ErrorCode.HISTORY_UNAVAILABLE, detail)


def check_owner(read: ReadTarget, known: PartitionContext) -> None:
    """Reject with CONSUMER_GROUP_PARTITION_NOT_OWNED a poll of what is not the caller's."""
    if read.key is None or (not read.session and known.owner_generation):
        raise Reject(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED, "sync the group again")


def check_committer(services: Services, request: Request, target: Target, session: int) -> None:
    """Reject with CONSUMER_GROUP_PARTITION_NOT_OWNED an offset that a member may not store."""
    if not isinstance(request, StoreConsumerOffset | DeleteConsumerOffset):
        return
    state = services.replica.state
    place = group_place(state, request.consumer, target)
    if place is None:  # a plain consumer, or no such group
        return
    if not state.memberships.of_group(place).may_commit(session, target.partition_id):
        detail = f"partition {target.partition_id} is another member's of group {place.group_id}"
        raise Reject(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED, detail)


def renamed(refusal: Reject, command: int) -> Reject:
    """A refusal with the number that P12 has for it, where P11 has a more general one."""
    code = _RENAMED.get((command, refusal.code))
    if code is None or isinstance(refusal, Deny):
        return refusal
    return Reject(code, refusal.detail)


def served_in(state: State, read: ReadTarget) -> PartitionContext:
    """The context of a poll: the generation is the group's, 0 for a plain consumer."""
    target, key = read.target, read.key
    assert target is not None and key is not None, "who does not own it is refused"
    generation = 0
    if read.session:
        place = GroupPlace(target.stream_id, target.topic_id, key.id)
        generation = state.memberships.of_group(place).generation
    return PartitionContext(target.incarnation, generation, state.op)


def settled(reply: bytes, header: RequestHeader, known: PartitionContext = NO_CONTEXT) -> bytes:
    """A reply of ours, with what P12 has in it. Evictions stay as they are."""
    if frame_kind(reply) != FrameKind.REPLY:
        return reply
    frame = bytearray(reply)
    ours = ReplyHeader.decode(frame)
    committed = _is_outcome(ours, memoryview(frame)[HEADER_BYTES:])
    op = ours.commit or ours.op or 1 if committed else None
    stamp_reply(frame, checksum=header.request_checksum, op=op, incarnation=known.incarnation)
    return bytes(frame)


def _is_outcome(ours: ReplyHeader, body: memoryview) -> bool:
    """Whether a reply is the final outcome of a logged operation, good or bad."""
    if ours.status or ours.operation == Operation.NON_REPLICATED:
        return False
    if not is_result_framed(ours.operation, len(body)):
        return True
    return split_result(body)[0] not in _UNSETTLED


def in_context(
    parts: Sequence[Part],
    header: RequestHeader,
    *,
    known: PartitionContext,
    served: PartitionContext,
) -> Sequence[Part]:
    """The pieces of a poll reply, with the context that it was served in."""
    first = parts[0]
    assert not isinstance(first, FileRange), "a reply starts with its header"
    view = memoryview(first)
    if len(view) < _HEAD_BYTES:  # a refusal
        return (settled(bytes(view), header, known),)
    if _U32.unpack_from(view, HEADER_BYTES)[0] == PARTITION_NOT_OWNED:
        # It went to another member while the poll was on its way.
        raise Reject(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED, "sync the group again")
    context = served.encode()
    head = bytearray(view[:_HEAD_BYTES])
    size = _U32.unpack_from(head, _SIZE_AT_BYTES)[0] + len(context)
    _U32.pack_into(head, _SIZE_AT_BYTES, size)
    stamp_reply(head, checksum=header.request_checksum, op=None, incarnation=served.incarnation)
    return (head + context, view[_HEAD_BYTES:], *parts[1:])
