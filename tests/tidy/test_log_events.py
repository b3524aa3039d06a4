"""Log lines: each has an event, and events in code, in their list and in the documents agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from iggy_broker.log_events import EVENTS
from iggy_broker.storage.cutting import DecisionKind

ROOT = Path(__file__).resolve().parents[2]
BROKER = ROOT / "broker" / "iggy_broker"
PAGE = ROOT / "docs" / "operations.md"
LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")
OF_THE_LOG_ITSELF = {"python_warning", "library", "storage"}  # given to what names none


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(BROKER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def named(call: ast.Call) -> str:
    return ast.unparse(call.func)


def test_every_line_has_an_event() -> None:
    bare = [
        where
        for where, call in calls()
        if re.fullmatch(rf"(logger|_storage)\.({'|'.join(LEVELS)})", named(call))
        and not any(keyword.arg == "extra" for keyword in call.keywords)
    ]

    assert bare == [], "write extra=event(...) with a name of log_events.EVENTS"


def test_what_storage_and_metadata_tell_has_an_event() -> None:
    bare = [
        where
        for where, call in calls()
        if named(call).rsplit(".", 1)[-1] in ("warn", "_warn")
        and not re.match(r"(logs\.)?Note\(|note$|text$|\w+\.note$", ast.unparse(call.args[0]))
    ]

    assert bare == [], "give a logs.Note with a name of log_events.EVENTS"


def test_events_are_those_of_the_list_and_all_of_them_are_used() -> None:
    used = {kind.name.lower() for kind in DecisionKind} | OF_THE_LOG_ITSELF
    for where, call in calls():
        if named(call) in ("event", "logs.event", "Note", "logs.Note") and call.args:
            name = call.args[0]
            if isinstance(name, ast.Constant):
                assert name.value in EVENTS, where
                used.add(str(name.value))

    assert set(EVENTS) - used == set()


def test_the_documents_list_the_events() -> None:
    table = PAGE.read_text().partition("<!-- events: begin -->")[2].partition("<!-- events: end")[0]

    rows = [f"| `{name}` | {'yes' if kind.limited else ''} | {kind.meaning} |"
            for name, kind in EVENTS.items()]  # fmt: skip
    assert table.strip().splitlines() == ["| event | limited | meaning |", "|---|---|---|", *rows]
