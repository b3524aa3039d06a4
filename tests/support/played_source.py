"""A source whose answers a test decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iggy_spark.errors import SinkError
from iggy_spark.sources.base import Position


class PlayedSource:
    """Remembers what it was told. It is away as long as `is_away` says so."""

    def __init__(self) -> None:
        self.is_away = False
        self.waiting: int | None = 0
        self.told: list[Position] = []

    def _answer(self) -> None:
        if self.is_away:
            raise SinkError("played: does not answer")

    def check(self) -> None:
        self._answer()

    def first(self) -> Position:
        self._answer()
        return {"n": 0}

    def latest(self, start: Position, messages_max: int) -> Position:
        self._answer()
        return start

    def split(self, start: Position, end: Position) -> Sequence[Mapping[str, Any]]:
        return []

    def read(
        self, start: Position, end: Position, part: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        return iter(())

    def done(self, end: Position) -> None:
        self._answer()
        self.told.append(end)

    def behind(self, at: Position) -> int | None:
        self._answer()
        return self.waiting

    def close(self) -> None:
        pass
