"""How far a sink is: what its group has stored in the broker, against where the topic ends; and who
is in the group of a sink or source.
"""

from collections.abc import Mapping
from typing import Any, Final

from iggy_client import calls
from iggy_operator import units
from iggy_operator.broker_admin import BrokerAdmin
from iggy_operator.kinds import sink_retention
from iggy_operator.resources import Connector
from iggy_operator.units import time_of, time_text
from iggy_wire import batch
from iggy_wire.primitives import Consumer, PollingStrategy
from iggy_wire.replies_resources import PartitionInfo

TRIGGERS: Final = 3
"""A driver that has messages to carry, and has not for so many triggers, is not available."""
LOOK_S: Final = 60.0
"""Commits are seen at each look only, and that is how far two looks are apart."""


async def progress(
    admin: BrokerAdmin, stream: str, topic: str, group: str, *, now_s: float, old: Mapping[str, Any]
) -> tuple[dict[str, Any], int] | None:
    """`status.progress` and how many are in the group; None if there is no such topic.

    Raises BrokerError.
    """
    details = await admin.ask(calls.get_topic(stream, topic))
    if details is None:
        return None
    shared = await admin.ask(calls.get_group(stream, topic, group))
    committed = end = 0
    waiting: list[tuple[int, int, int]] = []  # lag, partition, the next offset to carry
    for partition in details.partitions:
        here = end_of(partition)
        done = 0
        if shared is not None:
            call = calls.get_offset(Consumer.group(group), stream, topic, partition.id)
            stored = await admin.ask(call)
            done = 0 if stored is None else min(here, stored.stored_offset + 1)
        if here > done:
            waiting.append((here - done, partition.id, done))
        committed, end = committed + done, end + here
    waiting.sort(key=lambda item: -item[0])
    result: dict[str, Any] = {
        "committed": committed,
        "end": end,
        "lagMessages": end - committed,
        "worstPartition": waiting[0][1] if waiting else None,
        "lastCommitTime": old.get("lastCommitTime"),
    }
    expiry_s = sink_retention.expiry_s(details.topic)
    looked_at = sink_retention.PARTITIONS_MAX if expiry_s else 1
    ages = [
        await _age_s(admin, (stream, topic, number, offset), now_s=now_s)
        for _, number, offset in waiting[:looked_at]
    ]
    if ages:
        result["lagSeconds"] = ages[0]
    result["headroomPercent"] = sink_retention.headroom(ages, expiry_s)
    if committed > old.get("committed", 0):
        result["lastCommitTime"] = time_text(now_s)
    result["rowsPerSecond"] = _speed(committed, old, now_s=now_s)
    members = 0 if shared is None else shared.group.members_count
    return {name: value for name, value in result.items() if value is not None}, members


def end_of(partition: PartitionInfo) -> int:
    """The offset that its next message gets."""
    if partition.current_offset == 0 and partition.messages_count == 0:
        return 0
    return partition.current_offset + 1


async def members(admin: BrokerAdmin, stream: str, topic: str, group: str) -> int:
    """How many are in a group. Raises BrokerError."""
    found = await admin.ask(calls.get_group(stream, topic, group))
    return 0 if found is None else found.group.members_count


def _speed(committed: int, old: Mapping[str, Any], *, now_s: float) -> str | None:
    """Messages a second since the last look; None where nobody can know."""
    carried = committed - old.get("committed", committed + 1)
    if carried < 0:  # the first look, or another topic
        return None
    # Nothing was carried over before the last look, and looks are no further apart than this.
    since_s = LOOK_S
    if (last := old.get("lastCommitTime")) is not None:
        since_s = min(since_s, max(1.0, now_s - time_of(last)))
    return f"{carried / since_s:.1f}"


async def _age_s(
    admin: BrokerAdmin, place: tuple[str, str, int, int], *, now_s: float
) -> int | None:
    """Age of the message at an offset, or of the next that is kept; None if there is none."""
    stream, topic, partition_id, offset = place
    polled = await admin.ask(
        calls.poll(
            stream,
            topic,
            partition_id,
            consumer=0,
            strategy=PollingStrategy.offset(offset),
            count=1,
            auto_commit=False,
        )
    )
    first = next(batch.messages(polled.region), None)
    return None if first is None else max(0, int(now_s - first.timestamp_us / 1_000_000))


def is_committing(sink: Connector, found: Mapping[str, Any], *, now_s: float) -> bool:
    """Whether the driver carries what there is: no lag, or a commit not long ago."""
    if found["lagMessages"] == 0:
        return True
    last = found.get("lastCommitTime")
    interval_s = units.duration_us(sink.spec["trigger"]["interval"]) / 1_000_000
    return last is not None and now_s - time_of(last) <= TRIGGERS * interval_s + LOOK_S
