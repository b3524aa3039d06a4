"""The console sink: how many rows it shows, and what of the sinks' promises it keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from iggy_spark import blocks
from iggy_spark.errors import SinkError
from iggy_spark.sinks import console
from iggy_spark.sinks.console import ConsoleSink
from sink_cases import wanted
from sink_contract import Row, SinkContract, Target, batch, every


@dataclass
class Shown:
    """The lines of a console. `shown`: rows of a batch."""

    shown: int = 20
    lines: list[str] = field(default_factory=list)

    def sink(self) -> ConsoleSink:
        return ConsoleSink(self.lines.append, blocks.Console(rows=self.shown))

    def rows(self) -> list[Row]:
        found = [json.loads(line) for line in self.lines]
        return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in found)

    def refusing(self) -> str:
        return "a console shows every row"

    def away(self) -> str:
        return "a console is the job's own output"


class TestConsole(SinkContract):
    @pytest.fixture
    def target(self) -> Target:
        return Shown()


@pytest.mark.parametrize(
    ("shown", "lines"),
    [
        (4, every(0, 0, 4)),
        (7, every(0, 0, 5) + every(1, 0, 2)),
        (0, every(0, 0, 5) + every(1, 0, 5)),
    ],
)
def test_the_first_rows_of_a_batch_are_shown_or_all(shown: int, lines: list[Row]) -> None:
    target = Shown(shown)

    for first in (0, 5):
        results = batch(target, wanted(first, first + 5), wanted(0, 5, 1))
        assert [written.rows for written in results] == [5, 5]  # also those that are not shown

    second = [(number, at if number else at + 5) for number, at in lines]
    assert target.rows() == sorted(lines + second)


def test_a_row_that_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "LINE_CHARACTERS_MAX", 30)
    target = Shown()

    batch(target, wanted(0, 2))

    assert [len(line) for line in target.lines] == [30, 30]


def test_more_text_than_the_driver_should_hold_stops_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(console, "TEXT_CHARACTERS_MAX", 1000)
    batch(Shown(5), wanted(0, 100))

    with pytest.raises(SinkError, match=r"console\.rows: .* more than 1000 characters: show fewer"):
        batch(Shown(0), wanted(0, 100))
