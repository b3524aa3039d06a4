"""What kubectl shows to a person, as rows of words by column."""

from __future__ import annotations

import re

_COLUMN = re.compile(r"\S+(?: \S+)*")


def tables(text: str) -> dict[str, dict[str, str]]:
    """The rows of `kubectl get` with several kinds, by `kind/name`: its words by column.

    Columns are where their titles begin; an empty cell is an empty text.
    """
    rows: dict[str, dict[str, str]] = {}
    columns: list[tuple[str, int]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        if line.startswith("NAME "):
            columns = [(found[0], found.start()) for found in _COLUMN.finditer(line)]
            continue
        ends = [start for _, start in columns[1:]] + [len(line)]
        cells = {
            title: line[start:end].strip()
            for (title, start), end in zip(columns, ends, strict=True)
        }
        name = cells.pop("NAME")
        rows[name.replace(".iggykube.dev/", "/")] = cells
    return rows
