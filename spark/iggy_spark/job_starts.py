"""Where a sink job begins in each partition, and who says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from iggy_spark.errors import DataLoss
from iggy_spark.job_config import JobConfig
from iggy_spark.offsets import EARLIEST, LATEST, Offsets, TopicState
from iggy_spark.sinks.base import Spans

SOURCES: Final = ("checkpoint", "target", "group", "settings")
_WORDS: Final = {EARLIEST: "earliest", LATEST: "latest"}


class Start(NamedTuple):
    """An offset, or EARLIEST or LATEST, and who says so: one of `SOURCES`."""

    position: int
    source: str

    @property
    def shown(self) -> int | str:
        """The position for a person."""
        return _WORDS.get(self.position, self.position)


def of_checkpoint(begun: Offsets, found: TopicState) -> dict[int, Start]:
    """Where Spark goes on. A partition that came later is read from its beginning."""
    return {number: Start(begun.positions.get(number, 0), "checkpoint") for number in found.ends}


def find(
    config: JobConfig,
    found: TopicState,
    covered: Mapping[int, Spans],
    *,
    letters: bool,
    keeps_place: bool,
    stored: Callable[[int], int | None],
) -> dict[int, Start]:
    """A lost checkpoint goes on where the target stands, or, for a target that keeps nothing, where
    the mirror does; only then comes the declared start.

    `covered` is what the target holds, `stored` the last offset that the group is done with.

    Raises:
        DataLoss: the target holds messages that the broker no longer counts.
    """
    earliest = config.sink.starting_offsets == "Earliest" or letters
    mirrored = not letters and (not keeps_place or not earliest)
    starts = {}
    for number, end in found.ends.items():
        spans = covered.get(number)
        if spans:
            _check_tail(config, number, held=spans[-1][1], end=end)
            starts[number] = Start(spans[0][1], "target")
            continue
        last = stored(number) if mirrored else None
        if last is not None:
            starts[number] = Start(last + 1, "group")
        else:
            starts[number] = Start(EARLIEST if earliest else LATEST, "settings")
    return starts


def _check_tail(config: JobConfig, number: int, *, held: int, end: int) -> None:
    if held > end and config.sink.fail_on_data_loss:
        raise DataLoss(
            f"partition {number}: the target holds offsets up to {held - 1}, but the partition "
            f"ends at {end}: was the topic purged, or did the broker lose its tail? New "
            "messages get old offsets and would be taken for written ones"
        )
