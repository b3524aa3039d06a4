"""What goes into one request, and which of its messages the target did not want. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Run = tuple[int, int]  # rows of a portion, first included, end excluded


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a target does not take a request, or one message of it."""

    kind: str
    message: str
    by_size: bool = False  # smaller requests with the same messages may be taken


def runs(sizes: Sequence[int], *, bytes_max: int, rows_max: int) -> Iterator[Run]:
    """Cut messages of these sizes (bytes) into requests, in order.

    One that is larger than `bytes_max` goes alone: its target says whether that is too much.
    """
    first = total = 0
    for row, size in enumerate(sizes):
        if row > first and (total + size > bytes_max or row - first == rows_max):
            yield first, row
            first, total = row, 0
        total += size
    if first < len(sizes):
        yield first, len(sizes)


def search(
    run: Run, send: Callable[[Run], Refused | None], *, is_bad: Refused | None = None
) -> Iterator[tuple[int, Refused]]:
    """Send a run in order, in halves of halves where the target refuses: the rows it refuses alone.

    `send` returns None when everything was taken, and a reason when nothing was. Of n messages with
    one bad one at most log2(n) + 1 requests are refused, rounded up, and no message is taken twice.
    `is_bad`: that the run holds a bad message is known, so as a whole it is not sent.
    """
    first, end = run
    reason = is_bad if end - first > 1 else None
    if reason is None and (reason := send(run)) is None:
        return
    if end - first == 1:
        yield first, reason
        return
    middle = (first + end) // 2
    found = False
    for bad in search((first, middle), send):
        found = True
        yield bad
    known = None if found or reason.by_size else reason
    yield from search((middle, end), send, is_bad=known)
