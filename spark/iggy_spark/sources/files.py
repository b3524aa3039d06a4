"""Files of a folder or an object store, once they lie there unchanged, as messages.

The driver lists what is there and plans by sizes; it looks into a file only to guess how many
messages such files have, and to find where to cut one that is too large for a batch. A plan is part
of the position, so that a batch that is repeated reads the same, or says what is gone.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import pyarrow as pa

from iggy_spark import options, source_blocks
from iggy_spark.errors import OffsetFormatError, OptionError, SinkError
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sources import files_formats, files_place, files_position
from iggy_spark.sources.base import Position, message_id, record_batch
from iggy_spark.sources.files_place import File
from iggy_spark.sources.files_position import At, News, Span

FILES_MAX: Final = 1_000  # of a batch
PLAN_BYTES_MAX: Final = 512 << 10  # names of the files of a batch, in JSON
LATE_US: Final = 3600 * 1_000_000  # a file that shows up late may be so much older than one read
PARTS_MAX: Final = 16  # of a batch, a task each
ROWS_MAX: Final = 1_000  # of a record batch
ROWS_BYTES_MAX: Final = 4 << 20  # of a record batch; one message may be more

T = TypeVar("T")


class FilesSource:
    """See `base.Source`."""

    def __init__(
        self,
        settings: source_blocks.Files,
        *,
        name: str,
        retry: Retry,
    ) -> None:
        """`name` is the source's; it is part of the ids. Touches nothing yet.

        Raises:
            OptionError: a field of the settings is wrong.
        """
        self._settings, self._name, self._retry = settings, name, retry
        self._settle_us = 1000 * options.parse_duration_ms("files.settle", settings.settle)
        try:
            self._place = files_place.of(settings.path, settings.s3.connection())
        except ValueError as error:
            raise OptionError(f"files.path: {error}") from error
        self._format = files_formats.of(settings.format, self._read)
        self._last: File | None = None  # of all that are read, where an end was set
        self._is_frozen = False

    def check(self) -> None:
        """List some of what is there."""
        try:
            next(iter(self._place.pages()), None)
        except TransientError as error:
            raise SinkError(f"files.path: {error}") from error

    def first(self) -> Position:
        """Before all files."""
        return files_position.to_json(At())

    def latest(self, start: Position, messages_max: int) -> Position:
        """Files that have settled, as many as make about `messages_max` messages."""
        at = files_position.parse(start)
        found = self._called(lambda: self._next(at, FILES_MAX + 1))
        if at.inside is not None:
            found.insert(0, at.inside[0])
        if not found:
            return start
        batch = self._plan(at, found, messages_max)
        waiting = found[len(batch)] if len(batch) < len(found) else None
        window_us = max(LATE_US, self._settle_us)
        end = files_position.moved(at, batch, waiting, window_us=window_us)
        return files_position.to_json(end)

    def _next(self, at: At, count: int) -> list[File]:
        """The first files that are new and have settled, in order."""
        return heapq.nsmallest(count, self._news(at, self._settle_us))

    def _news(self, at: At, age_us: int) -> Iterator[File]:
        news = News(at)
        for page in self._place.pages():
            for file in page.files:
                is_due = file.time_us <= page.now_us - age_us and self._is_before_end(file)
                if is_due and news.has(file):
                    yield file

    def _is_before_end(self, file: File) -> bool:
        return not self._is_frozen or (self._last is not None and file <= self._last)

    def _plan(self, at: At, found: Sequence[File], messages_max: int) -> list[Span]:
        batch: list[Span] = []
        left, names_bytes = messages_max, 0
        density = self._format.density(found[0])
        for file in found[:FILES_MAX]:
            first = at.inside[1] if at.inside is not None and file == at.inside[0] else 0
            if self._settings.format == "Raw":
                density = self._format.density(file)
            count = max(1, round(density * file.size))
            names_bytes += len(json.dumps(file.key))
            if batch and (count > left or names_bytes > PLAN_BYTES_MAX):
                break
            # Cut alone, so that no other file waits for the rest of this one in a batch's middle.
            end = self._format.cut(file, first, messages_max) if count > left else None
            batch.append(Span(file, first, end))
            left -= count
            if left <= 0:
                break
        return batch

    def freeze(self) -> None:
        """See `base.Freezing`: no file is read that has not settled by now."""
        everything = At()
        found = self._called(lambda: max(self._news(everything, self._settle_us), default=None))
        self._last, self._is_frozen = found, True

    def split(self, start: Position, end: Position) -> Sequence[Mapping[str, Any]]:
        """Runs of files, about equally large.

        Raises:
            OffsetFormatError: `end` was not planned from `start`.
        """
        if start == end:
            return []
        batch = self._batch(start, end)
        share = max(1, sum(span.file.size for span in batch) // PARTS_MAX)
        parts: list[dict[str, int]] = []
        size = 0
        for number, span in enumerate(batch):
            if not parts or (size >= share and len(parts) < PARTS_MAX):
                parts.append({"first": number, "end": number})
                size = 0
            parts[-1]["end"] += 1
            size += span.file.size
        return parts

    def _batch(self, start: Position, end: Position) -> tuple[Span, ...]:
        at = files_position.parse(end)
        if at.origin != files_position.parse(start).place():
            raise OffsetFormatError(
                "the checkpoint of a source Files has a batch that begins elsewhere than the one "
                "before it ends: restore it as it was, or begin with an empty one"
            )
        return at.batch

    def read(
        self, start: Position, end: Position, part: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """The messages of some files.

        Raises:
            DataLoss: a file is gone or another one.
            BadRow: a file is not what the format says.
            SinkError: the folder or the store cannot be read.
        """
        ids: list[bytes] = []
        payloads: list[bytes] = []
        size = 0
        for span in self._batch(start, end)[part["first"] : part["end"]]:
            for place, payload in self._format.messages(*span):
                ids.append(self._id(span.file, place))
                payloads.append(payload)
                size += len(payload)
                if len(ids) >= ROWS_MAX or size >= ROWS_BYTES_MAX:
                    yield record_batch(ids, payloads)
                    ids, payloads, size = [], [], 0
        if ids:
            yield record_batch(ids, payloads)

    def _id(self, file: File, place: int) -> bytes:
        return message_id(self._name, "files", file.key, file.tag, file.size, file.time_us, place)

    def done(self, end: Position) -> None:
        """Nothing: files stay where they are."""

    def behind(self, at: Position) -> int | None:
        """Guessed by the sizes of the files, those that have not settled among them."""
        place = files_position.parse(at)

        def waiting() -> tuple[int, int, File | None]:
            count = size = 0
            some = None
            for some in self._news(place, 0):
                count, size = count + 1, size + some.size
            return count, size, some

        count, size, some = self._called(waiting)
        if place.inside is not None:
            count, size, some = count + 1, size + place.inside[0].size, place.inside[0]
        if some is None or self._settings.format == "Raw":
            return count
        return max(count, round(self._format.density(some) * size))

    def close(self) -> None:
        """Nothing is open between calls."""

    def _read(self, file: File, first: int, size: int) -> bytes:
        return self._called(lambda: self._place.read(file, first, size))

    def _called(self, work: Callable[[], T]) -> T:
        return self._retry.call(work, what="files.path")
