"""Input for `produce`: bytes cut into records, as they come. Holds one chunk and one record."""

import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from iggy_wire.kernel_types import PAYLOAD_BYTES_MAX
from iggykube.errors import CommandError
from iggykube.signals import Requests, drain

READ_BYTES: Final = 256 << 10
RECORD_BYTES_MAX: Final = PAYLOAD_BYTES_MAX
STDIN: Final = Path("-")

DueIn: TypeAlias = Callable[[], float | None]
"""Seconds until somebody has other things to do than wait for input; None if nobody has."""


class InputProblem(CommandError):
    """The input holds what no message can be made of."""


class Splitter:
    """Cuts chunks into records. What comes behind the last separator is a record, too."""

    def __init__(self, separator: bytes) -> None:
        """`separator` is one byte and belongs to no record."""
        self._separator = separator
        self._pieces: list[bytes] = []  # of the record that has no end yet
        self._pieces_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The records that end in this chunk. Raises InputProblem for one that is too long."""
        *ended, rest = chunk.split(self._separator)
        if ended:
            ended[0] = self.finish() + ended[0]
        self._pieces.append(rest)
        self._pieces_bytes += len(rest)
        if self._pieces_bytes > RECORD_BYTES_MAX or any(
            len(record) > RECORD_BYTES_MAX for record in ended[:1]
        ):
            raise InputProblem(f"a message has at most {RECORD_BYTES_MAX} bytes, one has more")
        return ended

    def finish(self) -> bytes:
        """The record that has no end yet; empty if there is none."""
        record = b"".join(self._pieces)
        self._pieces, self._pieces_bytes = [], 0
        return record


class Source:
    """Files, or standard input, read as they come. Ends when the user asks to stop."""

    def __init__(self, paths: Sequence[Path], requests: Requests) -> None:
        """`-` stands for standard input, as does no path at all."""
        self._paths = paths or (STDIN,)
        self._requests = requests

    def records(self, separator: bytes, due_in_s: DueIn) -> Iterator[list[bytes]]:
        """Records as they come; an empty list when `due_in_s` has run out before there was one.

        Raises InputProblem for a record that is too long or a file that cannot be read.
        """
        for path in self._paths:
            splitter = Splitter(separator)
            for chunk in self._chunks(path, due_in_s):
                yield splitter.feed(chunk) if chunk else []
            if self._requests.stop():
                return  # half a line is no message
            if last := splitter.finish():
                yield [last]

    def files(self) -> Iterator[bytes]:
        """Each file as one record. Raises InputProblem."""
        for path in self._paths:
            if self._requests.stop():
                return
            yield read_whole(path)

    def _chunks(self, path: Path, due_in_s: DueIn) -> Iterator[bytes]:
        """Bytes; empty ones where time has run out."""
        if path == STDIN and sys.stdin is None:
            return  # it was closed before we began, and its number may be another file's by now
        try:
            descriptor = 0 if path == STDIN else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputProblem(f"{path}: {error.strerror}") from error
        try:
            while not self._requests.stop():
                if not self._wait(descriptor, due_in_s()):
                    yield b""
                elif chunk := _read(path, descriptor):
                    yield chunk
                else:
                    return
        finally:
            if path != STDIN:
                os.close(descriptor)

    def _wait(self, descriptor: int, timeout_s: float | None) -> bool:
        """Whether there is something to read, or the end."""
        watched = (descriptor, self._requests.descriptor)
        ready = select.select(watched, (), (), timeout_s)[0]
        if self._requests.descriptor in ready:
            drain(self._requests)
        return descriptor in ready


def _read(path: Path, descriptor: int) -> bytes:
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError as error:
        raise InputProblem(f"{path}: {error.strerror}") from error


def read_whole(path: Path) -> bytes:
    """A file as one record. Raises InputProblem if it is empty, too large or cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(RECORD_BYTES_MAX + 1)
    except OSError as error:
        raise InputProblem(f"{path}: {error.strerror}") from error
    if not 1 <= len(data) <= RECORD_BYTES_MAX:
        wrong = "more" if data else "none"
        raise InputProblem(f"{path}: a message has 1 to {RECORD_BYTES_MAX} bytes, this has {wrong}")
    return data
