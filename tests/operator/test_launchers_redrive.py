"""A request to write dead letters again reaches the job, by a restart, and nobody else's."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iggy_operator import objects
from iggy_operator.launchers import job
from iggy_operator.launchers.redrive import WORDS_MAX
from iggy_spark import job_config
from launcher_cases import job_of, sink_of
from page_samples import ROOT

PAGE = (ROOT / "docs" / "dead-letters.md").read_text()
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


def test_choices_follow_in_the_words_of_the_command() -> None:
    text = (
        "2026-11-28T12:00:00Z --error-class SchemaMismatch --error-class=Full --stage decode "
        "--from 2026-11-28T09:00:00Z --to 2026-11-28T10:30:00+02:00"
    )
    asked = replace(job_of(sink_of(errors=DEAD)), redrive=text)

    assert list(job.problems(asked)) == ["annotation redrive: --from: must be before --to"]
    asked = replace(asked, redrive=text.replace("+02:00", "Z"))
    config = job_config.parse(msgspec.json.encode(job.job_file(asked)), name="the job's file")

    assert list(job.problems(asked)) == []
    assert config.redrive is not None
    assert config.redrive.error_classes == ("SchemaMismatch", "Full")
    assert config.redrive.stages == ("decode",)
    times = job_config.redrive_times(config.redrive)
    assert (times.stop - times.start) == 90 * 60 * 1_000_000


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ("--dry-run", "--dry-run is no choice"),
        ("--stage write-it", "--stage: 'write-it' is none: there are decode, transform, write"),
        ("--stage", "--stage: '' is none"),
        ("--error-class", "--error-class: must have 1 to 255 characters"),
        ("--from yesterday", "--from: 'yesterday' is no time with a zone, such as 2026-05-01T"),
        ("--to 2026-11-28T12:00:00", "--to: '2026-11-28T12:00:00' is no time with a zone"),
        ("--error-class x " * (WORDS_MAX + 1), f"at most {WORDS_MAX}"),
    ],
)
def test_a_choice_that_is_none_is_told(choice: str, told: str) -> None:
    (text,) = job.problems(replace(job_of(sink_of(errors=DEAD)), redrive=f"now {choice}"))

    assert text.startswith("annotation redrive: ")
    assert told in text


def test_the_commands_of_the_page_ask_for_what_it_says(tmp_path: Path) -> None:
    """A shell runs them, with a kubectl that tells its arguments."""
    stub = tmp_path / "kubectl"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    asked = []
    for text in re.findall(r"^```sh\n(kubectl annotate .*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        done = subprocess.run(["sh", "-ec", text], env=environ, capture_output=True, check=True)
        words = done.stdout.decode().splitlines()
        assert words[:3] == ["annotate", "igk", "orders.lake"]
        (given,) = (word.split("=", 1) for word in words if "=" in word)
        value = {"metadata": {"annotations": dict([given])}}
        asked.append(
            replace(job_of(sink_of(errors=DEAD)), redrive=objects.annotation(value, "redrive"))
        )

    plain, chosen = (job.job_file(one)["redrive"] for one in asked)

    assert [list(job.problems(one)) for one in asked] == [[], []]
    assert list(plain) == ["request"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", plain["request"])
    assert chosen == {
        "request": chosen["request"],
        "errorClasses": ["SchemaMismatch"],
        "from": "2026-11-28T09:00:00Z",
        "to": "2026-11-28T10:30:00Z",
    }


def test_the_job_takes_the_block_of_the_page() -> None:
    (text,) = re.findall(r"^```json\n(\"redrive\": .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    file = {**job.job_file(job_of(sink_of(errors=DEAD))), **json.loads(f"{{{text}}}")}

    config = job_config.parse(msgspec.json.encode(file), name="the job's file")

    assert config.redrive is not None
    assert (config.redrive.error_classes, config.redrive.stages) == (
        ("SchemaMismatch",),
        ("decode",),
    )
    assert job_config.redrive_times(config.redrive).start == 1_795_856_400_000_000
