"""How cells ended: read from and written to the file that the page is made of. Pure but for that.

`tests/suites/matrix.json` is the record; a run leaves its own cells in its folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from foreign_suites.matrix.job import Lack


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that was run. `problem`: why it did not go through, nothing if it did."""

    date: str
    problem: str
    lacks: frozenset[Lack]


def read(path: Path) -> dict[str, Cell]:
    """Cells by name. KeyError, TypeError, ValueError: the file is not of this form."""
    return {
        name: Cell(one["date"], one["problem"], frozenset(map(Lack, one["lacks"])))
        for name, one in json.loads(path.read_text()).items()
    }


def write(path: Path, cells: Mapping[str, Cell], order: Iterable[str]) -> None:
    """One line for each cell, in this order; cells that are not in it are left out."""
    lines = [f"  {json.dumps(name)}: {_line(cells[name])}" for name in order if name in cells]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _line(cell: Cell) -> str:
    found = {"date": cell.date, "problem": cell.problem, "lacks": sorted(cell.lacks)}
    return json.dumps(found)
