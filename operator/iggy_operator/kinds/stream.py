"""IggyStream: a stream that exists, is the one first seen, and is shown in the status."""

from iggy_operator.blocked import Blocked
from iggy_operator.cache import Entry
from iggy_operator.conditions import READY, SYNCED, condition
from iggy_operator.decide.actions import Decision
from iggy_operator.decide.deletion import Doomed, decide_stream_deletion
from iggy_operator.decide.streams import ObservedStream, decide_stream, judge_stream
from iggy_operator.kinds import common
from iggy_operator.kinds.common import Note, Release, Verdict, World
from iggy_operator.objects import has_finalizer, is_deleting, status_of
from iggy_operator.observed import incarnation_of, observed_stream
from iggy_operator.reasons import Reason
from iggy_operator.resources import Stream, Topic
from iggy_operator.status import Report
from iggy_wire import replies


async def reconcile(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """One pass. Raises Blocked, BrokerError, ClusterError."""
    stream = entry.resource
    assert isinstance(stream, Stream)
    broker = await common.broker_for(world, entry, stream.broker, may_act=may_act)
    common.check_owner(world, entry, broker)
    admin = await world.brokers.admin(world.cluster, broker)
    known = status_of(entry.value).get("incarnation")
    found = (await admin.streams()).get(stream.stream_name)
    if found is None and known is not None:
        found = await admin.stream_now(stream.stream_name)  # a loss is not told on hearsay
    seen = _observed(found)
    if known is None and seen is not None and common.has_begun(entry):
        known = seen.incarnation
    judge = decide_stream if may_act else judge_stream
    decision = judge(stream, seen, known=known)
    if may_act and decision.is_ready:
        await common.act(world, entry, admin, stream.stream_name, decision)
        found = (await admin.streams()).get(stream.stream_name)
    return _verdict(stream, decision, found)


async def release(world: World, entry: Entry) -> Release:
    """The object is being deleted. Raises Blocked, BrokerError, ClusterError."""
    stream = entry.resource
    assert isinstance(stream, Stream)
    if not has_finalizer(entry.value) or stream.deletion_policy == "Retain":
        return Release()
    admin = await common.broker_for_release(world, entry, stream.broker)
    if admin is None or not common.is_owner(world, entry, stream.broker):
        return Release()
    found = await admin.stream_now(stream.stream_name)
    topics: dict[str, bool] = {}
    if found is not None:
        admin.forget()
        names = await admin.topics(stream.stream_name)
        topics = {name: _goes(world, entry, name) for name in names}
    doomed = _doomed(found)
    known = common.owned_incarnation(entry, doomed)
    deletion = decide_stream_deletion(stream.deletion_policy, doomed, known=known, topics=topics)
    return await common.carry_out(admin, stream.stream_name, deletion)


def _goes(world: World, entry: Entry, topic: str) -> bool:
    """Whether the topic's own object is being deleted, and the topic with it.

    Where several objects stand for the topic, all of them.
    """
    goes = [
        item.resource.deletion_policy == "Delete" and is_deleting(item.value)
        for item in map(world.cache.get, world.cache.pointing_at(entry.ref))
        if item is not None
        and isinstance(item.resource, Topic)
        and item.resource.topic_name == topic
    ]
    return bool(goes) and all(goes)


def _verdict(stream: Stream, decision: Decision, found: replies.Stream | None) -> Verdict:
    if not decision.is_ready:
        raise Blocked(decision.reason, decision.message)
    ready = condition(READY, True, Reason.SYNCED, f"stream {stream.stream_name} is there")
    synced = condition(SYNCED, True, Reason.SYNCED)
    if not decision.is_synced:
        synced = condition(SYNCED, False, decision.reason, decision.message)
    fields: dict[str, object] = {}
    if found is not None:  # somebody may have deleted it again
        fields = {
            "streamName": stream.stream_name,
            "streamId": found.id,
            "incarnation": incarnation_of(found),
            "topics": found.topics_count,
            "messages": found.messages_count,
            "sizeBytes": found.size_bytes,
        }
    notes = (Note(decision.reason, decision.message),) if decision.is_recreated else ()
    return Verdict(Report((ready, synced), fields), notes=notes, has_acted=bool(decision.actions))


def _observed(stream: replies.Stream | None) -> ObservedStream | None:
    return None if stream is None else observed_stream(stream)


def _doomed(stream: replies.Stream | None) -> Doomed | None:
    if stream is None:
        return None
    return Doomed(stream.name, incarnation_of(stream), stream.messages_count)
