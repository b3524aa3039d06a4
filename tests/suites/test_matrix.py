"""The matrix of clients: how cells are run, judged, kept and shown."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from foreign_suites.matrix import page, results
from foreign_suites.matrix.clients import CLIENTS, NOT_SERVED, ORDER
from foreign_suites.matrix.job import Lack, Read, Transport, read_of, seen
from foreign_suites.matrix.programs import Command
from foreign_suites.matrix.results import Cell
from foreign_suites.matrix.run import broker, round_trip
from foreign_suites.places import SUITES

PYTHON = Command([sys.executable, str(SUITES / "clients" / "python" / "round_trip.py")], os.environ)
WHOLE = Cell("2026-01-01", "", frozenset())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker(tmp_path_factory.mktemp("matrix"), is_tls=False) as one:
        yield one


def test_the_installed_client_goes_round(running: BrokerProcess, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"

    assert round_trip(PYTHON, running, Transport.TCP, log) == ("", frozenset()), log.read_text()


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("raise SystemExit('no such luck')", "no such luck"),
        ("raise SystemExit(7)", "exit code 7"),
        ("pass", "it said nothing"),
        (
            'print(\'{"read": {}, "stored": {}, "lacks": []}\', flush=True); input()',
            "the topic is not there",
        ),
    ],
)
def test_a_program_that_does_less_is_found_out(
    running: BrokerProcess, tmp_path: Path, program: str, problem: str
) -> None:
    command = Command([sys.executable, "-c", program], {})

    assert round_trip(command, running, Transport.TCP, tmp_path / "log.txt")[0] == problem


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("range(PER_KEY)]", "reversed(range(PER_KEY))]", "out of order"),
        ("message.payload())", "message.payload()[1:])", "it read"),
        ("store_offset(one.last,", "store_offset(one.last - 1,", "the stored offsets are"),
        ("    await client.delete_stream(STREAM)", "    pass", "after it was deleted"),
    ],
    ids=["backwards", "other bytes", "another offset", "no delete"],
)
def test_a_client_that_errs_is_found_out(
    running: BrokerProcess, tmp_path: Path, before: str, after: str, problem: str
) -> None:
    text = Path(PYTHON.words[1]).read_text()
    assert before in text
    program = tmp_path / "program.py"
    program.write_text(text.replace(before, after))
    command = Command([sys.executable, str(program)], os.environ)

    found, _ = round_trip(command, running, Transport.TCP, tmp_path / "log.txt")

    assert problem in found


def test_figures_are_those_of_fnv() -> None:
    assert read_of([(5, b"foo"), (6, b"bar")]) == Read(2, 5, 6, 0x85944171F73967E8)
    assert read_of([]) == Read(0, -1, -1, 0xCBF29CE484222325)


def test_a_line_is_read() -> None:
    one = {"count": 1, "first": 0, "last": 0, "digest": 7}
    found = seen(json.dumps({"read": {"3": one}, "stored": {"3": 0}, "lacks": ["keys"]}))

    assert found.read == {3: Read(1, 0, 0, 7)}
    assert found.stored == {3: 0}
    assert found.lacks == {Lack.KEYS}


def test_the_record_is_kept_in_the_order_of_the_clients(tmp_path: Path) -> None:
    cells = {"b": WHOLE, "a": Cell("2026-01-02", "it hurts", frozenset({Lack.KEYS})), "gone": WHOLE}

    results.write(tmp_path / "record.json", cells, ("a", "b", "c"))

    assert list(results.read(tmp_path / "record.json").items()) == [
        ("a", cells["a"]),
        ("b", cells["b"]),
    ]


def test_the_table_says_what_is_not_and_why() -> None:
    name = CLIENTS[0].cell(Transport.TCP)
    cells = dict.fromkeys(ORDER, WHOLE) | {name: Cell("2026-01-02", "it hurts", frozenset())}

    text = page.table(cells)

    assert "| **no** (1) |" in text.splitlines()[2]
    assert "1. it says: it hurts" in text
    assert all(title in text and reason in text for title, reason in NOT_SERVED.items())
    assert "not run |" not in text
    assert "| not run |" in page.table({})


def test_names_of_cells_differ() -> None:
    assert len(set(ORDER)) == len(ORDER)
