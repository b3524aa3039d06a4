"""Files below an address of an object store: they wait as uploads, and appear when completed.

<prefix>/<folder>/<range>.parquet    a file: an upload until it is completed
<prefix>/_iggy/notes/<range>.json    the note of a range of several files, or its end, see below

An object store has no rename, and no lock. What stands for them is that a note can be made only
once, that completing and aborting an upload exclude each other, and this order of things:

    a task                                   the next driver
    1 uploads all files                      1 writes its mark, so that 2 on the left fails
    2 looks whether its driver's mark stands 2 completes what notes list, and removes them
    3 makes the note, if there are several   3 for each range that still waits makes its note
    4 completes the uploads                    first, as one that is dropped, and aborts it
    5 removes the note                       4 looks what is there

A task that passed 2 in time has uploads that the driver sees. Then either its note was first, and
the driver completes the range, or the driver's, and the task ends. Of a single file completion or
abortion is first. So after the driver's 3 nothing of an earlier driver can appear any more.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from iggy_spark.errors import Fenced
from iggy_spark.s3 import Bucket, Connection, Staged, StoreError, check_once
from iggy_spark.sinks import file_names

WORK: Final = "_iggy/"
NOTES: Final = f"{WORK}notes/"
_DROPPED: Final = b'{"dropped": true}'


class BucketPlace:
    """See `files.Place`."""

    def __init__(self, address: str, connection: Connection) -> None:
        """Touches nothing yet."""
        self._bucket = Bucket(address, connection)

    def check(self) -> None:
        """See whether a note can be made twice."""
        check_once(self._bucket, f"{WORK}probe")

    def settle(self, incarnation: str) -> None:
        """Complete what notes list, drop other uploads of this incarnation. Those of others may
        be another sink's, or a user's.
        """
        dropped = self._finish_notes(incarnation) | self._drop_waiting(incarnation)
        for note in sorted(dropped):  # not before its uploads are gone
            self._bucket.delete(note)

    def _finish_notes(self, incarnation: str) -> set[str]:
        notes = [note for note in self._bucket.list_keys(NOTES) if _is_of(note, incarnation)]
        return {note for note in notes if not self._carry_out(note)}

    def _drop_waiting(self, incarnation: str) -> set[str]:
        waiting: dict[str, list[Staged]] = {}
        for staged in self._bucket.staged():
            if _is_of(staged.key, incarnation):
                waiting.setdefault(_note_of(staged.key), []).append(staged)
        dropped = set()
        for note, uploads in waiting.items():
            if self._bucket.put_once(note, _DROPPED) or not self._carry_out(note):
                dropped.add(note)
            for staged in uploads:
                self._bucket.abort(staged)  # of a range that has appeared: an earlier attempt
        return dropped

    def files(self) -> Iterator[str]:
        """Keys of all objects below the prefix."""
        return (key for key in self._bucket.list_keys() if not key.startswith(WORK))

    def newest(self, beginning: str) -> bytes | None:
        """The content of the last of some objects, by name."""
        last = max(self._bucket.list_keys(beginning), default=None)
        return None if last is None else self._bucket.get(last)

    def put(self, place: str, data: bytes) -> None:
        """One request."""
        self._bucket.put_once(place, data)

    @contextmanager
    def attempt(self) -> Iterator[Path]:
        """A local folder."""
        folder = Path(tempfile.mkdtemp(prefix="iggy-sink-"))
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def publish(self, attempt: Path, files: Mapping[str, str], confirm: Callable[[], None]) -> None:
        """Upload the files, then let them appear. A second time is as a second task: notes and
        uploads of the first are dropped or carried out.
        """
        uploads: list[Staged] = []
        try:
            for name, place in files.items():
                uploads.append(self._bucket.stage(place.removeprefix("./"), attempt / name))
            confirm()
        except BaseException:
            self._abort(uploads)
            raise
        if len(uploads) == 1:
            self._complete_one(uploads[0])
        elif uploads:
            self._complete_all(uploads)

    def leave(self, attempt: Path) -> None:
        """What was uploaded is in the store."""
        shutil.rmtree(attempt, ignore_errors=True)

    def _complete_one(self, staged: Staged) -> None:
        if not self._bucket.complete(staged) and not self._bucket.exists(staged.key):
            raise _fenced(staged.key)

    def _complete_all(self, uploads: Sequence[Staged]) -> None:
        note = _note_of(uploads[0].key)
        text = json.dumps([[item.key, item.upload, item.etags] for item in uploads]).encode()
        is_ours = self._bucket.put_once(note, text) or self._bucket.get(note) == text
        if not is_ours:  # a repeated task finds the note of its earlier attempt at the same range
            self._abort(uploads)
        is_done = self._carry_out(note)
        if not is_done or (not is_ours and not all(self._bucket.exists(u.key) for u in uploads)):
            raise _fenced(note)

    def _carry_out(self, note: str) -> bool:
        """Let all files of a note appear and remove it; False if its range was dropped.

        Raises:
            StoreError: some of its files cannot be had any more.
        """
        text = self._bucket.get(note)
        if text is None:
            return True  # another attempt has carried it out
        if text == _DROPPED:
            return False
        uploads = [Staged(key, upload, tuple(etags)) for key, upload, etags in json.loads(text)]
        missing = [
            item.key
            for item in uploads
            if not self._bucket.complete(item) and not self._bucket.exists(item.key)
        ]
        if missing and len(missing) < len(uploads):
            raise StoreError(
                f"the note {note} lists {', '.join(missing)}, and neither the upload nor the file "
                "exists: does a rule of the bucket end uploads too soon? Remove the note and the "
                "other files of that name, so that they are written again"
            )
        self._bucket.delete(note)
        return not missing

    def _abort(self, uploads: Sequence[Staged]) -> None:
        """Tidying up: what stays is dropped by the next driver."""
        with suppress(StoreError):
            for staged in uploads:
                self._bucket.abort(staged)


def _note_of(key: str) -> str:
    return f"{NOTES}{key.rpartition('/')[2].rpartition('.')[0]}.json"


def _is_of(key: str, incarnation: str) -> bool:
    """Whether a file or note is about messages of that life of the topic."""
    found = file_names.parse(key.rpartition("/")[2])
    return found is not None and found.incarnation == incarnation


def _fenced(key: str) -> Fenced:
    return Fenced(f"files.path: another run of this sink has taken over, {key} was dropped")
