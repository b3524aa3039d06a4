"""Which files have changed: looked at about once a second, without help of the system."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

WATCH_S: Final = 1.0
_SUFFIXES: Final = (".yaml", ".yml", ".json")

Mark: TypeAlias = tuple[int, int, int]
"""Time of the last change in nanoseconds, size in bytes, inode."""


def look(files: Sequence[Path]) -> dict[Path, Mark]:
    """The marks of files, and of the resources in folders. What is not there is left out."""
    marks = {}
    for path in files:
        for file in _below(path):
            try:
                found = file.stat()
            except OSError:
                continue
            marks[file] = (found.st_mtime_ns, found.st_size, found.st_ino)
    return marks


def _below(path: Path) -> list[Path]:
    try:
        return [item for item in path.iterdir() if item.suffix in _SUFFIXES]
    except OSError:  # no folder, or not there
        return [path]


class Watch:
    """Files as they were at the last look.

    To be made before the files are read: what changes while they are read is then seen later.
    """

    def __init__(self, files: Sequence[Path], now_s: float) -> None:
        """Look. `now_s` is the time of a monotonic clock."""
        self._files = tuple(files)
        self._marks = look(self._files)
        self._missing: set[Path] = set()
        self._due_s = now_s + WATCH_S

    def changed(self, now_s: float) -> tuple[Path, ...]:
        """Files that are others than before, if it is time to look.

        Editors that save by renaming take a file away for a moment: one that is missing counts when
        it is missing at the next look, too.
        """
        if now_s < self._due_s:
            return ()
        self._due_s = now_s + WATCH_S
        marks = look(self._files)
        others = {
            path
            for path in marks.keys() | self._marks.keys()
            if marks.get(path) != self._marks.get(path)
        }
        missing = others - marks.keys()
        counted = others - (missing - self._missing)
        self._missing = missing
        for path in counted:
            if path in marks:
                self._marks[path] = marks[path]
            else:
                del self._marks[path]
        return tuple(sorted(counted))
