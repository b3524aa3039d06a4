"""`apply(state, entry)`: what a change does. Pure: the same state and entry give the same outcome.

A refusal (`Reject`) is as deterministic as a success: shard 0 asks here first and journals only
what is accepted, so nobody else ever sees a refused entry. What depends on settings (are these
options legal?) is decided before, in `options`: a journal must replay under any settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.metadata import changes, model
from iggy_broker.metadata.changes import Entry, Result
from iggy_broker.metadata.model import Group, Partition, Placed, State, Stream, Topic, User
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Options, make_options

K = TypeVar("K")
V = TypeVar("V")

replace = msgspec.structs.replace


class Applied(msgspec.Struct, frozen=True):
    """The new state, the caller's result, and what it means for the partitions on disk."""

    state: State
    result: Result
    opened: tuple[Placed, ...] = ()  # to be made, empty
    purged: tuple[Placed, ...] = ()  # to be emptied; with their new number of purges
    removed: tuple[Placed, ...] = ()  # to be deleted


def apply(state: State, entry: Entry) -> Applied:
    """Apply one entry; Reject when the change cannot be made. `entry.op` follows `state.op`."""
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
    return _done(changed, entry)


def _create_stream(state: State, entry: Entry, change: changes.CreateStream) -> Applied:
    if change.name in state.stream_names:
        raise Reject(ErrorCode.STREAM_NAME_ALREADY_EXISTS, f"stream {change.name!r}")
    if state.stream_ids.used >= model.STREAMS_MAX:
        raise Reject(ErrorCode.TOO_MANY_STREAMS, f"limit {model.STREAMS_MAX}")
    (number,), stream_ids = state.stream_ids.take(1)
    stream = Stream(id=number, name=change.name, created_at_us=entry.at_us)
    changed = replace(
        state,
        streams=_with(state.streams, number, stream),
        stream_names=_with(state.stream_names, stream.name, number),
        stream_ids=stream_ids,
    )
    return Applied(changed, Result(entry.op, entry.at_us, stream=stream))


def _update_stream(state: State, entry: Entry, change: changes.UpdateStream) -> Applied:
    stream = state.stream(change.stream)
    if state.stream_names.get(change.name, stream.id) != stream.id:
        raise Reject(ErrorCode.STREAM_NAME_ALREADY_EXISTS, f"stream {change.name!r}")
    names = _with(_without(state.stream_names, stream.name), change.name, stream.id)
    renamed = replace(stream, name=change.name)
    return _done(replace(_put_stream(state, renamed), stream_names=names), entry)


def _delete_stream(state: State, entry: Entry, change: changes.DeleteStream) -> Applied:
    stream = state.stream(change.stream)
    removed = _placed(stream.id, stream.topics_by_id())
    changed = replace(
        state,
        streams=_without(state.streams, stream.id),
        stream_names=_without(state.stream_names, stream.name),
        stream_ids=state.stream_ids.give((stream.id,)),
        slots=_give_slots(state, removed),
    )
    return Applied(changed, Result(entry.op, entry.at_us), removed=removed)


def _purge_stream(state: State, entry: Entry, change: changes.PurgeStream) -> Applied:
    stream = state.stream(change.stream)
    topics = [_purged(topic) for topic in stream.topics_by_id()]
    changed = _put_stream(state, replace(stream, topics={topic.id: topic for topic in topics}))
    purged = _placed(stream.id, topics)
    return Applied(changed, Result(entry.op, entry.at_us), purged=purged)


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
    )
    grown = replace(
        stream,
        topics=_with(stream.topics, number, topic),
        topic_names=_with(stream.topic_names, topic.name, number),
        topic_ids=topic_ids,
    )
    return Applied(
        replace(_put_stream(state, grown), slots=slots),
        Result(entry.op, entry.at_us, stream_id=stream.id, topic=topic),
        opened=_placed(stream.id, [topic]),
    )


def _update_topic(state: State, entry: Entry, change: changes.UpdateTopic) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    if stream.topic_names.get(change.name, topic.id) != topic.id:
        raise Reject(ErrorCode.TOPIC_NAME_ALREADY_EXISTS, f"topic {change.name!r}")
    names = _with(_without(stream.topic_names, topic.name), change.name, topic.id)
    renamed = replace(topic, name=change.name, options=_merged(topic.options, change.options))
    changed = replace(_put_topic(stream, renamed), topic_names=names)
    return _done(_put_stream(state, changed), entry)


def _delete_topic(state: State, entry: Entry, change: changes.DeleteTopic) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    removed = _placed(stream.id, [topic])
    shrunk = replace(
        stream,
        topics=_without(stream.topics, topic.id),
        topic_names=_without(stream.topic_names, topic.name),
        topic_ids=stream.topic_ids.give((topic.id,)),
    )
    changed = replace(_put_stream(state, shrunk), slots=_give_slots(state, removed))
    return Applied(changed, Result(entry.op, entry.at_us), removed=removed)


def _purge_topic(state: State, entry: Entry, change: changes.PurgeTopic) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    purged = _purged(topic)
    return Applied(
        _put_stream(state, _put_topic(stream, purged)),
        Result(entry.op, entry.at_us),
        purged=_placed(stream.id, [purged]),
    )


def _create_partitions(state: State, entry: Entry, change: changes.CreatePartitions) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    start = len(topic.partitions)
    if start + change.count > model.PARTITIONS_PER_TOPIC_MAX:
        detail = f"{start} + {change.count} partitions, limit {model.PARTITIONS_PER_TOPIC_MAX}"
        raise Reject(ErrorCode.PARTITION_ID_SPACE_EXHAUSTED, detail)
    added, slots = _new_partitions(state, entry, start=start, count=change.count)
    grown = replace(topic, partitions=topic.partitions + added)
    return Applied(
        replace(_put_stream(state, _put_topic(stream, grown)), slots=slots),
        Result(entry.op, entry.at_us),
        opened=tuple(Placed(stream.id, topic.id, partition) for partition in added),
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
    return Applied(
        replace(_put_stream(state, _put_topic(stream, shrunk)), slots=_give_slots(state, removed)),
        Result(entry.op, entry.at_us),
        removed=removed,
    )


def _create_group(state: State, entry: Entry, change: changes.CreateGroup) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    if change.name in topic.group_names:
        raise Reject(ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS, f"group {change.name!r}")
    if len(topic.groups) >= model.GROUPS_PER_TOPIC_MAX:
        raise Reject(ErrorCode.FEATURE_UNAVAILABLE, f"limit {model.GROUPS_PER_TOPIC_MAX} per topic")
    group = Group(id=topic.next_group_id, name=change.name, created_at_us=entry.at_us)
    grown = replace(
        topic,
        groups=_with(topic.groups, group.id, group),
        group_names=_with(topic.group_names, group.name, group.id),
        next_group_id=group.id + 1,
    )
    result = Result(entry.op, entry.at_us, group=group, partitions_count=len(topic.partitions))
    return Applied(_put_stream(state, _put_topic(stream, grown)), result)


def _delete_group(state: State, entry: Entry, change: changes.DeleteGroup) -> Applied:
    stream, topic = state.topic(change.stream, change.topic)
    group = topic.group(change.group)
    shrunk = replace(
        topic,
        groups=_without(topic.groups, group.id),
        group_names=_without(topic.group_names, group.name),
    )
    return _done(_put_stream(state, _put_topic(stream, shrunk)), entry)


_APPLY: Final[Mapping[type, Callable[[State, Entry, Any], Applied]]] = {
    changes.CreateRoot: _create_root,
    changes.CreateStream: _create_stream,
    changes.UpdateStream: _update_stream,
    changes.DeleteStream: _delete_stream,
    changes.PurgeStream: _purge_stream,
    changes.CreateTopic: _create_topic,
    changes.UpdateTopic: _update_topic,
    changes.DeleteTopic: _delete_topic,
    changes.PurgeTopic: _purge_topic,
    changes.CreatePartitions: _create_partitions,
    changes.DeletePartitions: _delete_partitions,
    changes.CreateGroup: _create_group,
    changes.DeleteGroup: _delete_group,
}


def _done(state: State, entry: Entry) -> Applied:
    return Applied(state, Result(entry.op, entry.at_us))


def _with(table: Mapping[K, V], key: K, value: V) -> dict[K, V]:
    copy = dict(table)
    copy[key] = value
    return copy


def _without(table: Mapping[K, V], key: K) -> dict[K, V]:
    copy = dict(table)
    del copy[key]
    return copy


def _put_stream(state: State, stream: Stream) -> State:
    return replace(state, streams=_with(state.streams, stream.id, stream))


def _put_topic(stream: Stream, topic: Topic) -> Stream:
    return replace(stream, topics=_with(stream.topics, topic.id, topic))


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
