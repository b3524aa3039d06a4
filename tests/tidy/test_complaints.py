"""`docs/complaints.md`: every row names a test, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "complaints.md"
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
ROWS = [
    line
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| what people met")
]
COUNT = 124


def test_all_complaints_are_there() -> None:
    assert len(ROWS) == COUNT


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:50])
def test_the_tests_of_a_row_exist(row: str) -> None:
    named = TEST.findall(row)

    assert named
    for module, test in named:
        (path,) = (ROOT / "tests").rglob(module)
        names = {
            node.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)
        }
        assert test in names, f"{module} has no {test}"
