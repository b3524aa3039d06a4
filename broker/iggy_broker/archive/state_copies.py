"""Metadata and stored offsets in the archive: what a restore needs beside segments.

Each is one object that is replaced whole, of each owner its own: a former one may still copy.
Metadata are those of the first shard, which has all of them; offsets are copied by the shard that
owns the partition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from iggy_broker.archive.copies import Copies
from iggy_broker.archive.copying import Copied, store_small
from iggy_broker.archive.ownership import Ownership
from iggy_broker.archive.state_objects import StoredOffsets, encode
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.clock import Clock
from iggy_broker.config_maintenance import StateCopies as Settings
from iggy_broker.metadata.model import State
from iggy_broker.metadata.placement import unpack
from iggy_broker.metadata.snapshot import encode_snapshot
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.partition import ConsumerKey, Partition
from iggy_wire.archive import Life, kept_metadata_key, metadata_key, offsets_key
from iggy_wire.primitives import ConsumerKind

NEVER: Final = -1

Work = Callable[[ArchiveStore, Disk], Copied]
Run = Callable[[Work], Awaitable[Copied]]
"""Does blocking work in a thread."""
Look = Callable[[int, Partition], Awaitable[Copies | None]]
"""What the archive has of a partition; None: it is being deleted."""


class StateCopies:
    """Of one shard."""

    def __init__(
        self,
        settings: Settings,
        *,
        state: Callable[[], State],
        look: Look,
        run: Run,
        ownership: Ownership,
        clock: Clock,
    ) -> None:
        """Nothing is copied yet."""
        self._settings = settings
        self._state = state
        self._look = look
        self._run = run
        self._ownership = ownership
        self._clock = clock
        self._copied_op = NEVER

    async def copy_metadata(self) -> Copied | None:
        """Copy metadata if they have changed. ArchiveError."""
        state = self._state()
        if state.op == self._copied_op:
            return None
        kept = [] if self._settings.overwrite else [kept_metadata_key(self._clock.now_us())]
        work = partial(_store_metadata, ownership=self._ownership, state=state, kept=kept)
        copied = await self._run(work)
        self._copied_op = state.op
        return copied

    async def copy_offsets(self, packed: int, partition: Partition) -> Copied | None:
        """Copy the stored offsets of a partition if they have changed. ArchiveError."""
        if partition.waits or not partition.visible_next_offset:
            return None
        stored = partition.offsets
        changes, offsets = stored.changes, stored.all()
        if offsets is None:
            return None
        copies = await self._look(packed, partition)
        if copies is None or copies.offsets_changes == changes:
            return None
        copied = None
        if offsets or copies.has_offsets:
            kept = _stored(packed, copies.life, offsets, self._clock.now_us())
            key = offsets_key(copies.folder, copies.generation)
            check = partial(self._ownership.check, owner_id=copies.owner_id)
            work = partial(_store_offsets, check=check, key=key, offsets=kept)
            copied = await self._run(work)
        copies.offsets_changes, copies.has_offsets = changes, bool(offsets)
        return copied

    def forget(self) -> None:
        """Somebody else may have written to the archive: copy again."""
        self._copied_op = NEVER


def _stored(packed: int, life: Life, offsets: dict[ConsumerKey, int], now_us: int) -> StoredOffsets:
    by_kind: dict[int, dict[int, int]] = {ConsumerKind.CONSUMER: {}, ConsumerKind.GROUP: {}}
    for (kind, number), offset in offsets.items():
        by_kind[kind][number] = offset
    stream_id, topic_id, partition_id = unpack(packed)
    return StoredOffsets(
        stream_id=stream_id,
        topic_id=topic_id,
        partition_id=partition_id,
        incarnation=life.incarnation,
        purges=life.purges,
        consumers=by_kind[ConsumerKind.CONSUMER],
        groups=by_kind[ConsumerKind.GROUP],
        written_at_us=now_us,
    )


def _store_metadata(
    store: ArchiveStore, disk: Disk, *, ownership: Ownership, state: State, kept: list[str]
) -> Copied:
    data = encode_snapshot(state)
    keys = [metadata_key(ownership.now(store, disk).generation), *kept]
    for key in keys:
        store_small(store, key, data)
    return Copied(len(keys), 0)


def _store_offsets(
    store: ArchiveStore,
    disk: Disk,
    *,
    check: Callable[[ArchiveStore], None],
    key: str,
    offsets: StoredOffsets,
) -> Copied:
    del disk
    check(store)
    store_small(store, key, encode(offsets))
    return Copied(1, 0)
