"""A request to write dead letters again reaches the job, by a restart, and nobody else's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iggy_operator.launchers import job
from iggy_spark import job_config
from launcher_cases import job_of, sink_of

DEAD: dict[str, Any] = {"tolerance": "Data", "deadLetter": {"topic": "orders.dead"}}


def test_a_request_is_in_the_jobs_file_and_makes_it_another(tmp_path: Path) -> None:
    before = job_of(sink_of(errors=DEAD))
    after = replace(before, redrive="2026-11-28T12:00:00Z")

    config = job_config.parse(msgspec.json.encode(job.job_file(after)), name="the job's file")

    assert config.redrive is not None
    assert config.redrive.request == "2026-11-28T12:00:00Z"
    assert "redrive" not in job.job_file(before)
    assert job.asked(before, "Native") != job.asked(after, "Native")


def test_a_sink_without_dead_letters_has_nothing_to_write_again() -> None:
    assert "redrive" not in job.job_file(replace(job_of(sink_of()), redrive="now"))


@pytest.mark.parametrize("length", [1, 5000])
def test_any_text_is_a_request(length: int) -> None:
    asked = replace(job_of(sink_of(errors=DEAD)), redrive="x" * length)

    config = job_config.parse(msgspec.json.encode(job.job_file(asked)), name="the job's file")

    assert config.redrive is not None
