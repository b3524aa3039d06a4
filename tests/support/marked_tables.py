"""Tables of docs/operations.md that stand between marks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def rows(kind: str) -> Iterator[list[str]]:
    """The rows of one, cell by cell, without their ticks."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition(f"<!-- {kind}: begin -->")[2].partition(f"<!-- {kind}: end")[0]
    for line in table.strip().splitlines()[2:]:
        yield [cell.strip().strip("`") for cell in line.strip().strip("|").split(" | ")]
