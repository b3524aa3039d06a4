"""Files, exactly once: one file per range of offsets, or one in each partition folder.

What makes it exactly once:
- A file's name is its range (`file_names`), and it appears at once, whole and durable.
- A range that spans several folders is first written completely where nobody looks, then a note
  lists its files, then they appear, then the note goes. After a crash `prepare` carries out what a
  note lists: a range is in the target with all its files or with none.
- `prepare` reads from the names what is there already, so that a deleted checkpoint makes no
  duplicates. The data itself stays the only record: there is no list that grows. Those of
  `batch_lists` are for readers.

How files wait and appear is a matter of the place: by renames in a `folder`, by uploads that are
completed in a `bucket`. Everything of ours that is not data lies in `_iggy`, `_rejected`, `_empty`
and `_batches`; readers skip such names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol, TypeVar

from iggy_spark import blocks, s3
from iggy_spark.errors import SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.retry import Policy, Retry, TransientError
from iggy_spark.sinks import batch_lists, file_names
from iggy_spark.sinks.base import Portion, Spans, Task, Written, merge
from iggy_spark.sinks.batch_lists import BatchList, BatchLists
from iggy_spark.sinks.bucket import BucketPlace
from iggy_spark.sinks.file_formats import check_format
from iggy_spark.sinks.file_names import FileName
from iggy_spark.sinks.folder import FolderPlace
from iggy_spark.sinks.range_files import RangeWriter, TemporaryFile, check_partition_by
from iggy_spark.sinks.rows import rejected, table_fields
from iggy_spark.state import write_durably

T = TypeVar("T")

REJECTED: Final = "_rejected"
EMPTY: Final = "_empty"
"""Where a range leaves its name of which every message is a dead letter: else a lost checkpoint
would bring the messages again, beside the letters that were written in the meantime.
"""


class Place(Protocol):
    """Where files lie, and how those of one range appear together."""

    def check(self) -> None:
        """Write something. Raises OSError or StoreError."""

    def settle(self, incarnation: str) -> None:
        """Let appear what notes list, and drop what else waits, of this incarnation.

        Afterwards nothing of an earlier driver can appear. Raises OSError, StoreError, ValueError.
        """

    def files(self) -> Iterator[str]:
        """Paths of all files that are there. Raises OSError, StoreError."""

    def newest(self, beginning: str) -> bytes | None:
        """The content of that file with the last name, of those whose paths begin so; None: there
        is none. Raises OSError, StoreError.
        """

    def put(self, place: str, data: bytes) -> None:
        """Let a small file appear, whole and durable. One that is there is the same.

        Raises OSError, StoreError.
        """

    def attempt(self) -> AbstractContextManager[Path]:
        """A local folder to write files to; it goes when the block ends with an error."""

    def publish(self, attempt: Path, files: Mapping[str, str], confirm: Callable[[], None]) -> None:
        """Let the files of an attempt (name there → path here) appear, all or none.

        `confirm` raises if this driver may not write any more. Raises OSError, StoreError; after
        StoreAway it can be called again.
        """

    def leave(self, attempt: Path) -> None:
        """An attempt will not be published any more, or is."""


class FilesSink:
    """Writes ranges as files below one folder or address."""

    exactly_once = True
    keeps_place = True

    def __init__(
        self, settings: blocks.Files, payload: Payload, *, retry: Retry | None = None
    ) -> None:
        """Touches nothing yet. `retry` is for stores, on top of their library's own.

        Raises:
            OptionError: a column of `partitionBy` cannot name folders, or the format cannot hold
                one of the others.
        """
        fields = table_fields(payload)
        check_partition_by(fields, settings.partition_by)
        check_format(settings.format, fields, settings.partition_by)
        self._settings = settings
        self._payload = payload
        self._retry = retry or Retry(Policy(timeout_s=0))
        self._place: Place = (
            BucketPlace(settings.path, settings.s3.connection())
            if s3.is_address(settings.path)
            else FolderPlace(Path(settings.path))
        )
        self._incarnation = ""
        self._lists: BatchLists | None = None  # in the driver, if they are wanted

    def check(self) -> None:
        """Write a file.

        Raises:
            SinkError: not possible.
        """
        try:
            self._place.check()
        except (OSError, s3.StoreError) as error:
            raise self._failed("cannot be written", error) from error

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Finish or drop what was interrupted, and see what is there."""
        try:
            self._asking(lambda: self._place.settle(incarnation), "cannot be put in order")
        except (OSError, ValueError, s3.StoreError) as error:
            raise self._failed("cannot be put in order", error) from error
        if not self._settings.list_batches:
            return self.held(incarnation)
        self._incarnation = incarnation
        return self._reading(lambda: self._look_at_lists(incarnation))

    def _asking(self, work: Callable[[], T], what: str) -> T:
        """Carry something out that a store may put off."""

        def once() -> T:
            try:
                return work()
            except s3.StoreAway as error:
                raise TransientError(str(error), cause="unreachable") from error

        return self._retry.call(once, what=f"files.path: {self._settings.path} {what}")

    def held(self, incarnation: str) -> Mapping[int, Spans]:
        """What is there, by the names of the files."""
        return self._reading(lambda: self._spans(incarnation))

    def _reading(self, work: Callable[[], T]) -> T:
        try:
            return self._asking(work, "cannot be read")
        except (OSError, ValueError, s3.StoreError) as error:
            raise self._failed("cannot be read", error) from error

    def _look_at_lists(self, incarnation: str) -> dict[int, Spans]:
        newest = self._place.newest(batch_lists.beginning(incarnation))
        lists = BatchLists(None if newest is None else BatchList.decode(newest))
        spans = self._spans(incarnation, lists.see)
        self._lists = lists
        return spans

    def _spans(
        self, incarnation: str, see: Callable[[str, FileName], None] | None = None
    ) -> dict[int, Spans]:
        """Per partition; `see` is told of each file with data."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for path in self._place.files():
            found = file_names.parse(path.rpartition("/")[2])
            if found is not None and found.incarnation == incarnation:
                spans.setdefault(found.partition, []).append((found.first, found.end))
                if see is not None and not path.startswith((f"{REJECTED}/", f"{EMPTY}/")):
                    see(path, found)
        return {partition: merge(found) for partition, found in sorted(spans.items())}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Write the range where nobody looks, then make it appear.

        Raises:
            SinkError: the disk or the store says no; nothing has appeared.
        """
        name = str(file_names.of_range(wanted))
        try:
            with self._place.attempt() as attempt:
                files = self._write(attempt, portions)
            # From here on the files stay until they are in place, whatever happens: a note may
            # already promise them.
            places = {file.path.name: f"{file.folder}/{name}{file.path.suffix}" for file in files}
            try:
                self._asking(
                    lambda: self._place.publish(attempt, places, task.confirm), "cannot be written"
                )
            finally:
                self._place.leave(attempt)
        except (OSError, s3.StoreError) as error:
            raise self._failed("cannot be written", error) from error
        return Written(
            wanted.partition,
            wanted.first,
            wanted.end,
            rows=sum(file.rows for file in files if file.folder != REJECTED),
            size_bytes=sum(file.size_bytes for file in files),
            details=self._to_list(places.values()),
        )

    def _to_list(self, places: Iterable[str]) -> tuple[str, ...]:
        """What the driver needs for a list: paths of files with data, as `Place.files` has them."""
        if not self._settings.list_batches:
            return ()
        aside = (f"{REJECTED}/", f"{EMPTY}/")
        return tuple(path.removeprefix("./") for path in places if not path.startswith(aside))

    def _write(self, attempt: Path, portions: Iterable[Portion]) -> list[TemporaryFile]:
        columns = (self._payload, self._settings.partition_by)
        with RangeWriter(attempt, *columns, file_format=self._settings.format) as writer:
            aside = 0
            for portion in portions:
                writer.write(portion.rows)
                writer.reject(rejected(portion), folder=REJECTED)
                aside += portion.messages.count - portion.rows.num_rows - portion.filtered
            files = writer.finish()
        return files or ([_nothing(attempt)] if aside else [])

    def _failed(self, what: str, error: Exception) -> SinkError:
        return SinkError(f"files.path: {self._settings.path} {what}: {error}")

    def commit(self, results: Sequence[Written]) -> None:
        """The files are in place when their tasks are done; what is left is their list, if wanted.

        Raises:
            SinkError: the disk or the store says no; the batch is repeated, and listed then.
        """
        batch = None if self._lists is None else self._lists.of(results)
        if self._lists is None or batch is None:
            return
        name, data = batch.name(self._incarnation), batch.encode()
        try:
            self._asking(lambda: self._place.put(name, data), "cannot be written")
        except (OSError, s3.StoreError) as error:
            raise self._failed("cannot be written", error) from error
        self._lists.written(batch)

    def close(self) -> None:
        """Nothing is open between batches."""


def _nothing(attempt: Path) -> TemporaryFile:
    path = attempt / "0.none"
    write_durably(path, b"\n")
    return TemporaryFile(path, EMPTY, rows=0, size_bytes=0)
