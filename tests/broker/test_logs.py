"""One log line is one JSON object, whatever it is about."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iggy_broker import logs
from iggy_broker.logs import LINES_MAX, WINDOW_S, Note, event

STABLE = ["ts", "level", "event", "shard", "logger", "message"]


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.set_up("info", shard=3, stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    logs.LIMITER.take_suppressed(0.0)


def lines(output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_line_has_the_stable_fields_first_and_those_that_were_given(output: io.StringIO) -> None:
    told = event("ready", partition="3/1/0", nothing=None)
    logging.getLogger("iggy_broker.x").info("rolled\n%s", "ü", extra=told)

    (line,) = lines(output)
    assert list(line) == [*STABLE, "partition"]
    assert str(line.pop("ts")).endswith("Z")
    assert line == {
        "level": "info",
        "event": "ready",
        "shard": 3,
        "logger": "iggy_broker.x",
        "message": "rolled\nü",
        "partition": "3/1/0",
    }


def test_an_exception_is_one_line_too(output: io.StringIO) -> None:
    try:
        raise OSError(28, "No space left")
    except OSError:
        logging.getLogger("x").exception("failed")

    (line,) = lines(output)
    assert "No space left" in str(line["error"])
    assert (line["level"], line["event"]) == ("error", "library")


def test_what_is_below_the_level_is_not_written(output: io.StringIO) -> None:
    logging.getLogger("x").debug("quiet")
    logs.set_up("trace", shard=None, stream=output)
    logging.getLogger("x").log(logs.TRACE, "loud")

    (line,) = lines(output)
    assert (line["level"], line["message"]) == ("trace", "loud")
    assert line["shard"] is None


def test_long_texts_are_cut(output: io.StringIO) -> None:
    logging.getLogger("x").info("y" * 100_000, extra=event("ready", folder="z" * 100_000))

    (line,) = lines(output)
    assert len(str(line["message"])) == len(str(line["folder"])) == logs.TEXT_CHARACTERS_MAX


@pytest.mark.parametrize("mark", ["\n", "\r", "\x0b", "\x1c", "\x7f", "\x85", "\u2028", "\u2029"])
def test_no_character_breaks_a_line(output: io.StringIO, mark: str) -> None:
    logging.getLogger("x").info("one%stwo", mark, extra=event("ready", folder=mark * 2))

    (line,) = lines(output)
    assert line["message"] == f"one{mark}two"
    assert line["folder"] == mark * 2


def test_a_line_that_cannot_be_made_is_told_in_one() -> None:
    code = "from iggy_broker import logs; import logging; logs.set_up('info')"
    code += "; logging.getLogger('x').info('two %s %s', 'values')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    line = json.loads(ended.stderr)
    assert (line["event"], line["level"]) == ("crashed", "critical")
    assert "two %s %s" in line["message"]
    assert "TypeError" in line["error"]


def test_a_stream_that_takes_nothing_changes_nothing() -> None:
    code = "from iggy_broker import logs; import logging; logs.set_up('info')"
    code += "; logging.getLogger('x').info('lost'); print('went on')"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True
        )

    assert ended.stdout == "went on\n"


def test_a_note_keeps_its_event_and_fields(output: io.StringIO) -> None:
    logs.warn(Note("tail_cut", "5 % of it was cut", offset=7, kept_path="cut/1"))
    logs.warn("a plain text")

    noted, plain = lines(output)
    assert (noted["event"], noted["offset"], noted["kept_path"]) == ("tail_cut", 7, "cut/1")
    assert noted["message"] == "! 5 % of it was cut"
    assert (plain["event"], plain["level"]) == ("storage", "warning")


def record(name: str, created_s: float) -> logging.LogRecord:
    made = logging.makeLogRecord({"event": name, "msg": "x"})
    made.created = created_s
    return made


def test_limited_events_are_counted_beyond_their_limit_and_told_when_the_window_is_over() -> None:
    limiter = logs.Limiter()
    written = [limiter.filter(record("login_refused", 100 + number / 100)) for number in range(50)]
    assert written == [True] * LINES_MAX + [False] * (50 - LINES_MAX)
    assert limiter.suppressed_total == 50 - LINES_MAX
    assert limiter.filter(record("evicted", 100.5)), "each event has its own limit"
    assert all(limiter.filter(record("tail_cut", 100.5)) for _ in range(1000)), "not limited"

    assert limiter.take_suppressed(100 + WINDOW_S - 1) == {}
    assert limiter.take_suppressed(100 + WINDOW_S) == {"login_refused": 50 - LINES_MAX}
    assert limiter.take_suppressed(200) == {}
    assert limiter.filter(record("login_refused", 201))


def test_the_next_line_says_how_many_were_left_out() -> None:
    limiter = logs.Limiter()
    for _ in range(LINES_MAX + 3):
        limiter.filter(record("login_refused", 100))

    late = record("login_refused", 100 + WINDOW_S)
    assert limiter.filter(late)
    assert vars(late)["suppressed"] == 3
    assert limiter.filter(record("login_refused", 50)), "a clock that was set back limits nothing"


def test_suppressed_lines_are_told_in_a_line(output: io.StringIO) -> None:
    for _ in range(LINES_MAX + 2):
        logs.warn(Note("sends_refused", "no space"))
    counts = logs.LIMITER.take_suppressed(1e12)
    assert counts == {"sends_refused": 2}
    assert len(lines(output)) == LINES_MAX

    logs.tell_suppressed()

    assert len(lines(output)) == LINES_MAX, "nothing is told twice"


PROGRAM = """
import threading, warnings
from iggy_broker import logs
logs.set_up("info")
logs.catch_all()
warnings.warn("old\\nways")
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()
class Odd:
    def __del__(self):
        raise ValueError("in\\nvain")
Odd()
raise RuntimeError("two\\nlines")
"""


def test_what_python_would_print_is_logged() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)

    assert ended.returncode == 1
    found = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(one["event"], one["level"]) for one in found] == [
        ("python_warning", "warning"), *[("crashed", "critical")] * 3
    ]  # fmt: skip
    assert "old\nways" in found[0]["message"]
    assert "ZeroDivisionError" in found[1]["error"]
    assert "worker" in found[1]["message"]
    assert "ValueError" in found[2]["error"]
    assert "RuntimeError: two\nlines" in found[3]["error"]
