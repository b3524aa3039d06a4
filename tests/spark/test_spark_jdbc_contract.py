"""What every sink promises, by rows in PostgreSQL; and portions that are gone through again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from iggy_spark.retry import Policy
from iggy_spark.sinks.base import Sink
from iggy_spark.sinks.replay import replaying
from jdbc_cases import Scene
from postgres import Postgres
from sink_cases import NEXT_LIFE, portions, wanted
from sink_contract import REFUSED, Row, SinkContract, Target, batch, every


@dataclass
class TableTarget:
    """A table of its own; `block` goes on top of the sink's settings."""

    scene: Scene
    block: dict[str, Any] = field(default_factory=dict)

    def sink(self) -> Sink:
        return self.scene.sink(policy=Policy(0.2, 0.01, 0.05), **self.block)

    def rows(self) -> list[Row]:
        if self.scene.run(f"select to_regclass('{self.scene.table}')") == [(None,)]:
            return []
        query = f"select iggy_partition_id, iggy_offset from {self.scene.table} order by 1, 2"
        return [(partition, offset) for partition, offset in self.scene.run(query)]

    def refusing(self) -> TableTarget:
        made = TableTarget(Scene(self.scene.server), self.block)
        sink = made.sink()
        sink.check()
        sink.prepare("none")
        made.scene.run(f"alter table {made.scene.table} add check (iggy_offset <> {REFUSED})")
        return made

    def away(self) -> TableTarget:
        return TableTarget(self.scene, {**self.block, "url": "jdbc:postgresql://127.0.0.1:9/shop"})


class TestAppend(SinkContract):
    @pytest.fixture
    def target(self, postgres: Postgres) -> TableTarget:
        return TableTarget(Scene(postgres))


class TestUpsert(SinkContract):
    @pytest.fixture
    def target(self, postgres: Postgres) -> TableTarget:
        # Keys that tell messages apart, so that there are as many rows as with Append.
        keys = ["iggy_partition_id", "iggy_offset", "number"]
        return TableTarget(Scene(postgres), {"mode": "Upsert", "keyColumns": keys})

    def test_another_life_of_the_topic_has_messages_of_its_own(self, target: Target) -> None:
        """They have the same keys here, and so they replace what is there."""
        batch(target, wanted(0, 4))

        results = batch(target, wanted(0, 4, incarnation=NEXT_LIFE))

        assert results[0].rows == 4
        assert target.rows() == every(0, 0, 4)


def test_portions_come_again_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iggy_spark.sinks.replay.MEMORY_BYTES_MAX", 2000)  # most go to the disk
    given = list(portions(wanted(0, 30), bad=(7,)))

    with replaying(iter(given)) as replay:
        first = replay.__iter__()
        begun = [next(first).rows for _ in range(4)]
        whole = list(replay)
        again = list(replay)

    assert begun == [portion.rows for portion in given[:4]]
    for found in (whole, again):
        assert [portion.rows for portion in found] == [portion.rows for portion in given]
        assert [p.refusals for p in found] == [p.refusals for p in given]
        assert [p.messages.ids for p in found] == [p.messages.ids for p in given]
