"""One log line is one JSON object."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from iggy_broker import logs


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.set_up("info", shard=3, stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_line_has_time_level_shard_and_the_fields_that_were_given(output: io.StringIO) -> None:
    logging.getLogger("iggy_broker.x").info("rolled\n%s", "ü", extra={"partition": "3/1/0"})

    (line,) = lines(output)
    assert line.pop("time", "").endswith("Z")  # type: ignore[attr-defined]
    assert line == {
        "level": "info",
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
    assert line["level"] == "error"


def test_what_is_below_the_level_is_not_written(output: io.StringIO) -> None:
    logging.getLogger("x").debug("quiet")
    logs.set_up("trace", shard=None, stream=output)
    logging.getLogger("x").log(logs.TRACE, "loud")

    (line,) = lines(output)
    assert (line["level"], line["message"]) == ("trace", "loud")
    assert "shard" not in line


def test_a_long_text_is_cut(output: io.StringIO) -> None:
    logging.getLogger("x").info("y" * 100_000)

    assert len(output.getvalue()) < 5000
