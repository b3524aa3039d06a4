"""`apply(state, entry)`: what a change does. Pure: the same state and entry give the same outcome.

A refusal (`Reject`) is as deterministic as a success: shard 0 asks here first and journals only
what is accepted, so nobody else ever sees a refused entry. What depends on settings (are these
options legal?) is decided before, in `options`: a journal must replay under any settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from iggy_broker.errors import Reject
from iggy_broker.metadata import changes, groups, model
from iggy_broker.metadata.applied import Applied, done, replace, with_item, without_item
from iggy_broker.metadata.apply_users import APPLY_USERS
from iggy_broker.metadata.changes import Entry, Result
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.model import Group, Partition, Placed, State, Stream, Topic, User
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Options, make_options


def apply(state: State, entry: Entry) -> Applied:
    """Apply one entry; Reject when the change cannot be made. `entry.op` follows `state.op`."""
    if isinstance(entry.change, changes.Volatile):
        assert entry.op == state.op, "a volatile change has no position of its own"
        changed, regrouped = groups.apply_member_change(state, entry.at_us, entry.change)
        return Applied(changed, Result(entry.op, entry.at_us), regrouped=regrouped)
    assert entry.op == state.op + 1, "entries are applied in journal order, without gaps"
    applied = _APPLY[type(entry.change)](state, entry, entry.change)
    return replace(applied, state=replace(applied.state, op=entry.op))


def _create_root(state: State, entry: Entry, change: changes.CreateRoot) -> Applied:
    assert not state.users, "root is the first user"
    root = User(
        id=model.ROOT_USER_ID,
        name=change.name,
        password_hash=change.password_hash,
        created_at_us=model.ROOT_CREATED_AT_US,
    )
    changed = replace(state, users={root.id: root}, user_names={root.name: root.id})
    return done(changed, entry)


def _create_stream(state: State, entry: Entry, change: changes.CreateStream) -> Applied:
    if change.name in state.stream_names:
        raise Reject(ErrorCode.STREAM_NAME_ALREADY_EXISTS, f"stream {change.name!r}")
    if state.stream_ids.used >= model.STREAMS_MAX:
        raise Reject(ErrorCode.TOO_MANY_STREAMS, f"limit {model.STREAMS_MAX}")
    (number,), stream_ids = state.stream_ids.take(1)
    stream = Stream(id=number, name=change.name, created_at_us=entry.at_us)
    changed = replace(
        state,
        streams=with_item(state.streams, number, stream),
        stream_names=with_item(state.stream_names, stream.name, number),
        stream_ids=stream_ids,
    )
    return Applied(changed, Result(entry.op, entry.at_us, stream=stream))


def _update_stream(state: State, entry: Entry, change: changes.UpdateStream) -> Applied:
    stream = state.stream(change.stream)
    if state.stream_names.get(change.name, stream.id) != stream.id:
        raise Reject(ErrorCode.STREAM_NAME_ALREADY_EXISTS, f"stream {change.name!r}")
    names = with_item(without_item(state.stream_names, stream.name), change.name, stream.id)
    renamed = replace(stream, name=change.name)
    return done(replace(_put_stream(state, renamed), stream_names=names), entry)


def _delete_stream(state: State, entry: Entry, change: changes.DeleteStream) -> Applied:
    stream = state.stream(change.stream)
    removed = _placed(stream.id, stream.topics_by_id())
    changed = replace(
        state,
        streams=without_item(state.streams, stream.id),
        stream_names=without_item(state.stream_names, stream.name),
        stream_ids=state.stream_ids.give((stream.id,)),
        slots=_give_slots(state, removed),
    )
    changed = groups.without_groups(changed, stream, stream.topics.values())
    return Applied(changed, Result(entry.op, entry.at_us), removed=removed)


def _purge_stream(state: State, entry: Entry, change: changes.PurgeStream) -> Applied:
    stream = state.stream(change.stream)
    topics = [_purged(topic) for topic in stream.topics_by_id()]
    changed = _put_stream(state, replace(stream, topics={topic.id: topic for topic in topics}))
    return Applied(
        changed,
        Result(entry.op, entry.at_us),
        purged=_placed(stream.id, topics),
        regrouped=groups.waiting_groups(state, stream, topics),
    )


def _create_topic(state: State, entry: Entry, change: changes.CreateTopic) -> Applied:
    stream = state.stream(change.stream)
    if change.name in stream.topic_names:
        raise Reject(ErrorCode.TOPIC_NAME_ALREADY_EXISTS, f"topic {change.name!r}")
    if stream.topic_ids.used >= model.TOPICS_PER_STREAM_MAX:
        raise Reject(ErrorCode.TOO_MANY_TOPICS, f"limit {model.TOPICS_PER_STREAM_MAX} per stream")
    (number,), topic_ids = stream.topic_ids.take(1)
    partitions, slots = _new_partitions(state, entry, start=0, count=change.partitions_count)
    topic = Topic(
        id=number,
        name=change.name,
        created_at_us=entry.at_us,
        options=_merged((), change.options),
        partitions=partitions,
        defaults=change.defaults,
    )
    grown = replace(
        stream,
        topics=with_item(stream.topics, number, topic),
        topic_names=with_item(stream.topic_names, topic.name, number),
        topic_ids=topic_ids,
    )
    return Applied(
        replace(_put_stream(state, grown), slots=slots),
        Result(entry.op, entry.at_us, stream_id=stream.id, topic=topic),
        opened=_placed(stream.id, [topic]),
    )


def _settle_defaults(state: State, entry: Entry, change: changes.SettleDefaults) -> Applied:
    for stream in state.streams.values():
        for topic in stream.topics.values():
            if topic.defaults is None:
                settled = replace(topic, defaults=change.defaults)
                state = _put_stream(state, _put_topic(state.streams[stream.id], settled))
    return done(state, entry)


def _update_topic(state: State, entry: Entry, change: changes.UpdateTopic) -> Applied:
    stream, topic, name, options = change.stream, change.topic, change.name, change.options
    return _alter_topic(state, entry, changes.AlterTopic(stream, topic, name, options))


def _alter_topic(state: State, entry: Entry, change: changes.AlterTopic) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    name = topic.name if change.name is None else change.name
    if stream.topic_names.get(name, topic.id) != topic.id:
        raise Reject(ErrorCode.TOPIC_NAME_ALREADY_EXISTS, f"topic {name!r}")
    names = with_item(without_item(stream.topic_names, topic.name), name, topic.id)
    kept = tuple(option for option in topic.options if option.key not in change.resets)
    altered = replace(topic, name=name, options=_merged(kept, change.options))
    changed = replace(_put_topic(stream, altered), topic_names=names)
    return done(_put_stream(state, changed), entry)


def _delete_topic(state: State, entry: Entry, change: changes.DeleteTopic) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    removed = _placed(stream.id, [topic])
    shrunk = replace(
        stream,
        topics=without_item(stream.topics, topic.id),
        topic_names=without_item(stream.topic_names, topic.name),
        topic_ids=stream.topic_ids.give((topic.id,)),
    )
    changed = replace(_put_stream(state, shrunk), slots=_give_slots(state, removed))
    changed = groups.without_groups(changed, stream, [topic])
    return Applied(changed, Result(entry.op, entry.at_us), removed=removed)


def _purge_topic(state: State, entry: Entry, change: changes.PurgeTopic) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    purged = _purged(topic)
    return Applied(
        _put_stream(state, _put_topic(stream, purged)),
        Result(entry.op, entry.at_us),
        purged=_placed(stream.id, [purged]),
        regrouped=groups.waiting_groups(state, stream, [topic]),
    )


def _create_partitions(state: State, entry: Entry, change: changes.CreatePartitions) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    start = len(topic.partitions)
    if start + change.count > model.PARTITIONS_PER_TOPIC_MAX:
        detail = f"{start} + {change.count} partitions, limit {model.PARTITIONS_PER_TOPIC_MAX}"
        raise Reject(ErrorCode.PARTITION_ID_SPACE_EXHAUSTED, detail)
    added, slots = _new_partitions(state, entry, start=start, count=change.count)
    grown = replace(topic, partitions=topic.partitions + added)
    changed = replace(_put_stream(state, _put_topic(stream, grown)), slots=slots)
    changed, regrouped = groups.redistributed(changed, stream, grown)
    return Applied(
        changed,
        Result(entry.op, entry.at_us),
        opened=tuple(Placed(stream.id, topic.id, partition) for partition in added),
        regrouped=regrouped,
    )


def _delete_partitions(state: State, entry: Entry, change: changes.DeletePartitions) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    kept = len(topic.partitions) - change.count
    if kept < 0:
        detail = f"{change.count} of {len(topic.partitions)} partitions to delete"
        raise Reject(ErrorCode.INVALID_PARTITIONS_COUNT, detail)
    cut = topic.partitions[kept:]
    removed = tuple(Placed(stream.id, topic.id, partition) for partition in cut)
    shrunk = replace(topic, partitions=topic.partitions[:kept])
    changed = _put_stream(state, _put_topic(stream, shrunk))
    changed = replace(changed, slots=_give_slots(state, removed))
    changed, regrouped = groups.redistributed(changed, stream, shrunk)
    return Applied(changed, Result(entry.op, entry.at_us), removed=removed, regrouped=regrouped)


def _create_group(state: State, entry: Entry, change: changes.CreateGroup) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    if change.name in topic.group_names:
        raise Reject(ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS, f"group {change.name!r}")
    if len(topic.groups) >= model.GROUPS_PER_TOPIC_MAX:
        raise Reject(ErrorCode.FEATURE_UNAVAILABLE, f"limit {model.GROUPS_PER_TOPIC_MAX} per topic")
    group = Group(id=topic.next_group_id, name=change.name, created_at_us=entry.at_us)
    grown = replace(
        topic,
        groups=with_item(topic.groups, group.id, group),
        group_names=with_item(topic.group_names, group.name, group.id),
        next_group_id=group.id + 1,
    )
    result = Result(entry.op, entry.at_us, group=group, partitions_count=len(topic.partitions))
    return Applied(_put_stream(state, _put_topic(stream, grown)), result)


def _delete_group(state: State, entry: Entry, change: changes.DeleteGroup) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    group = topic.group(change.group)
    shrunk = replace(
        topic,
        groups=without_item(topic.groups, group.id),
        group_names=without_item(topic.group_names, group.name),
    )
    place = GroupPlace(stream.id, topic.id, group.id)
    changed = groups.without_group(_put_stream(state, _put_topic(stream, shrunk)), place)
    return Applied(changed, Result(entry.op, entry.at_us), dissolved=place)


_APPLY: Final[Mapping[type, Callable[[State, Entry, Any], Applied]]] = {
    changes.CreateRoot: _create_root,
    changes.CreateStream: _create_stream,
    changes.UpdateStream: _update_stream,
    changes.DeleteStream: _delete_stream,
    changes.PurgeStream: _purge_stream,
    changes.CreateTopic: _create_topic,
    changes.SettleDefaults: _settle_defaults,
    changes.UpdateTopic: _update_topic,
    changes.AlterTopic: _alter_topic,
    changes.DeleteTopic: _delete_topic,
    changes.PurgeTopic: _purge_topic,
    changes.CreatePartitions: _create_partitions,
    changes.DeletePartitions: _delete_partitions,
    changes.CreateGroup: _create_group,
    changes.DeleteGroup: _delete_group,
    **APPLY_USERS,
}


def _put_stream(state: State, stream: Stream) -> State:
    return replace(state, streams=with_item(state.streams, stream.id, stream))


def _put_topic(stream: Stream, topic: Topic) -> Stream:
    return replace(stream, topics=with_item(stream.topics, topic.id, topic))


def _placed(stream_id: int, topics: Iterable[Topic]) -> tuple[Placed, ...]:
    return tuple(
        Placed(stream_id, topic.id, partition) for topic in topics for partition in topic.partitions
    )


def _purged(topic: Topic) -> Topic:
    partitions = tuple(
        replace(partition, purges=partition.purges + 1) for partition in topic.partitions
    )
    return replace(topic, partitions=partitions)


def _new_partitions(
    state: State, entry: Entry, *, start: int, count: int
) -> tuple[tuple[Partition, ...], model.IdPool]:
    if state.slots.used + count > model.SLOTS_MAX:
        detail = f"{state.slots.used} + {count} partitions, the broker's limit is {model.SLOTS_MAX}"
        raise Reject(ErrorCode.TOO_MANY_PARTITIONS, detail)
    numbers, slots = state.slots.take(count)
    partitions = tuple(
        Partition(start + n, slot=slot, created_at_us=entry.at_us, incarnation=entry.op)
        for n, slot in enumerate(numbers)
    )
    return partitions, slots


def _give_slots(state: State, removed: Iterable[Placed]) -> model.IdPool:
    return state.slots.give(tuple(placed.partition.slot for placed in removed))


def _merged(present: Options, changed: Options) -> Options:
    return make_options({option.key: option for option in (*present, *changed)}.values())
