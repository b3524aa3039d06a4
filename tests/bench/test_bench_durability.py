"""The measurement of durability levels, small."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from durability import LEVELS, Sample, one_round, table


def test_every_level_is_measured_beside_the_bare_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggy_bench.durable.LOOP_S", 0.02)
    monkeypatch.setattr("iggy_bench.durable.PRODUCED_S", 0.05)
    monkeypatch.setattr("iggy_bench.durable.FIRST_REQUESTS", 20)
    found: dict[str, list[Sample]] = defaultdict(list)

    one_round(tmp_path / "round", found)

    assert len(found) == 2 * len(LEVELS) + 2
    assert all(0 < one.p50_ms <= one.p99_ms for samples in found.values() for one in samples)
    lines = table(found).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "Strict", "Balanced", "Relaxed", "append, no broker", "append + fdatasync, no broker",
    ]  # fmt: skip
