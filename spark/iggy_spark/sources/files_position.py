"""How far files were read: what a position of the source Files holds, and what comes next. Pure.

Files are read in the order of their time, then of their name. A position holds
- `after`: of the files up to this one all were read that had shown up by then;
- `read`: those beyond it that were read, so that one that shows up late, with a time like theirs,
  is still found to be new;
- `inside`: the file that was read in part, and the place where it goes on;
- `batch`: what is read to get here from the position before, `origin`. A batch that is repeated
  reads that and nothing else, whatever has shown up since.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from iggy_spark.sources.base import Position, as_type
from iggy_spark.sources.files_place import File

READ_MAX: Final = 2_000  # files in `read`; of more the newer half stays
DIGEST_BYTES: Final = 8
_ENTRY_BYTES: Final = 8 + DIGEST_BYTES  # a time and a digest


class Span(NamedTuple):
    """What is read of a file: from one place up to another, or to its end."""

    file: File
    first: int
    end: int | None


class At(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A position."""

    after: tuple[int, str] = (0, "")
    read: str = ""  # base64 of (time, digest) of each
    inside: tuple[File, int] | None = None
    batch: tuple[Span, ...] = ()
    origin: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no base64: ValueError."""
        self.entries()

    def entries(self) -> list[tuple[int, bytes]]:
        """`read`, as values: the time and the digest of each file."""
        data = base64.b64decode(self.read)
        cut = (data[at : at + _ENTRY_BYTES] for at in range(0, len(data), _ENTRY_BYTES))
        return [(int.from_bytes(entry[:8], "big"), entry[8:]) for entry in cut]

    def place(self) -> str:
        """The same for positions that have come equally far, by whatever batches."""
        inside = None if self.inside is None else (*self.inside[0], self.inside[1])
        words = repr((self.after, self.read, inside))
        return hashlib.blake2b(words.encode(), digest_size=DIGEST_BYTES).hexdigest()


def digest(file: File) -> bytes:
    """What stands for a version of a file."""
    words = f"{file.size} {file.tag} {file.key}"
    return hashlib.blake2b(words.encode(), digest_size=DIGEST_BYTES).digest()


def parse(position: Position) -> At:
    """A position out of a checkpoint.

    Raises:
        OffsetFormatError: it is none of this source.
    """
    return as_type(position, At, "Files")


def to_json(at: At) -> dict[str, Any]:
    """A position as a checkpoint has it."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(at))
    return found


class News:
    """Tells files that are to be read from those that were."""

    def __init__(self, at: At) -> None:
        """As seen from this position."""
        self._after = at.after
        self._read = {entry[1] for entry in at.entries()}
        if at.inside is not None:
            self._read.add(digest(at.inside[0]))  # is the first of all, and no news

    def has(self, file: File) -> bool:
        """Whether a file is one of them."""
        return (file.time_us, file.key) > self._after and digest(file) not in self._read


def moved(
    start: At,
    batch: Sequence[Span],
    waiting: File | None,
    *,
    window_us: int,
) -> At:
    """The position behind a batch that is not empty. `waiting` is the first file that is not in it;
    files up to `window_us` older than the last one read may still show up.
    """
    last = batch[-1]
    inside = None if last.end is None else (last.file, last.end)
    finished = [span.file for span in batch if span.end is None]
    after, entries = _pruned(start, finished, waiting, window_us)
    read = b"".join(time_us.to_bytes(8, "big") + name for time_us, name in entries)
    return At(after, base64.b64encode(read).decode(), inside, tuple(batch), start.place())


def _pruned(
    start: At, finished: Sequence[File], waiting: File | None, window_us: int
) -> tuple[tuple[int, str], list[tuple[int, bytes]]]:
    """`after` and `read`, once these files were read, too."""
    found = sorted({*start.entries(), *((file.time_us, digest(file)) for file in finished)})
    if not found:
        return start.after, found
    floor_us = max(0, found[-1][0] - window_us)  # what is older than this has come too late
    if len(found) > READ_MAX:
        floor_us = max(floor_us, found[-READ_MAX // 2][0])
    if waiting is not None:
        floor_us = min(floor_us, waiting.time_us)
    after = max(start.after, (floor_us, ""))  # a time without a name is before all files of it
    found = [entry for entry in found if entry[0] >= after[0]]
    return (after, found) if len(found) <= READ_MAX else _forgotten(after, finished, waiting, found)


def _forgotten(
    after: tuple[int, str],
    finished: Sequence[File],
    waiting: File | None,
    found: list[tuple[int, bytes]],
) -> tuple[tuple[int, str], list[tuple[int, bytes]]]:
    """The same for too many files of about one time: late ones among them are not found any more,
    but none that waits is taken for one of them.
    """
    bound = (waiting.time_us, waiting.key) if waiting is not None else None
    passed = [(file.time_us, file.key) for file in finished]
    after = max([after, *(place for place in passed if bound is None or place < bound)])
    beyond = {digest(file) for file in finished if (file.time_us, file.key) > after}
    return after, [entry for entry in found if entry[0] > after[0] or entry[1] in beyond]
