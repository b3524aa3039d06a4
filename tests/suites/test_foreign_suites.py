"""How results of other people's suites are judged, shown and recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from foreign_suites import cli_suite, places, rust_suite, table
from foreign_suites.main import main
from foreign_suites.python_suite import _read
from foreign_suites.results import Judged, Outcome, Result, judge, known_failures

SUITES = Path(__file__).parent
GOOD = Result("a", Outcome.PASSED)
BAD = Result("b", Outcome.FAILED, "it hurts")
SKIPPED = Result("c", Outcome.SKIPPED, "no such thing")


def judged(*results: Result, known: tuple[str, ...] = (), is_whole: bool = True) -> Judged:
    return judge("s", results, dict.fromkeys(known, "that is how it is"), is_whole=is_whole)


@pytest.mark.parametrize(
    ("case", "is_good"),
    [
        (judged(GOOD, SKIPPED), True),
        (judged(GOOD, BAD, known=("b",)), True),
        (judged(GOOD, BAD), False),  # an unexpected failure
        (judged(GOOD, BAD, known=("a", "b")), False),  # an unexpected pass
        (judged(GOOD, known=("gone",)), False),  # a stale entry
        (judged(GOOD, known=("gone",), is_whole=False), True),
        (judged(), False),  # nothing ran
    ],
)
def test_only_what_the_list_says_is_good(case: Judged, is_good: bool) -> None:
    assert case.is_good is is_good


def test_every_failure_is_shown_with_its_reason() -> None:
    known = judged(GOOD, BAD, SKIPPED, known=("b",))
    unknown = judged(GOOD, BAD, known=("a", "gone"))

    text = "\n".join(table.lines([known, unknown], {"rust": "cargo is not here"}))

    assert "s: known to fail, that is how it is (1):\n  b\n" in text
    assert "s: FAILED, it hurts (1):\n  b\n" in text
    assert "PASSED, take it out of known_failures.toml: a" in text
    assert "DID NOT RUN, is in known_failures.toml: gone" in text
    rows = [line.split() for line in text.splitlines()[-4:]]
    assert rows[1] == ["s", "1", "1", "1", "as", "known"]
    assert rows[2] == ["s", "1", "1", "0", "NOT", "as", "known"]
    assert rows[3][-4:] == ["cargo", "is", "not", "here"]


def test_steps_of_a_program_are_read_from_what_it_prints() -> None:
    text = "noise\npassed login\nfailed poll: first: [], not one\n"

    whole = list(rust_suite.read(text, "its process ended with 0"))
    cut = list(rust_suite.read(text, "its process ended with 101"))

    assert whole == [
        Result("login", Outcome.PASSED),
        Result("poll", Outcome.FAILED, "first: [], not one"),
    ]
    assert cut[2:] == [Result("the whole program", Outcome.FAILED, "its process ended with 101")]


@pytest.mark.parametrize(
    ("step", "code", "text", "problem"),
    [
        (cli_suite.Step("s", "x", ("yes",)), 0, "oh yes", ""),
        (cli_suite.Step("s", "x", ("yes",)), 0, "oh\nno", "'yes' is not in: oh no"),
        (cli_suite.Step("s", "x"), 1, "error", "exit code 1: error"),
        (cli_suite.Step("s", "x", says_not=("no",)), 0, "oh\nno", "'no' is in: oh no"),
        (cli_suite.Step("s", "x", is_refused=None), 1, "no", ""),
        (cli_suite.Step("s", "x", is_refused=True), 1, "no", ""),
        (cli_suite.Step("s", "x", is_refused=True), 0, "done", "exit code 0: done"),
    ],
)
def test_a_command_is_judged_by_exit_code_and_text(
    step: cli_suite.Step, code: int, text: str, problem: str
) -> None:
    assert cli_suite.problem(step, code, text) == problem


def test_steps_have_different_names() -> None:
    names = [step.name for step in cli_suite.STEPS]

    assert len(set(names)) == len(names)


def test_the_list_is_read_by_suite(tmp_path: Path) -> None:
    text = "\n[[group]]\nsuite = '{0}'\nreason = 'needs {0}'\ntests = ['{0} 1', '{0} 2']"
    (tmp_path / "known.toml").write_text(text.format("one") + text.format("other"))

    known = known_failures(tmp_path / "known.toml", "one")

    assert known == {"one 1": "needs one", "one 2": "needs one"}


def test_no_test_of_the_official_python_client_is_known_to_fail() -> None:
    assert known_failures(SUITES / "known_failures.toml", "python") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[group]]\nsuite = 's'\ntests = ['a']", "write suite, reason and tests"),
        ("[[group]]\nsuite = 's'\nreason = ''\ntests = ['a']", "write suite, reason and tests"),
        ("[[group]]\nsuite = 's'\nreason = 'r'\ntests = ['a', 'a']", "a is in another group"),
    ],
)
def test_a_list_that_hides_something_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "known.toml").write_text(text)

    with pytest.raises(ValueError, match=message):
        known_failures(tmp_path / "known.toml", "s")


def test_two_runs_do_not_share_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with places.alone():
        assert main(["python"]) == 2

    assert "another run is under way" in capsys.readouterr().err


def test_an_unknown_suite_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["ruby"])

    assert caught.value.code == 2
    assert "ruby" in capsys.readouterr().err


def test_outcomes_are_recorded_until_the_process_dies(tmp_path: Path) -> None:
    (tmp_path / "test_of_others.py").write_text(
        textwrap.dedent(
            """
            import os, time, pytest
            def test_good(): pass
            def test_bad(): assert 1 == 2
            @pytest.mark.skip(reason="not today")
            def test_skipped(): pass
            @pytest.fixture
            def broken(): yield; raise OSError("in teardown")
            def test_broken(broken): pass
            def test_dies(): os._exit(9)
            def test_after(): pass
            """
        )
    )
    (tmp_path / "known.json").write_text("[]")
    results = tmp_path / "results.jsonl"
    recording = {
        "PYTHONPATH": str(SUITES),
        "SUITE_RESULTS": str(results),
        "SUITE_KNOWN": str(tmp_path / "known.json"),
    }

    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "suite_recorder", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | recording,
        capture_output=True,
        check=False,
    ).returncode

    assert code == 9
    found = {one.test.partition("::")[2]: one for one in _read(results, "it ended")}
    assert {name: one.outcome.value for name, one in found.items()} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_skipped": "skipped",
        "test_broken": "failed",
        "test_dies": "failed",
        "test_after": "failed",
    }
    assert "assert 1 == 2" in found["test_bad"].detail
    assert "in teardown" in found["test_broken"].detail
    assert found["test_dies"].detail == found["test_after"].detail == "no outcome: it ended"
    assert len(json.loads(results.read_text().splitlines()[0])["collected"]) == 6
