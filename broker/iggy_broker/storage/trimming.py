"""Segments that somebody asked to delete while consumers had yet to read them.

Iggy protocol 0.11: a request names the oldest sealed segments; those that a stored offset has not
passed stay for now. The end of the last one is remembered (it only rises), also by a restart, and
they go when the lowest stored offset has passed them. A purge forgets it.

    trim     magic "IKtr", u64 offset, u64 XXH3-64 of both, little-endian. Replaced whole, not
             synced: a power cut may take back a request to delete, never more.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from iggy_broker.logs import Note
from iggy_broker.storage import layout
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.gate import EVERYTHING
from iggy_broker.storage.partition_log import PartitionLog
from iggy_broker.storage.retention import passed
from iggy_wire import kernel

_RECORD: Final = Struct("<4sQQ")
_BODY: Final = Struct("<4sQ")
_MAGIC: Final = b"IKtr"


class Trimming:
    """How far the head of one partition's log may go."""

    __slots__ = ("_archived_end", "_disk", "_log", "_noted_offset", "_path", "_target_offset")

    def __init__(
        self, disk: Disk, log: PartitionLog, archived_end: Callable[[], int] = lambda: EVERYTHING
    ) -> None:
        """Read what was asked before; a damaged note counts as none. See `Gate` for the end.

        After a power cut the log may end earlier: what comes in its place was not meant.
        """
        self._archived_end = archived_end
        self._disk = disk
        self._log = log
        self._path = f"{log.folder}/{layout.TRIM_FILE}"
        self._target_offset = min(
            self._load(), log.next_offset
        )  # segments that end at or before it are to go
        self._noted_offset = self._target_offset

    def ask(self, count: int) -> None:
        """The `count` oldest sealed segments are to go."""
        named = self._log.segments[:-1][:count]
        if named:
            self._target_offset = max(self._target_offset, named[-1].next_offset)

    @property
    def waits(self) -> bool:
        """Whether segments are to go that are still there."""
        return self._target_offset > self._log.first_offset

    @property
    def asked_offset(self) -> int:
        """Where the last segment ends that is to go and still there; 0: none is."""
        return self._target_offset if self.waits else 0

    def take(self, lowest_stored: int | None) -> list[int]:
        """Drop what may go now from the log; the first offsets of what was dropped.

        That is: asked for, sealed, in the archive if it must be, and passed by all stored offsets,
        of which the lowest is given.
        """
        sealed = self._log.segments[:-1]
        end = min(self._target_offset, self._archived_end())
        wanted = [segment for segment in sealed if segment.next_offset <= end]
        dropped = self._log.drop_head(passed(wanted, lowest_stored))
        if self.waits and self._target_offset != self._noted_offset:
            self._note()
        return [segment.first_offset for segment in dropped]

    def _note(self) -> None:
        """Write the target down, for a restart. A disk that refuses is warned about, once."""
        self._noted_offset = self._target_offset
        body = _BODY.pack(_MAGIC, self._target_offset)
        record = body + kernel.xxh3_64(body).to_bytes(8, "little")
        try:
            self._disk.write_file(self._path, record, sync=False)
        except OSError as error:
            why = f"{self._path}: a restart will not know what to delete later: {error}"
            self._log.warn(Note("trim_not_noted", why))

    def _load(self) -> int:
        if not self._disk.exists(self._path):
            return 0
        data = self._disk.read_file(self._path, bytes_max=_RECORD.size + 1)
        if len(data) != _RECORD.size:
            return 0
        magic, offset, checksum = _RECORD.unpack(data)
        sound = magic == _MAGIC and checksum == kernel.xxh3_64(data[: _BODY.size])
        return int(offset) if sound else 0
