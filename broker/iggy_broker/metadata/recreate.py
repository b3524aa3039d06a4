"""Metadata made anew from the folders of the data: `system.recovery.recreate_missing_state`.

Folders that metadata knows nothing of are adopted. Names, options and groups come from
`streams/info`, a copy of the metadata without users that shard 0 renews (`info`); what is not in
it gets a name by its number. Metadata that cannot be read are moved aside first.

With readable metadata a folder of an earlier life than their last change is not adopted: they knew
its partition, so it was deleted, and a crash left it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from iggy_broker.logs import Note
from iggy_broker.metadata import journal, model
from iggy_broker.metadata.applied import replace, with_item
from iggy_broker.metadata.info import read_info
from iggy_broker.metadata.model import IdPool, Partition, State, Stream, Topic
from iggy_broker.metadata.snapshot import FOLDER, MetadataDamaged, MetadataNewer
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.layout import partition_folder
from iggy_broker.storage.records import read_life
from iggy_broker.storage.removal import move_away

TOLD_MAX: Final = 100
"""Folders of which the log has a line of their own; the others are counted in one."""


@dataclass(frozen=True, slots=True)
class Found:
    """A partition's folder that metadata know nothing of."""

    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int  # 0: the folder does not say
    purges: int


def unknown_folders(disk: Disk, root: str, state: State) -> Iterator[Found]:
    """The folders below `root` of partitions that are not in `state`, ascending by topic."""
    streams = f"{root}/streams"
    for stream_id in _numbers(disk, streams, model.STREAMS_MAX):
        topics = f"{streams}/{stream_id}/topics"
        stream = state.streams.get(stream_id)
        for topic_id in _numbers(disk, topics, model.TOPICS_PER_STREAM_MAX):
            topic = None if stream is None else stream.topics.get(topic_id)
            known = 0 if topic is None else len(topic.partitions)
            for number in _numbers(disk, f"{topics}/{topic_id}/partitions", model.SLOTS_MAX):
                if number >= known:
                    life = read_life(disk, partition_folder(root, stream_id, topic_id, number))
                    incarnation, purges = (life.incarnation, life.purges) if life else (0, 0)
                    yield Found(stream_id, topic_id, number, incarnation, purges)


def tell_unknown(disk: Disk, root: str, state: State) -> list[Note]:
    """What the log says of such folders when they are left alone."""
    folders = [
        partition_folder(root, one.stream_id, one.topic_id, one.partition_id)
        for one in unknown_folders(disk, root, state)
    ]
    why = "metadata are missing for it, and it is left alone: see recreate_missing_state"
    notes = [Note("folder_unknown", f"{one}: {why}", folder=one) for one in folders[:TOLD_MAX]]
    if len(folders) > TOLD_MAX:
        notes.append(Note("folder_unknown", f"{len(folders) - TOLD_MAX} more folders like that"))
    return notes


def recreate(disk: Disk, root: str, *, now_us: int) -> list[Note]:
    """Bring the metadata below `root` in line with the folders there, before they are loaded.

    What was done, for the log. MetadataNewer if a newer broker wrote them; OSError.
    """
    notes: list[Note] = []
    state, lost = _known(disk, root, notes)
    found = list(unknown_folders(disk, root, state))
    if not lost:
        found = [one for one in found if _was_lost(one, state, root, notes)]
    elif state.streams or found:
        state = _follow_folders(disk, root, state)
    if not found and not (lost and state.streams):
        return notes
    adopted = adopt(state, found, _names(disk, root), now_us)
    journal.start_anew(root, adopted, disk=disk)
    for one in found[:TOLD_MAX]:
        stream = adopted.streams[one.stream_id]
        names = f"{stream.name}/{stream.topics[one.topic_id].name}"
        folder = partition_folder(root, one.stream_id, one.topic_id, one.partition_id)
        why = f"{folder}: missing in the metadata, adopted as a partition of {names}"
        notes.append(Note("folder_adopted", why, folder=folder))
    count = sum(1 for _ in adopted.placed())
    why = f"{root}/{FOLDER}: made anew with {len(adopted.streams)} streams, {count} partitions"
    return [*notes, Note("metadata_recreated", why, adopted=len(found))]


def _known(disk: Disk, root: str, notes: list[Note]) -> tuple[State, bool]:
    """What is known beside the folders, and whether metadata are lost, so that it is `info`."""
    folder = f"{root}/{FOLDER}"
    try:
        state = journal.load(root, disk=disk, entries_max=1).state
    except MetadataNewer:
        raise
    except MetadataDamaged as error:
        target = move_away(disk, folder, suffix="damaged")
        disk.sync_folder(root)
        notes.append(Note("metadata_moved", f"{folder}: moved to {target}: {error}"))
        state = State()
    return (state, False) if state.op else (_names(disk, root), True)


def _names(disk: Disk, root: str) -> State:
    """What `info` says; nothing if it is missing or damaged: then numbers are the names."""
    try:
        return read_info(disk, root)
    except MetadataDamaged:
        return State()


def _was_lost(one: Found, state: State, root: str, notes: list[Note]) -> bool:
    """Whether metadata never knew of the folder; else they know that it was deleted."""
    if not one.incarnation or one.incarnation > state.op:
        return True
    folder = partition_folder(root, one.stream_id, one.topic_id, one.partition_id)
    why = (
        f"{folder}: of a deleted partition, left alone; to adopt it all the same remove its file"
        " `life`"
    )
    notes.append(Note("folder_unknown", why, folder=folder))
    return False


def _follow_folders(disk: Disk, root: str, state: State) -> State:
    """`info` may be of a while ago: which life a folder holds, the folder itself says."""
    for placed in list(state.placed()):
        partition = placed.partition
        folder = partition_folder(root, placed.stream_id, placed.topic_id, partition.id)
        life = read_life(disk, folder)
        if life is not None and life.incarnation != partition.incarnation:
            changed = replace(partition, incarnation=life.incarnation, purges=life.purges)
        elif life is not None and life.purges != partition.purges:
            changed = replace(partition, purges=life.purges)
        else:
            continue
        state = with_partition(state, placed.stream_id, placed.topic_id, changed)
    return state


def with_partition(state: State, stream_id: int, topic_id: int, changed: Partition) -> State:
    """`state` with another partition in the place of the one with its number."""
    stream = state.streams[stream_id]
    topic = stream.topics[topic_id]
    partitions = list(topic.partitions)
    partitions[changed.id] = changed
    return _with_topic(state, stream, replace(topic, partitions=tuple(partitions)))


def adopt(state: State, found: list[Found], info: State, now_us: int) -> State:
    """`state` with these partitions, and whatever is missing above and before them.

    `info`: names and options of what is made anew. MetadataDamaged: too many partitions.
    """
    lives = [placed.partition.incarnation for placed in state.placed()]
    op = max([state.op, *lives, *(one.incarnation for one in found)]) + 1
    by_topic: dict[tuple[int, int], dict[int, Found]] = {}
    for one in found:
        by_topic.setdefault((one.stream_id, one.topic_id), {})[one.partition_id] = one
    for (stream_id, topic_id), folders in by_topic.items():
        stream = state.streams.get(stream_id) or _stream(state, info, stream_id, now_us)
        topic = stream.topics.get(topic_id) or _topic(stream, info, topic_id, now_us)
        first = len(topic.partitions)
        slots, pool = state.slots.take(max(folders) + 1 - first)
        if pool.used > model.SLOTS_MAX:
            raise MetadataDamaged(
                f"more than {model.SLOTS_MAX} partitions in the folders: move some of them away"
            )
        added = []
        for number, slot in enumerate(slots, first):
            life = folders.get(number)
            incarnation, purges = (life.incarnation, life.purges) if life else (0, 0)
            added.append(Partition(number, slot, now_us, incarnation or op, purges))
        state = replace(state, slots=pool)
        state = _with_topic(
            state, stream, replace(topic, partitions=topic.partitions + tuple(added))
        )
    return replace(state, op=op)


def _stream(state: State, info: State, number: int, now_us: int) -> Stream:
    """The stream with this number as `info` has it, without topics."""
    known = info.streams.get(number) or Stream(number, f"stream-{number}", now_us)
    return Stream(number, _free(known.name, state.stream_names), known.created_at_us)


def _topic(stream: Stream, info: State, number: int, now_us: int) -> Topic:
    """The topic with this number as `info` has it, without partitions."""
    parent = info.streams.get(stream.id)
    known = None if parent is None else parent.topics.get(number)
    known = known or Topic(number, f"topic-{number}", now_us)
    return replace(known, name=_free(known.name, stream.topic_names), partitions=())


def _with_topic(state: State, stream: Stream, topic: Topic) -> State:
    topics = with_item(stream.topics, topic.id, topic)
    stream = replace(
        stream,
        topics=topics,
        topic_names=with_item(stream.topic_names, topic.name, topic.id),
        topic_ids=_pool_of(topics),
    )
    streams = with_item(state.streams, stream.id, stream)
    return replace(
        state,
        streams=streams,
        stream_names=with_item(state.stream_names, stream.name, stream.id),
        stream_ids=_pool_of(streams),
    )


def _pool_of(used: Mapping[int, object]) -> IdPool:
    last = max(used) + 1
    return IdPool(last, tuple(number for number in range(last) if number not in used))


def _free(name: str, names: Mapping[str, int]) -> str:
    while name in names:
        name += "-found"
    return name


def _numbers(disk: Disk, folder: str, limit: int) -> list[int]:
    """Numbers below `limit` that are names in a folder, written as the broker writes them."""
    names = disk.list_folder(folder)
    plain = [name for name in names if name.isascii() and name.isdecimal()]
    return sorted(int(name) for name in plain if name == str(int(name)) and int(name) < limit)
