"""Portions that can be gone through again, for targets that undo everything when they fail."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Final

from iggy_spark.sinks.base import Portion

MEMORY_BYTES_MAX: Final = 32 << 20  # of one range; what is beyond goes to the temporary folder


class Replay:
    """The portions of a range, as often as somebody wants them.

    They come from the broker once. A transaction that is lost halfway needs those that are past
    again: they wait here, in a file without a name that goes with the process.
    """

    def __init__(self, portions: Iterable[Portion], file: IO[bytes]) -> None:
        """Takes the portions one by one, when they are asked for. `file` is empty."""
        self._more = iter(portions)
        self._kept = file
        self._end = 0

    def __iter__(self) -> Iterator[Portion]:
        """From the first one on."""
        at = 0
        while at < self._end:
            self._kept.seek(at)
            portion: Portion = pickle.load(self._kept)  # our own, of this task
            at = self._kept.tell()
            yield portion
        for portion in self._more:
            self._kept.seek(self._end)
            pickle.dump(portion, self._kept, protocol=pickle.HIGHEST_PROTOCOL)
            self._end = self._kept.tell()
            yield portion


@contextmanager
def replaying(portions: Iterable[Portion]) -> Iterator[Replay]:
    """Portions to go through again, in a block."""
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES_MAX, prefix="iggy-sink-") as file:
        yield Replay(portions, file)
