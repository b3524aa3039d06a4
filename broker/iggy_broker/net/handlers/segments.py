"""Deletion of the oldest segments. Served by the shard that owns the partition.

Iggy protocol 0.11: what is missing is refused as the outcome of a change (STREAM_ID_, TOPIC_ID_,
PARTITION_NOT_FOUND). A count of 0, or nothing that is sealed, is a success.
"""

from __future__ import annotations

from iggy_broker.net.context import DONE, Answer, Context, Services
from iggy_broker.net.targets import Target, read_target
from iggy_wire.requests import DeleteSegments


def resolve_segments(services: Services, request: DeleteSegments) -> Target:
    """The partition; STREAM_ID_, TOPIC_ID_ or PARTITION_NOT_FOUND."""
    return read_target(services, request.stream.value, request.topic.value, request.partition_id)


async def delete_segments(context: Context, target: Target, request: DeleteSegments) -> Answer:
    """Remove the oldest sealed segments: now, or when all who store offsets have read them."""
    del context
    assert target.partition is not None, "segments are deleted by the owner"
    target.partition.delete_oldest_segments(request.segments_count)
    return DONE
