"""IggyTopic: a topic that is as wanted, drift told or set back, a loss told until acknowledged."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerAdmin, BrokerError
from iggy_operator.cache import Entry
from iggy_operator.cluster import Ref
from iggy_operator.conditions import (
    DATA_CONTINUITY,
    READY,
    SYNCED,
    Condition,
    condition,
    found,
)
from iggy_operator.decide.actions import AddPartitions, Decision, RemovePartitions, UpdateTopic
from iggy_operator.decide.deletion import Doomed, decide_topic_deletion
from iggy_operator.decide.topics import ObservedTopic, decide_topic, judge_topic
from iggy_operator.kinds import common, topic_connectors
from iggy_operator.kinds.common import Note, Release, Verdict, World
from iggy_operator.objects import annotation, has_finalizer, is_deleting, status_of
from iggy_operator.observed import incarnation_of, observed_topic, options_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import CONNECTORS, FOREVER, OptionValue, Stream, Topic
from iggy_operator.status import Report
from iggy_wire.replies import TopicHeader

_NOT_OURS: Final = frozenset({Reason.CONFLICT, Reason.ALREADY_EXISTS, Reason.NOT_ALLOWED})
DRIFT_ROWS_MAX: Final = 16  # as the schema says
# Option of the broker -> field of `status.effective`.
_EFFECTIVE: Final = {
    "compression_algorithm": "compression",
    "enforce_fsync": "enforceFsync",
    "messages_required_to_save": "flushMessages",
    "size_of_messages_required_to_save": "flushBytes",
    "segment_size": "segmentSize",
}


async def reconcile(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """One pass. Raises ClusterError.

    The broker first: a sink or source finds its topic there. But they are objects of the cluster,
    so they follow the list also while nobody answers for the topic; they are not made for one that
    is somebody else's.
    """
    try:
        verdict = await _in_broker(world, entry, may_act=may_act)
    except (Blocked, BrokerError) as error:
        verdict = Verdict(stopped_by=error)
    is_ours = _NOT_OURS.isdisjoint(_reasons(verdict))
    report = verdict.report
    for kind in CONNECTORS:
        report = report.joined(
            await topic_connectors.bring_in_line(
                world, entry, kind, may_act=may_act, may_create=is_ours
            )
        )
    return replace(verdict, report=report)


def _reasons(verdict: Verdict) -> list[Reason]:
    if isinstance(verdict.stopped_by, Blocked):
        return [verdict.stopped_by.reason]
    return [row.reason for row in verdict.report.conditions if row.type == READY]


async def _in_broker(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """The topic itself. Raises Blocked, BrokerError, ClusterError."""
    topic = entry.resource
    assert isinstance(topic, Topic)
    parent, stream = _stream_of(world, topic)
    broker = common.broker_of(world, entry, stream.broker)
    common.check_owner(world, parent, broker)
    common.check_owner(world, entry, broker)
    admin = await world.brokers.admin(world.cluster, broker)
    known = status_of(entry.value).get("incarnation")
    header = await _find(admin, parent, topic, known=known)
    seen = await _observed(admin, stream, topic, header)
    if known is None and seen is not None and common.has_begun(entry):
        known = seen.incarnation
    judge = decide_topic if may_act else judge_topic
    decision = judge(topic, seen, known=known)
    if any(isinstance(action, RemovePartitions) for action in decision.actions):
        decision = await _decided_anew(world, entry, admin, stream, known=known)
    if may_act and decision.is_ready:
        await common.act(world, entry, admin, stream.stream_name, decision)
        header = (await admin.topics(stream.stream_name)).get(topic.topic_name)
    return _verdict(entry, parent, decision, header)


async def release(world: World, entry: Entry) -> Release:
    """The object is being deleted. Raises Blocked, BrokerError, ClusterError."""
    topic = entry.resource
    assert isinstance(topic, Topic)
    if not has_finalizer(entry.value) or topic.deletion_policy == "Retain":
        return Release()
    try:
        parent, stream = _stream_of(world, topic, may_be_deleting=True)
    except Blocked:
        if world.cache.get(Ref("IggyStream", topic.stream.namespace, topic.stream.name)):
            raise
        text = f"topic {topic.topic_name} stays in the broker: its IggyStream is gone"
        return Release(notes=(Note("Retained", text),))
    admin = await common.broker_for_release(world, entry, stream.broker)
    if admin is None or not all(
        common.is_owner(world, item, stream.broker) for item in (parent, entry)
    ):
        return Release()
    header = await admin.topic_now(stream.stream_name, topic.topic_name)
    doomed = None
    if header is not None:
        doomed = Doomed(header.name, incarnation_of(header), header.messages_count)
    known = common.owned_incarnation(entry, doomed)
    deletion = decide_topic_deletion(topic.deletion_policy, doomed, known=known)
    return await common.carry_out(admin, stream.stream_name, deletion)


def _stream_of(
    world: World, topic: Topic, *, may_be_deleting: bool = False
) -> tuple[Entry, Stream]:
    """The stream's object. Raises Blocked."""
    ref = topic.stream
    item = world.cache.get(Ref("IggyStream", ref.namespace, ref.name))
    if item is None or (is_deleting(item.value) and not may_be_deleting):
        state = "there is no IggyStream" if item is None else "somebody deletes the IggyStream"
        raise Blocked(
            Reason.STREAM_NOT_FOUND,
            f"{state} {ref.name} in namespace {ref.namespace}: make it, or make a new IggyTopic "
            "with another streamRef",
        )
    if not isinstance(item.resource, Stream):
        text = f"{item.ref} is not ready: see its conditions"
        raise Blocked(Reason.STREAM_NOT_FOUND, text)
    return item, item.resource


async def _find(
    admin: BrokerAdmin, parent: Entry, topic: Topic, *, known: str | None
) -> TopicHeader | None:
    """The topic in the broker. Raises Blocked if there is no stream to find it in."""
    stream = parent.resource
    assert isinstance(stream, Stream)
    is_made = "incarnation" in status_of(parent.value)  # or adopted: else it may be theirs
    if not is_made or stream.stream_name not in await admin.streams():
        raise Blocked(
            Reason.STREAM_NOT_FOUND,
            f"stream {stream.stream_name} is not ready in the broker: see the conditions of its "
            f"IggyStream {stream.key.name}",
        )
    header = (await admin.topics(stream.stream_name)).get(topic.topic_name)
    if header is None and known is not None:  # a loss is not told on hearsay
        header = await admin.topic_now(stream.stream_name, topic.topic_name)
    return header


async def _decided_anew(
    world: World, entry: Entry, admin: BrokerAdmin, stream: Stream, *, known: str | None
) -> Decision:
    """Partitions take their messages along: decide on what is true at this moment."""
    topic = entry.resource
    assert isinstance(topic, Topic)
    await common.check_current(world, entry)
    header = await admin.topic_now(stream.stream_name, topic.topic_name)
    return decide_topic(topic, await _observed(admin, stream, topic, header), known=known)


async def _observed(
    admin: BrokerAdmin, stream: Stream, topic: Topic, header: TopicHeader | None
) -> ObservedTopic | None:
    if header is None:
        return None
    groups: frozenset[str] = frozenset()
    if topic.consumer_groups:
        groups = await admin.groups(stream.stream_name, topic.topic_name)
    return observed_topic(header, groups)


def _verdict(
    entry: Entry, parent: Entry, decision: Decision, header: TopicHeader | None
) -> Verdict:
    stream = parent.resource
    assert isinstance(stream, Stream)
    stream_id = status_of(parent.value).get("streamId")
    topic = entry.resource
    assert isinstance(topic, Topic)
    if not decision.is_ready:
        raise Blocked(decision.reason, decision.message)
    fields = {} if header is None else _fields(topic, stream, header)
    fields["streamId"] = stream_id
    rows = [
        {"field": row.field, "desired": row.desired, "actual": row.actual} for row in decision.drift
    ]
    fields["drift"] = rows[:DRIFT_ROWS_MAX] or None
    if decision.is_recreated:
        fields["recreations"] = status_of(entry.value).get("recreations", 0) + 1
    synced_reason = Reason.SYNCED if decision.is_synced else decision.reason
    conditions = (
        condition(READY, True, Reason.SYNCED, f"topic {topic.topic_name} is there"),
        condition(
            SYNCED,
            decision.is_synced,
            synced_reason,
            "" if decision.is_synced else decision.message,
        ),
        _continuity(entry, decision, header),
    )
    return Verdict(
        Report(conditions, fields), notes=_notes(decision), has_acted=bool(decision.actions)
    )


def _notes(decision: Decision) -> tuple[Note, ...]:
    notes = []
    if decision.is_recreated:
        notes.append(Note(str(Reason.RECREATED), decision.message))
    for action in decision.actions:
        if isinstance(action, UpdateTopic):
            text = f"set back in the broker: {', '.join(sorted(action.options))}"
            notes.append(Note("DriftReverted", text, is_warning=False))
        elif isinstance(action, AddPartitions):
            text = f"partitions added: {action.count}"
            notes.append(Note("PartitionsAdded", text, is_warning=False))
    return tuple(notes)


def _continuity(entry: Entry, decision: Decision, header: TopicHeader | None) -> Condition:
    """Whether the topic is the one first seen; a loss stays told until somebody acknowledges it."""
    before = found(status_of(entry.value).get("conditions", ()), DATA_CONTINUITY)
    incarnation = "" if header is None else incarnation_of(header)
    if decision.is_recreated:
        text = decision.message
    elif before is not None and before["status"] == "False":
        if incarnation and annotation(entry.value, "acknowledge-recreation") == incarnation:
            return condition(DATA_CONTINUITY, True, Reason.SYNCED)
        return condition(DATA_CONTINUITY, False, Reason.RECREATED, before["message"])
    else:
        return condition(DATA_CONTINUITY, True, Reason.SYNCED)
    fix = f"annotate acknowledge-recreation: {incarnation} once readers know"
    return condition(DATA_CONTINUITY, False, Reason.RECREATED, f"{text}; {fix}")


def _fields(topic: Topic, stream: Stream, header: TopicHeader) -> dict[str, Any]:
    return {
        "topicName": topic.topic_name,
        "streamName": stream.stream_name,
        "topicId": header.id,
        "incarnation": incarnation_of(header),
        "partitions": header.partitions_count,
        "messages": header.messages_count,
        "sizeBytes": header.size_bytes,
        "effective": _effective(options_of(header)),
    }


def _effective(options: Mapping[str, OptionValue]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        field: options[name] for name, field in _EFFECTIVE.items() if name in options
    }
    expiry_us, size_bytes = options["message_expiry"], options["max_topic_size"]
    shown["messageExpiry"] = "never" if expiry_us == FOREVER else f"{int(expiry_us) // 1000}ms"
    shown["maxSize"] = "unlimited" if size_bytes == FOREVER else str(size_bytes)
    return shown
