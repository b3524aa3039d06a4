"""Lists of the files of a batch, for readers who want whole batches. Pure.

    <root>/_batches/<incarnation>-<done>.json    {"files": [path below the root, …],
                                                  "next": {partition: next offset, …}}

A list is written when all files of its batch are in place, and never changed. `next` says how far
the topic is carried when the batch is done, in every partition that was read so far; `done` is the
sum of that. So names sort in the order of batches, and a batch that is repeated has the same list
under the same name.

A start reads the newest list alone. Files that are in place beyond it are of a batch whose list is
missing: the driver was killed before, or lists were not wanted then. The next list has them too,
but for those behind a gap that is still to be filled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from iggy_spark.errors import SinkError
from iggy_spark.sinks.base import Written
from iggy_spark.sinks.file_names import FileName

FOLDER: Final = "_batches"
UNLISTED_MAX: Final = 200_000  # files in place that no list has, at a start


@dataclass(frozen=True, slots=True)
class BatchList:
    """One list: data files as paths below the root, and the next offset of each partition."""

    files: tuple[str, ...] = ()
    next: Mapping[int, int] = field(default_factory=dict)

    def name(self, incarnation: str) -> str:
        """Where it belongs, below the root."""
        return f"{beginning(incarnation)}{sum(self.next.values()):020d}.json"

    def encode(self) -> bytes:
        """The file: the same bytes for the same list."""
        then = {str(partition): at for partition, at in sorted(self.next.items())}
        return json.dumps({"files": sorted(self.files), "next": then}, indent=1).encode() + b"\n"

    @staticmethod
    def decode(data: bytes) -> BatchList:
        """Read what `encode` wrote. Raises ValueError: it is something else."""
        try:
            found = json.loads(data)
            then = {int(partition): int(at) for partition, at in found["next"].items()}
            return BatchList(tuple(found["files"]), then)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no list of a batch: {error}") from error


def beginning(incarnation: str) -> str:
    """How the names of all lists of one life of a topic begin."""
    return f"{FOLDER}/{incarnation}-"


class BatchLists:
    """The lists of one driver: what comes after the newest one."""

    def __init__(self, newest: BatchList | None) -> None:
        """`newest` is the list with the last name, if there is any."""
        self._next = dict(newest.next) if newest else {}
        self._waiting: dict[str, FileName] = {}

    def see(self, path: str, name: FileName) -> None:
        """A data file is in place. Those in the newest list, or an earlier one, are passed over.

        Raises:
            SinkError: too many are in no list.
        """
        if name.first < self._next.get(name.partition, 0):
            return
        if len(self._waiting) >= UNLISTED_MAX:
            raise SinkError(
                f"files.listBatches: more than {UNLISTED_MAX:,} files are there that no list has: "
                "leave it off, or give a new sink a path of its own"
            )
        self._waiting[path] = name

    def of(self, results: Sequence[Written]) -> BatchList | None:
        """The list of a batch that is in place; None if all of it is in lists already."""
        ends: dict[int, int] = {}
        for done in results:
            ends[done.partition] = max(done.end, ends.get(done.partition, 0))
        ready = self._ready(ends)
        then = dict(self._next)
        behind = [(name.partition, name.end) for name in ready.values()]
        for partition, end in [*ends.items(), *behind]:
            then[partition] = max(end, then.get(partition, 0))
        if then == self._next:
            return None
        return BatchList(tuple({*ready, *_files(results)}), then)

    def _ready(self, ends: Mapping[int, int]) -> dict[str, FileName]:
        """Files in place that can be listed with a batch that ends so in its partitions.

        What lies behind the batch, or behind a gap where the batch has nothing, is listed when the
        gap is filled: several tasks of a partition were killed, and `next` would pass over that.
        """
        ready: dict[str, FileName] = {}
        reached = dict(self._next)
        for path, name in sorted(self._waiting.items(), key=lambda item: item[1].first):
            at = reached.get(name.partition, name.first)
            if name.first < ends.get(name.partition, at + 1):
                ready[path] = name
                reached[name.partition] = max(at, name.end)
        return ready

    def written(self, batch: BatchList) -> None:
        """A list is in place: what follows is the next batch's."""
        self._next = dict(batch.next)
        for path in batch.files:
            self._waiting.pop(path, None)


def _files(results: Iterable[Written]) -> Iterable[str]:
    """Paths that tasks have told, see `FilesSink.write_task`."""
    return (path for done in results for path in done.details)
