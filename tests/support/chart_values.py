"""A chart's values.yaml: every value with its path, its default and the comment above it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

CHARTS = Path(__file__).resolve().parents[2] / "charts"
BEGIN = "<!-- values: begin -->"
END = "<!-- values: end -->"


@dataclass(frozen=True, slots=True)
class Value:
    """One value that has no named parts: a text, number, list, or a mapping that users fill."""

    path: tuple[str, ...]
    default: Any
    comment: str

    @property
    def name(self) -> str:
        return ".".join(self.path)


def values_of(chart: str) -> tuple[Value, ...]:
    """All values of a chart, in the order of its file."""
    text = (CHARTS / chart / "values.yaml").read_text(encoding="utf-8")
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(node, MappingNode)
    return tuple(_walk(node, (), text.splitlines()))


def _walk(node: MappingNode, path: tuple[str, ...], lines: list[str]) -> Iterator[Value]:
    for key, value in node.value:
        assert isinstance(key, ScalarNode)
        here = (*path, key.value)
        if isinstance(value, MappingNode) and value.value:
            yield from _walk(value, here, lines)
        else:
            yield Value(here, _plain(value), _comment(lines, key.start_mark.line))


def _plain(node: Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


def _comment(lines: list[str], line: int) -> str:
    """The comment lines right above, as one sentence or more."""
    found: list[str] = []
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(found)


def table(chart: str) -> str:
    """One row for each value."""
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for value in values_of(chart):
        default = json.dumps(value.default)
        rows.append(
            f"| `{value.name}` | `{default}` | {value.comment.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(rows)


def page_with_table(chart: str) -> str:
    """The chart's README with its table brought up to date."""
    page = (CHARTS / chart / "README.md").read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(chart)}\n{END}{after}"
