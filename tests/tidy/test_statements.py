"""`docs/semantics.md`: every statement has a row, and every test that a row names exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "semantics.md"
TESTS = ROOT / "tests"
ROW = re.compile(r"^\| ([A-Z]+\d?-\d\d) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")

# The last number of each kind of statement; they count from 01 without gaps.
LAST = {
    "K": 10, "R": 13, "S": 23, "STR": 16, "TOP": 22, "PAR": 10, "SEG": 10, "SND": 24, "POL": 31,
    "OFF": 14, "GRP": 28, "USR": 15, "PAT": 12, "CLI": 7, "PER": 17, "RET": 10, "PUR": 9, "CON": 6,
    "SNP": 4, "SDK": 13, "CMD": 5, "V": 10, "A1": 4, "A2": 3,
}  # fmt: skip


class Row(NamedTuple):
    """One statement as the page has it."""

    id: str
    words: str
    here: str
    tests: str


ROWS = [Row(*found) for found in ROW.findall(PAGE.read_text())]


@functools.cache
def names_in(module: str) -> frozenset[str]:
    """The tests of a module, whose name is unique."""
    (path,) = TESTS.rglob(module)
    tree = ast.parse(path.read_text())
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def test_every_statement_has_one_row() -> None:
    found = [row.id for row in ROWS]
    wanted = [f"{kind}-{number:02}" for kind, last in LAST.items() for number in range(1, last + 1)]

    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_names_tests_that_exist(row: Row) -> None:
    named = TEST.findall(row.tests)

    assert named and ", ".join(f"`{module}::{test}`" for module, test in named) == row.tests
    assert [(m, test) for m, test in named if test not in names_in(m)] == []
