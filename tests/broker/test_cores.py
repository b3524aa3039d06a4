"""The number of shards follows the container's limit, not the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iggy_broker.cores import usable_cores


@pytest.fixture(autouse=True)
def machine_with_eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.parametrize(
    ("limit", "cores"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("9900000 100000", 8),
        ("", 8),
        ("nonsense", 8),
        ("0 0", 8),
    ],
)
def test_the_limit_of_a_control_group(tmp_path: Path, limit: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(limit + "\n")

    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("300000", 3)])
def test_the_older_files(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")

    assert usable_cores(tmp_path) == cores


def test_without_control_groups_all_cores_count(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == 8
