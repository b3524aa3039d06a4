"""Bytes of a file → its records, with the place of each: what a file holds once it is unpacked.
Pure; memory holds a chunk and the record that is being put together.
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from iggy_spark.errors import BadRow
from iggy_wire.kernel_types import PAYLOAD_BYTES_MAX

UNPACKED_BYTES: Final = 4 << 20  # of a compressed file, at a time
RECORD_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
BOM: Final = b"\xef\xbb\xbf"
_GZIP: Final = 31  # zlib: 15 bits of window, with the header of gzip

Record = tuple[int, bytes]
"""The place of its first byte in the file, and its bytes without the end of the line."""


def unpacked(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The content of a gzip file, which may have several members (RFC 1952, 2.2).

    Raises:
        BadRow: it is none, or ends too early.
    """
    file = _Gzip()
    try:
        for chunk in chunks:
            yield from file.feed(chunk)
        yield from file.rest()
    except zlib.error as error:
        raise BadRow(
            f"files.path: {name} is no gzip file: {error}: rename or replace it"
        ) from error
    except EOFError as error:
        raise BadRow(f"files.path: {name} ends within its compressed data: replace it") from error


class _Gzip:
    """What has been read of a gzip file."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._is_begun = False  # this member
        self._is_first = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data := self._to_read(data):
            self._is_begun = True
            yield self._member.decompress(data, UNPACKED_BYTES)
            data = self._member.unused_data or self._member.unconsumed_tail

    def _to_read(self, data: bytes) -> bytes:
        if self._member.eof:
            self._member = zlib.decompressobj(_GZIP)
            self._is_begun = self._is_first = False
        # Some fill the last block of a file with zeros.
        return data if self._is_first or self._is_begun else data.lstrip(b"\0")

    def rest(self) -> Iterator[bytes]:
        while self._is_begun and not self._member.eof:
            if not (found := self._member.decompress(b"", UNPACKED_BYTES)):
                raise EOFError
            yield found


def skipped(chunks: Iterable[bytes], count: int) -> Iterator[bytes]:
    """What is behind the first `count` bytes."""
    for chunk in chunks:
        if count < len(chunk):
            yield chunk[count:] if count else chunk
        count = max(0, count - len(chunk))


def lines(chunks: Iterable[bytes], at: int, name: str) -> Iterator[Record]:
    """Lines, also empty ones; `at` is the place of the first byte.

    Raises:
        BadRow: one is longer than a message may be.
    """
    rest = b""
    for chunk in chunks:
        first, *more = chunk.split(b"\n")
        rest += first
        for part in more:
            _check_length(rest, at, name)
            yield at, rest
            at += len(rest) + 1
            rest = part
        _check_length(rest, at, name)
    if rest:
        yield at, rest


def rows(found: Iterable[Record], name: str) -> Iterator[Record]:
    """Lines of a CSV file joined where a quoted value goes on over several (RFC 4180, 2.6)."""
    start, held = 0, b""
    is_open = False
    for at, line in found:
        start, held = (start, held + b"\n" + line) if is_open else (at, line)
        _check_length(held, start, name)
        if line.count(b'"') % 2:
            is_open = not is_open
        if not is_open:
            yield start, held
    if is_open:
        yield start, held  # whoever parses it says what is wrong


def _check_length(record: bytes, at: int, name: str) -> None:
    if len(record) > RECORD_BYTES_MAX:
        raise BadRow(
            f"files.path: {name} has a record at byte {at} of more than {RECORD_BYTES_MAX} bytes, "
            "which no message may have: split it, or leave the file out"
        )


def is_blank(record: bytes) -> bool:
    """Whether a record is no message: there is none without content."""
    return not record.strip(b" \t\r")


def values(record: bytes, at: int, name: str) -> list[str]:
    """The values of a CSV row.

    Raises:
        BadRow: it is no CSV in UTF-8.
    """
    if csv.field_size_limit() < RECORD_BYTES_MAX:
        csv.field_size_limit(RECORD_BYTES_MAX)
    try:
        text = record.removesuffix(b"\r").removeprefix(BOM if at == 0 else b"").decode()
        (found,) = csv.reader([text], strict=True)
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadRow(
            f"files.path: {name} has a row at byte {at} that is no CSV in UTF-8: {error}: quote "
            "values as RFC 4180 says"
        ) from error
    return found


def row_object(names: Sequence[str], found: Sequence[str], at: int, name: str) -> bytes:
    """A CSV row as JSON object of texts.

    Raises:
        BadRow: it has not as many values as the header has names.
    """
    if len(found) != len(names):
        raise BadRow(
            f"files.path: {name} has a row at byte {at} with {len(found)} values, and its header "
            f"has {len(names)} names: correct the file"
        )
    return msgspec.json.encode(dict(zip(names, found, strict=True)))
