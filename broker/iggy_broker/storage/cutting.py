"""What recovery decides, and how it cuts a log without throwing anything away unseen."""

from dataclasses import dataclass
from enum import StrEnum

from iggy_broker.logs import Note
from iggy_broker.storage import layout
from iggy_broker.storage.disk import Disk, StorageFailed, is_full, may_pass
from iggy_broker.storage.segment import Segment

CUT_TAIL_BYTES_MAX = 64 * 1024 * 1024  # of a cut tail so much is copied aside; the rest is dropped
CUT_SETS_MAX = 4  # recoveries whose cut bytes are kept; the oldest set goes first

_COPY_BYTES = 4 * 1024 * 1024


class DecisionKind(StrEnum):
    """What kind of thing recovery met."""

    TAIL_CUT = "tail cut"
    SEGMENT_SET_ASIDE = "segment set aside"
    INDEX_REBUILT = "index rebuilt"
    DAMAGED = "damaged"
    FENCED = "fenced"
    FOREIGN_FILE = "foreign file"
    FOLDER_MISSING = "folder missing"
    FOLDER_SET_ASIDE = "folder set aside"
    PURGE_FINISHED = "purge finished"
    LIFE_NOTED = "life noted"
    MARKER_DISBELIEVED = "marker disbelieved"


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that opening a partition decided. For the log, and for tests."""

    kind: DecisionKind
    folder: str
    offset: int = 0  # first offset that is concerned
    position: int = 0  # bytes from the start of the segment
    cut_bytes: int = 0  # no longer part of the log
    kept_bytes: int = 0  # of them, kept in `kept_path`
    kept_path: str = ""
    why: str = ""

    @property
    def note(self) -> Note:
        """For the log."""
        return Note(
            self.kind.name.lower(),
            str(self),
            folder=self.folder,
            offset=self.offset,
            position=self.position,
            cut_bytes=self.cut_bytes,
            kept_bytes=self.kept_bytes,
            kept_path=self.kept_path,
        )

    def __str__(self) -> str:
        """One line for the log, with the words people search for."""
        text = f"{self.folder}: {self.kind}"
        if self.kind in (DecisionKind.TAIL_CUT, DecisionKind.SEGMENT_SET_ASIDE):
            kept = f"kept in {self.kept_path}" if self.kept_path else "kept nowhere"
            text += (
                f" at offset {self.offset}, position {self.position}: truncated {self.cut_bytes}"
                f" bytes, {self.kept_bytes} of them {kept}"
            )
        elif self.offset:
            text += f" at offset {self.offset}"
        return f"{text}: {self.why}" if self.why else text


def cut_tail(disk: Disk, segment: Segment, size_bytes: int, *, why: str) -> Decision:
    """Cut the file to the segment's good bytes, after copying what goes. Syncs come later.

    A full disk does not stop it: then nothing is kept, and the decision says so. A broken one does:
    OSError, and all is as it was.
    """
    end = segment.size_bytes
    kept_in = _new_set(disk, segment.folder)
    target = f"{kept_in}/{segment.first_offset:020d}.log.from-{end}"
    wanted = min(size_bytes - end, CUT_TAIL_BYTES_MAX)
    kept = _copy(disk, segment, target, wanted) if kept_in else 0
    try:
        segment.file.truncate(end)
    except OSError as error:
        if may_pass(error):
            raise
        raise StorageFailed(f"{segment.path}: a torn tail cannot be cut: {error}") from error
    return Decision(
        DecisionKind.TAIL_CUT,
        segment.folder,
        segment.next_offset,
        end,
        cut_bytes=size_bytes - end,
        kept_bytes=kept,
        kept_path=target if kept else "",
        why=why,
    )


def set_aside(disk: Disk, folder: str, firsts: list[int], *, why: str) -> list[Decision]:
    """Move whole segments out of the log, the newest first so that no hole appears meanwhile."""
    if not firsts:
        return []
    decisions = []
    kept_in = _new_set(disk, folder)
    for first in reversed(firsts):
        path = layout.log_path(folder, first)
        size = disk.size(path)
        target = f"{kept_in}/{first:020d}.log" if kept_in else f"{path}.aside"
        try:
            disk.rename(path, target)
        except OSError as error:
            if may_pass(error):
                raise
            raise StorageFailed(f"{path}: cannot be moved to {target}: {error}") from error
        disk.remove(layout.index_path(folder, first))
        decisions.append(
            Decision(
                DecisionKind.SEGMENT_SET_ASIDE,
                folder,
                first,
                cut_bytes=size,
                kept_bytes=size,
                kept_path=target,
                why=why,
            )
        )
    return decisions


def _new_set(disk: Disk, folder: str) -> str:
    """A new folder for cut bytes; the oldest beyond the limit go. "" if the disk has no room."""
    parent = f"{folder}/{layout.CUT_FOLDER}"
    sets = sorted(int(name) for name in disk.list_folder(parent) if name.isdecimal())
    for number in sets[: max(len(sets) - CUT_SETS_MAX + 1, 0)]:
        disk.remove_tree(f"{parent}/{number:06d}")
    path = f"{parent}/{(sets[-1] if sets else 0) + 1:06d}"
    try:
        disk.make_folders(path)
        disk.sync_folder(parent)  # before anything moves in: a lost folder would lose that too
        disk.sync_folder(folder)
    except OSError as error:
        if not is_full(error):
            raise  # a broken disk, too many files: nothing is thrown away because of it
        return ""  # a full one: start must work all the same
    return path


def _copy(disk: Disk, segment: Segment, target: str, size_bytes: int) -> int:
    """Copy bytes behind the good end to a file of their own. 0 if the disk has no room."""
    try:
        file = disk.open(target, create=True)
        try:
            for at in range(0, size_bytes, _COPY_BYTES):
                size = min(_COPY_BYTES, size_bytes - at)
                file.write(segment.file.read(size, segment.size_bytes + at), at)
            file.sync()
        finally:
            file.close()
        disk.sync_folder(target.rpartition("/")[0])  # before the log loses these bytes
    except OSError as error:
        if not is_full(error):
            raise
        disk.remove(target)
        return 0
    return size_bytes
