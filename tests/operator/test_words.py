"""Every word that the operator uses is explained, and none that it does not use."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from iggy_operator import conditions, words
from iggy_operator.desired import metadata
from iggy_operator.reasons import Reason

CODE = Path(words.__file__).parent
# A change of it is a change of the object: nothing needs to read it.
NEVER_READ = {"reconcile-at"}


@cache
def all_calls() -> tuple[ast.Call, ...]:
    trees = (ast.parse(path.read_text()) for path in CODE.rglob("*.py"))
    return tuple(node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))


def calls(*names: str) -> Iterator[ast.Call]:
    """Calls of functions of these names, anywhere in the operator."""
    for call in all_calls():
        called = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if called in names:
            yield call


def texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def named(rows: tuple[words.Word, ...]) -> list[str]:
    return [row.word for row in rows]


def test_every_reason_says_what_it_means() -> None:
    for reason in Reason:
        assert reason.meaning, reason
        assert not reason.meaning.endswith("."), reason
        assert Reason(str(reason)) is reason

    fine = {Reason.SYNCED, Reason.RECONCILING, Reason.ROLLING_OUT}
    assert {reason for reason in Reason if not reason.remedy} == fine


def test_reasons_that_nothing_gives_are_said_to_be_reserved() -> None:
    text = "".join(path.read_text() for path in CODE.rglob("*.py") if path.name != "words.py")

    unused = {reason for reason in Reason if not re.search(rf"Reason\.{reason.name}\b", text)}

    assert unused == set(words.RESERVED)


def test_every_condition_is_explained() -> None:
    types = [
        value
        for name, value in vars(conditions).items()
        if name.isupper() and isinstance(value, str)
    ]

    assert sorted(named(words.CONDITIONS)) == sorted(types)


def test_every_event_is_a_reason_or_explained() -> None:
    told = {
        call.args[0].value
        for call in calls("Note")
        if call.args and isinstance(call.args[0], ast.Constant)
    }

    assert told == set(named(words.EVENTS))


def test_every_annotation_that_is_read_is_explained() -> None:
    read = {
        text for call in calls("annotation", "is_annotated", "_is_let_go") for text in texts(call)
    }

    assert read | NEVER_READ | {"force-release"} == set(named(words.ANNOTATIONS))


def test_every_label_is_explained() -> None:
    own = {
        value
        for name, value in vars(metadata).items()
        if name.endswith("_LABEL") and name.isupper() and str(value).startswith("iggykube.dev/")
    }

    assert own == set(named(words.LABELS))


def test_kinds_are_those_of_the_schemas() -> None:
    rows = (*words.CONDITIONS, *words.EVENTS, *words.ANNOTATIONS, *words.LABELS, words.FINALIZER)

    assert all(row.kinds and set(row.kinds) <= set(words.ALL) for row in rows)
