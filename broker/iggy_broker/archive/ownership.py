"""As whom a shard writes to the archive, and whether it still may. Blocking, for threads.

What is seen counts for a second, so that a look costs little; a broker that was stopped for longer
looks before it writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iggy_broker.archive.fences import put_fences, read_fences, read_prepared
from iggy_broker.archive.owner import not_ours, not_there, read_note, read_owner
from iggy_broker.archive.state_objects import Owner
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.clock import Clock
from iggy_broker.storage.disk import Disk
from iggy_wire.archive import Life
from iggy_wire.archive_fences import NO_FENCES, Fences, PartitionKey

FRESH_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Ours:
    """The owner that this data directory is."""

    id: str = ""
    """Empty: nobody has claimed the archive."""
    fences: Fences = NO_FENCES

    @property
    def generation(self) -> int:
        """That its copies name; 0: it has taken nothing over, and names none."""
        return self.fences.generation

    def begin(self, partition: PartitionKey, life: Life) -> int:
        """Up to this offset copies of earlier owners are as good as its own."""
        fence = self.fences.of(partition, life, self.generation - 1)
        return 0 if fence is None else fence.next_offset


class Ownership:
    """Of one shard, for all its threads."""

    def __init__(self, root: str, clock: Clock) -> None:
        """`root`: the data directory. Nobody has looked yet."""
        self._root = root
        self._clock = clock
        self._seen_us: int | None = None
        self._ours = Ours()

    def now(self, store: ArchiveStore, disk: Disk) -> Ours:
        """As whom to write. NotOurs, NotThere, ArchiveError, OSError."""
        now_us, note = self._clock.monotonic_us(), read_note(disk, self._root)
        there = read_owner(store)
        if note is None and there is None:
            return Ours()
        if there is None:
            assert note is not None, "as just seen"
            raise not_there(note)
        if note is None or note.id != there.id:
            raise not_ours(there)
        fences = read_fences(store, self._ours.fences)
        if fences is NO_FENCES and note.generation > 1:
            fences = self._put_again(store, disk, note)
        ours = self._ours = Ours(note.id, fences)
        self._seen_us = now_us
        return ours

    def _put_again(self, store: ArchiveStore, disk: Disk, note: Owner) -> Fences:
        """Somebody has removed them, as a rule of a bucket may, and names depend on them."""
        prepared = read_prepared(disk, self._root)
        if prepared.id != note.id:
            return NO_FENCES
        put_fences(store, prepared)
        return prepared

    def check(self, store: ArchiveStore, owner_id: str) -> None:
        """Right before what makes a copy count. `owner_id`: empty for an archive without a claim.

        NotOurs, NotThere, ArchiveError.
        """
        now_us, seen_us = self._clock.monotonic_us(), self._seen_us
        is_fresh = seen_us is not None and now_us - seen_us < FRESH_US
        if not owner_id or (is_fresh and self._ours.id == owner_id):
            return
        there = read_owner(store)
        if there is None:
            raise not_there(None)
        if there.id != owner_id:
            raise not_ours(there)
        if self._ours.id == owner_id:
            self._seen_us = now_us
