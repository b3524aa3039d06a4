"""The single writer of one partition: admit, stamp, append, poll, offsets, purge.

A partition belongs to one shard and is used from that shard's loop only. What others may know of it
stands in its slot of the partition table. One that the disk had no room for is not open yet
(`waits`): it tries again when it is used, and when its shard looks after it.

Walk of an append: `append` verifies and stamps the batch in place and writes it (one pwrite of the
caller's own bytes). If `must_wait` is then true, the answer must wait for `wait_durable()`. Readers
see everything that was written; of a `persisted` partition only what is synced.
"""

import asyncio
from dataclasses import replace
from struct import Struct

from iggy_broker.errors import Reject
from iggy_broker.logs import Note
from iggy_broker.storage.consumer_offsets import ConsumerKey, ConsumerOffsets
from iggy_broker.storage.cutting import Decision
from iggy_broker.storage.deduplication import Window
from iggy_broker.storage.disk import File
from iggy_broker.storage.encryption import open_log
from iggy_broker.storage.group_reads import GroupReads
from iggy_broker.storage.life import held_life
from iggy_broker.storage.older import Asked
from iggy_broker.storage.opening import open_folder, open_waiting, purged
from iggy_broker.storage.partition_table import PartitionFigures, SlotState
from iggy_broker.storage.polling import POLL_NEXT, poll_older, start_offset
from iggy_broker.storage.recovery import Recovered
from iggy_broker.storage.refusals import beyond_end, not_served
from iggy_broker.storage.removal import HeadRemoval, take_away
from iggy_broker.storage.segment import SENDFILE_BYTES_MIN, FileRange, Part
from iggy_broker.storage.syncer import Covered, SyncWork, commit_of, sync_here
from iggy_broker.storage.trimming import Trimming
from iggy_broker.storage.values import (
    PartitionOptions,
    PartitionPlace,
    Polled,
    StorageParts,
    Strategy,
)
from iggy_broker.storage.watches import Watches, wake
from iggy_wire import kernel
from iggy_wire.errors import ErrorCode

__all__ = [
    "SENDFILE_BYTES_MIN", "ConsumerKey", "FileRange", "Part", "Partition", "PartitionOptions",
    "PartitionPlace", "Polled", "StorageParts", "Strategy",
]  # fmt: skip

NOTHING_NEW = -1  # in place of a base offset
_COUNT = Struct("<I")
_COUNT_AT = 48  # message_count in the batch header


class Partition:
    """One partition, open. Make it with `Partition.open`."""

    __slots__ = (
        "_clock", "_commit", "_deleted", "_life_is_new", "_offsets", "_options", "_parts",
        "_persisted", "_removal", "_slot", "fenced", "has_older", "log", "must_wait",
        "partition_id", "place", "reads", "recovery", "trimming", "waits", "watches", "window",
    )  # fmt: skip

    def __init__(
        self,
        place: PartitionPlace,
        options: PartitionOptions,
        parts: StorageParts,
        *,
        recovered: Recovered,
    ) -> None:
        """A partition over recovered segments; `open` is the way to get one."""
        self.place = place
        self.partition_id = place.partition_id
        self._deleted = False
        self.must_wait = False  # the last append must not be answered before `wait_durable()`
        self._options = options
        self._persisted = options.persisted
        self._parts, self._clock = parts, parts.clock
        self.has_older = parts.older is not None  # somebody has what the log has no more
        self._slot = parts.table.writer(place.slot)
        self._removal = HeadRemoval(parts.disk, place.folder, parts.syncer)
        self.reads = GroupReads(parts.table, place.slot)  # what is in flight to members of groups
        self.watches: Watches = []
        self._commit = commit_of(self, parts.syncer, parts.disk)
        self._take(recovered, epoch=0)

    def _take(self, recovered: Recovered, *, epoch: int) -> None:
        """Go on with what was found in the folder."""
        place, parts = self.place, self._parts
        self.recovery: tuple[Decision, ...] = tuple(recovered.decisions)
        self.fenced = recovered.fenced  # why it is not served; "" if it is
        self.waits = recovered.waits  # for room on the disk
        self._life_is_new = not recovered.segments  # the first sync covers it
        self._offsets: ConsumerOffsets | None = None
        segment_bytes = self._options.segment_bytes
        self.log = open_log(place.folder, recovered.segments, segment_bytes, parts)
        self.log.epoch = epoch
        self.window = Window(self._options.window, self.log) if self._options.window else None
        self.trimming = Trimming(parts.disk, self.log, lambda: parts.gate.end(place))
        self._publish(SlotState.FENCED if self.fenced else SlotState.OPEN)
        if not (recovered.clean or recovered.waits):
            len(self.offsets)  # offsets ahead of the data are drawn back before it grows again

    @classmethod
    def open(
        cls, place: PartitionPlace, options: PartitionOptions, parts: StorageParts
    ) -> "Partition":
        """Open or create the partition's folder and recover what is in it; see `.recovery`.

        One that has no room now `waits`. Raises OSError if the disk is broken, StorageFailed if
        recovered bytes cannot be synced.
        """
        recovered = open_folder(place, options, parts.disk)
        return cls(place, options, parts, recovered=recovered)

    def open_again(self) -> bool:
        """Try to open one that waits. StorageFailed as `open`, OSError for an unreadable `trim`."""
        recovered = open_waiting(self.place, self._options, self._parts.disk)
        if recovered.waits:
            self.fenced = recovered.fenced
            return False
        self._take(recovered, epoch=self.log.epoch + 1)
        why = f"{self.place.folder}: opened, now that the disk has room"
        for note in (*[one.note for one in self.recovery], Note("partition_opened", why)):
            self._parts.warn(note)
        return not self.fenced

    @property
    def next_offset(self) -> int:
        """Offset that the next message gets."""
        return self.log.next_offset

    @property
    def visible_next_offset(self) -> int:
        """End of what readers may see."""
        return self.log.synced_next_offset if self._persisted else self.log.next_offset

    @property
    def offsets_persisted(self) -> bool:
        """Whether a stored offset, also by auto-commit, must be on the disk before the answer."""
        return self._options.offsets_persisted

    @property
    def current_offset(self) -> int:
        """Last visible offset; 0 if there is none (as the protocol has it)."""
        return max(self.visible_next_offset - 1, 0)

    @property
    def figures(self) -> PartitionFigures:
        """What the table says of this partition."""
        return self._parts.table.read(self.place.slot)

    @property
    def offsets(self) -> ConsumerOffsets:
        """Stored offsets, read from their files at first use."""
        if self.waits and not self.place.is_new:
            raise self._refusal  # read against a log that is not open, they would all be too high
        if self._offsets is None:
            self._offsets = ConsumerOffsets.load(
                self._parts.disk, self.place.folder, self.visible_next_offset, self._parts.warn
            )
        return self._offsets

    def append(self, batch: memoryview) -> int:
        """Verify one batch, stamp it in place, write it. The base offset it got.

        When it returns, the bytes are in the page cache: a killed process loses nothing. Reject:
        nothing was stored. StorageFailed: the shard must stop. Sets `must_wait`. With a window,
        messages that are there already are left out; NOTHING_NEW if that is all of them.
        """
        if self.fenced:
            self._serve_after_all()
        log = self.log
        base_offset = log.next_offset
        timestamp_us = max(self._clock.now_us(), log.last_timestamp_us + 1)
        code = kernel.admit(batch, self.partition_id, base_offset, timestamp_us)
        if code:
            raise Reject(ErrorCode(code), "the batch is not as Iggy protocol 0.11 wants it")
        new = batch if self.window is None else self.window.fresh(batch)
        if new is None:
            self.must_wait = self._persisted
            return NOTHING_NEW
        (count,) = _COUNT.unpack_from(new, _COUNT_AT)
        segments_count = len(log.segments)
        log.append(new, count, timestamp_us)
        if self.window is not None:
            self.window.stored(timestamp_us)
        if len(log.segments) != segments_count:
            self._rolled()
        if self._persisted:
            self.must_wait, visible = True, log.synced_next_offset
        else:
            self.must_wait, visible = self._is_due(), log.next_offset
        self._slot.appended(log.size_bytes, log.next_offset, visible)
        if self.watches:
            wake(self.watches, visible)
        return base_offset

    def _is_due(self) -> bool:
        """Whether the append waits for a sync. Where none does it may be time to begin one."""
        options, unsynced = self._options, self.log.unsynced_messages
        if options.save_messages is not None and unsynced >= options.save_messages:
            self.save()
        if options.sync_messages is not None and unsynced >= options.sync_messages:
            return True
        return options.sync_bytes is not None and self.log.unsynced_bytes >= options.sync_bytes

    def wait_durable(self) -> "asyncio.Future[None]":
        """Done when all that was appended or stored so far is on the disk; StorageFailed if not."""
        return self._commit.wait()

    def save(self) -> "asyncio.Future[None] | None":
        """The saver's tick: start to sync in the background if anything is unsynced."""
        return self._commit.save()

    def sync_now(self) -> None:
        """Sync here and now, blocking (tests, tools, stop). StorageFailed if it fails."""
        sync_here(self, self._parts.disk)

    def poll(
        self,
        strategy: Strategy,
        count: int,
        *,
        bytes_max: int,
        consumer: ConsumerKey | None = None,
        auto_commit: bool = False,
    ) -> Polled:
        """Up to `count` messages in about `bytes_max` bytes, at least one batch's if any is there.

        `consumer` is whose stored offset "next" and `auto_commit` mean. Damaged bytes are never
        handed out: the poll ends before them. Reject if the disk cannot read.
        """
        if self.fenced and not (self.waits and self.place.is_new):  # a new one has no messages yet
            self._serve_after_all()
        log = self.log
        end = self.visible_next_offset
        who = consumer if strategy.kind == POLL_NEXT else None
        stored = None if who is None else self.offsets.get(who)
        found, wanted = None, start_offset(strategy, count, log, end, stored)
        if wanted <= log.first_offset and (older := self._parts.older) is not None:
            asked = Asked(self.place, log.first_offset, count, bytes_max)
            found = poll_older(older, log, asked, strategy, wanted, end)
        if found is None:
            offset = max(wanted, log.first_offset)
            found = offset, *log.read(offset, min(offset + count, end), bytes_max)
        offset, reached, size_bytes, parts = found
        if auto_commit and consumer is not None and reached > offset:
            self.offsets.advance(consumer, reached - 1)
        return Polled(max(end - 1, 0), reached - offset, max(reached - 1, 0), size_bytes, parts)

    def store_offset(self, consumer: ConsumerKey, offset: int) -> None:
        """Set a stored offset, forward or back. Reject 4100 beyond the end, 3024 if too many.

        Sets `must_wait` when the topic wants stored offsets on the disk before the answer.
        """
        if offset >= (end := self.visible_next_offset):
            raise beyond_end(offset, end)
        self.offsets.store(consumer, offset)
        self.must_wait = self._options.offsets_persisted

    def delete_offset(self, consumer: ConsumerKey) -> None:
        """Forget a stored offset. Reject 3021 if there is none. Sets `must_wait`, as a store."""
        self.offsets.delete(consumer)
        self.must_wait = self._options.offsets_persisted

    def delete_oldest_segments(self, count: int) -> int:
        """Remove up to `count` sealed segments: how many now. What is unread goes later."""
        self.trimming.ask(count)
        return self.trim()

    def trim(self) -> int:
        """Remove those segments that were asked for and may go now; how many."""
        self._remove(dropped := self.trimming.take(self.offsets.lowest()))
        return len(dropped)

    def drop_oldest(self, count: int) -> int:
        """Remove up to `count` sealed segments, whoever has not read them; the bytes that went."""
        size_bytes = self.log.size_bytes
        self._remove([segment.first_offset for segment in self.log.drop_head(count)])
        return size_bytes - self.log.size_bytes

    def seal_older(self, before_us: int) -> None:
        """Begin a new segment if the first message of the active one is older than that."""
        if self.log.seal_older(before_us):
            self._rolled()

    def purge(self, purges: int) -> None:
        """Remove all messages and offsets; the next message has offset 0. Safe at any crash.

        `purges`: what metadata counts now. OSError or StorageFailed if the disk refuses.
        """
        self.place = replace(self.place, purges=purges, is_new=False)
        self._removal.cancel()
        self.reads.clear()
        self.log.start_anew()
        if self._offsets is not None:
            self._offsets.close()
        self._take(purged(self.place, self._parts.disk), epoch=self.log.epoch)

    def close(self) -> None:
        """Clean stop: everything synced, the marker for the next start left."""
        if self.fenced:
            self.abandon()  # a marker would hide the hole
            return
        if self._offsets is not None:
            self.sync_now()
            self._offsets.close()
        self.log.close()

    def abandon(self) -> None:
        """Give descriptors back and nothing else, as a crash does."""
        if self._offsets is not None:
            self._offsets.close()
        self.log.abandon()

    def delete(self) -> None:
        """Remove the partition with all its files and free its slot."""
        self._removal.cancel()
        self._deleted, self.fenced, self.waits = True, "it was deleted", False
        self.log.discard()
        if self._offsets is not None:
            self._offsets.close()
            self._offsets = None
        self._parts.table.clear(self.place.slot)
        wake(self.watches)
        if left := take_away(self._parts.disk, self.place.folder, self._parts.syncer):
            self._parts.warn(Note("folder_kept", left))

    def begin_sync(self, *, checkpoint: bool) -> SyncWork | None:
        """For the group commit: what is unsynced of log and offsets. Holds the files."""
        if self.waits:
            return None
        log_work = self.log.begin_sync(checkpoint=checkpoint)
        files: list[File] = []
        folders: list[str] = []
        if self._offsets is not None and self._offsets.unsynced:
            files, folders = self._offsets.take_unsynced()
            for file in files:
                file.hold()
        if log_work is not None and self._life_is_new:
            self._life_is_new = False
            files = [*files, held_life(self._parts.disk, self.place.folder)]
        covered = Covered(self.log.epoch, log_work, files)
        if log_work is not None:
            # Offsets first: one that was drawn back must not be found ahead of newer data again.
            files, folders = [*files, *log_work.files], [*folders, *log_work.folders]
        elif not files and not folders:
            return None
        return SyncWork(tuple(files), tuple(folders), covered)

    def end_sync(self, work: SyncWork, *, good: bool) -> bool:
        """For the group commit: release, and show readers what is durable now."""
        covered = work.mark
        assert isinstance(covered, Covered), "made by begin_sync"
        for file in covered.offset_files:
            file.release()
        if covered.log_work is not None:
            self.log.end_sync(covered.log_work, good=good)
        matters = covered.epoch == self.log.epoch
        if matters and good and self._persisted:
            self._slot.visible(self.log.synced_next_offset)
            wake(self.watches, self.log.synced_next_offset)
        return matters

    def _remove(self, firsts: list[int]) -> None:
        if firsts:
            self._publish_shape()
            self._removal.remove(firsts)

    def _rolled(self) -> None:
        """A segment was begun: sync the one before it soon, so that no start reads it again."""
        self._publish_shape()
        if self._parts.syncer and len(self.log.segments) > 1 and not self._persisted:
            self._commit.save()

    def _serve_after_all(self) -> None:
        """Open it if only room on the disk was missing; Reject if it cannot be served."""
        if not (self.waits and self.open_again()):
            raise self._refusal

    def _publish(self, state: SlotState) -> None:
        self._publish_shape()
        log = self.log
        self._slot.appended(log.size_bytes, log.next_offset, self.visible_next_offset)
        self._slot.life(self.place.incarnation, self.place.purges, state)
        wake(self.watches)

    def _publish_shape(self) -> None:
        log = self.log
        self._slot.shape(max(len(log.segments), 1), log.first_offset, log.size_bytes)

    @property
    def _refusal(self) -> Reject:
        return not_served(self.place.folder, self.fenced, deleted=self._deleted, waits=self.waits)
