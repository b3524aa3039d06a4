"""What the files of a source hold: how many messages, and where each is.

A place in a file is a number that grows from message to message: the byte that a record begins at,
in the unpacked file, or the number of a row in a Parquet file. A message is known by it, however
the file is cut into batches.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from iggy_spark.errors import BadRow, SinkError
from iggy_spark.sinks.documents import plain
from iggy_spark.sources import files_text as text
from iggy_spark.sources.files_place import File
from iggy_wire.kernel_types import PAYLOAD_BYTES_MAX

CHUNK_BYTES: Final = 4 << 20  # of a file, with one request
SAMPLE_BYTES: Final = 64 << 10  # of a file, to guess how many messages it has
BUFFER_BYTES: Final = 1 << 20  # of a Parquet file, for each column that is read
ROWS: Final = 1_000  # of a Parquet file, in memory at a time

Read = Callable[[File, int, int], bytes]
"""Some bytes of a file: its first byte, their count."""

Placed = tuple[int, bytes]
"""A place, and the payload of the message there."""


class Format(Protocol):
    """How files of one format are read. All of it may raise what `Read` does, and `BadRow`."""

    def density(self, file: File) -> float:
        """About how many messages a byte of such files makes, guessed at this one."""

    def cut(self, file: File, first: int, count: int) -> int | None:
        """The place of the message that `count` others precede, from `first` on; None: the file has
        no such.
        """

    def messages(self, file: File, first: int, end: int | None) -> Iterator[Placed]:
        """The messages from one place up to another, or to the end of the file."""


class Lines:
    """A message a line, as it is; blank lines are none. Names that end in .gz are unpacked."""

    def __init__(self, read: Read) -> None:
        """`read` fetches bytes."""
        self._read = read

    def density(self, file: File) -> float:
        """See `Format`."""
        size = min(SAMPLE_BYTES, file.size)
        content = [self._read(file, 0, size)]
        if _is_packed(file):
            try:
                content = list(islice(text.unpacked(content, file.key), 1))
            except BadRow:
                content = []  # whoever reads the file says so
        return max(1, sum(part.count(b"\n") for part in content)) / size

    def cut(self, file: File, first: int, count: int) -> int | None:
        """See `Format`."""
        found = (at for at, record in self._records(file, first) if self._is_message(at, record))
        return next(islice(found, count, None), None)

    def messages(self, file: File, first: int, end: int | None) -> Iterator[Placed]:
        """See `Format`."""
        for at, record in self._records(file, first):
            if end is not None and at >= end:
                return
            if self._is_message(at, record):
                yield at, record.removesuffix(b"\r").removeprefix(b"" if at else text.BOM)

    def _is_message(self, at: int, record: bytes) -> bool:
        return not text.is_blank(record if at else record.removeprefix(text.BOM))

    def _records(self, file: File, first: int) -> Iterator[text.Record]:
        return text.lines(self._content(file, first), first, file.key)

    def _content(self, file: File, first: int) -> Iterator[bytes]:
        if _is_packed(file):  # there is no way into the middle
            return text.skipped(text.unpacked(self._stored(file, 0), file.key), first)
        return self._stored(file, first)

    def _stored(self, file: File, first: int) -> Iterator[bytes]:
        for at in range(first, file.size, CHUNK_BYTES):
            yield self._read(file, at, min(CHUNK_BYTES, file.size - at))


class Csv(Lines):
    """A message a row, as an object of texts with the names of the first row."""

    def messages(self, file: File, first: int, end: int | None) -> Iterator[Placed]:
        """See `Format`."""
        head = next(((at, row) for at, row in self._rows(file, 0) if not text.is_blank(row)), None)
        if head is None:
            return
        names = text.values(head[1], head[0], file.key)
        if len(set(names)) < len(names):
            raise BadRow(f"files.path: {file.key} has a name twice in its header: rename one")
        for at, row in self._rows(file, first):
            if end is not None and at >= end:
                return
            if at != head[0] and not text.is_blank(row):
                found = text.values(row, at, file.key)
                yield at, text.row_object(names, found, at, file.key)

    def cut(self, file: File, first: int, count: int) -> int | None:
        """See `Format`; the header counts as a message, which does not matter."""
        return super().cut(file, first, count)

    def _records(self, file: File, first: int) -> Iterator[text.Record]:
        return self._rows(file, first)

    def _rows(self, file: File, first: int) -> Iterator[text.Record]:
        return text.rows(super()._records(file, first), file.key)


class Raw:
    """A file is a message, unchanged."""

    def __init__(self, read: Read) -> None:
        """`read` fetches bytes."""
        self._read = read

    def density(self, file: File) -> float:
        """See `Format`. Each file is a message, and each is checked here, before it is planned.

        Raises:
            SinkError: it is larger than a message may be.
        """
        if file.size > PAYLOAD_BYTES_MAX:
            raise SinkError(
                f"files.path: {file.key} has {file.size} bytes, and a message at most "
                f"{PAYLOAD_BYTES_MAX}: move it away, or choose a format of several messages a file"
            )
        return 1 / file.size

    def cut(self, file: File, first: int, count: int) -> int | None:
        """See `Format`."""
        return None

    def messages(self, file: File, first: int, end: int | None) -> Iterator[Placed]:
        """See `Format`."""
        parts = range(0, file.size, CHUNK_BYTES)
        yield 0, b"".join(self._read(file, at, min(CHUNK_BYTES, file.size - at)) for at in parts)


class Parquet:
    """A message a row, as JSON object."""

    def __init__(self, read: Read) -> None:
        """`read` fetches bytes."""
        self._read = read
        self._encode = msgspec.json.Encoder(decimal_format="number").encode

    def density(self, file: File) -> float:
        """See `Format`."""
        rows: int = self._open(file).metadata.num_rows
        return max(1, rows) / file.size

    def cut(self, file: File, first: int, count: int) -> int | None:
        """See `Format`."""
        wanted = first + count
        return wanted if wanted < self._open(file).metadata.num_rows else None

    def messages(self, file: File, first: int, end: int | None) -> Iterator[Placed]:
        """See `Format`. Of a group of rows it holds `ROWS` at a time, as far as its pages allow."""
        opened = self._open(file)
        at = 0
        for group in range(opened.num_row_groups):
            count = opened.metadata.row_group(group).num_rows
            if at + count > first and (end is None or at < end):
                yield from self._group(opened, group, at, (first, end), file)
            at += count

    def _group(
        self,
        opened: pq.ParquetFile,
        group: int,
        at: int,
        span: tuple[int, int | None],
        file: File,
    ) -> Iterator[Placed]:
        first, end = span
        try:
            for rows in opened.iter_batches(batch_size=ROWS, row_groups=[group]):
                low = max(0, first - at)
                high = rows.num_rows if end is None else min(rows.num_rows, end - at)
                if low < high:
                    wanted = rows.slice(low, high - low)
                    yield from enumerate(self._objects(wanted), at + low)
                at += rows.num_rows
        except (pa.ArrowException, ValueError, KeyError) as error:
            # The last two: a time of a list or struct with more than six digits, a key twice.
            raise _no_parquet(file, error) from error

    def _objects(self, rows: pa.RecordBatch) -> Iterator[bytes]:
        names = rows.schema.names
        columns = [plain(_in_us(column)) for column in rows.columns]
        for row in zip(*columns, strict=True):
            yield self._encode(dict(zip(names, row, strict=True)))

    def _open(self, file: File) -> pq.ParquetFile:
        stream = io.BufferedReader(_Stored(self._read, file), buffer_size=BUFFER_BYTES)
        try:
            # With a buffer it reads page by page, and no whole column of a group at once.
            found = pq.ParquetFile(
                pa.PythonFile(stream, mode="r"),
                buffer_size=BUFFER_BYTES,
                coerce_int96_timestamp_unit="us",
            )
        except pa.ArrowException as error:
            raise _no_parquet(file, error) from error
        names = found.schema_arrow.names
        if len(set(names)) < len(names):
            raise _no_parquet(file, "it has two columns of one name")
        return found


def _in_us(values: pa.Array) -> pa.Array:
    """Times with the digits that JSON gets: six of a second."""
    if pa.types.is_timestamp(values.type) and values.type.unit != "us":
        return values.cast(pa.timestamp("us", values.type.tz), safe=False)
    return values


def _no_parquet(file: File, error: object) -> BadRow:
    return BadRow(f"files.path: {file.key} cannot be read as Parquet: {error}: replace it")


class _Stored(io.RawIOBase):
    """A file as libraries want it."""

    def __init__(self, read: Read, file: File) -> None:
        self._read, self._file, self._at = read, file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = max(0, min(len(buffer), self._file.size - self._at))
        if size:
            buffer[:size] = self._read(self._file, self._at, size)
        self._at += size
        return size


def _is_packed(file: File) -> bool:
    return file.key.endswith(".gz")


def of(name: str, read: Read) -> Format:
    """The format that the block names."""
    kinds: dict[str, Callable[[Read], Format]] = {
        "Json": Lines,
        "Text": Lines,
        "Csv": Csv,
        "Parquet": Parquet,
        "Raw": Raw,
    }
    return kinds[name](read)
