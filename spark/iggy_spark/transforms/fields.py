"""Transforms that add, change, remove and rename fields, and those that drop messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iggy_spark.errors import OptionError
from iggy_spark.transforms.arguments import Arguments
from iggy_spark.transforms.base import MISSING, At, Document, Step, TransformError
from iggy_spark.transforms.computed import ALLOW_UNREPEATABLE, parse_value
from iggy_spark.transforms.conditions import Test, condition, key_pattern, value_pattern
from iggy_spark.transforms.paths import Path, find, parse_path, put, shown

_WHEN: dict[str, Callable[[Any], bool]] = {
    "always": lambda found: True,
    "key_exists": lambda found: found is not MISSING,
    "key_not_exists": lambda found: found is MISSING,
}


def _arguments(value: object, place: str) -> Arguments:
    """Of a transform that computes."""
    given = Arguments(value, place, ("fields", ALLOW_UNREPEATABLE))
    given.flag(ALLOW_UNREPEATABLE, False)
    return given


def add_fields(value: object, place: str) -> Step:
    """Set fields to fixed or computed values; see `computed`."""
    given = _arguments(value, place)
    changes = [
        (part.path("key"), parse_value(part, "value"))
        for part in given.parts("fields", ("key", "value"))
    ]

    def step(document: Document, at: At) -> Document:
        for path, compute in changes:
            put(document, path, compute(at))
        return document

    return step


def update_fields(value: object, place: str) -> Step:
    """Set fields, if they are there, if they are not, or always."""
    given = _arguments(value, place)
    changes = [
        (
            part.path("key"),
            parse_value(part, "value"),
            _WHEN[part.word("condition", _WHEN, "always")],
        )
        for part in given.parts("fields", ("key", "value", "condition"))
    ]

    def step(document: Document, at: At) -> Document:
        for path, compute, wanted in changes:
            if wanted(find(document, path)):
                put(document, path, compute(at))
        return document

    return step


def delete_fields(value: object, place: str) -> Step:
    """Remove fields, also of each element of a list, also by wildcard."""
    targets = Arguments(value, place, ("fields",)).fields("fields")

    def step(document: Document, at: At) -> Document:
        for fields in targets:
            for holder, key in fields.places(document):
                del holder[key]
        return document

    return step


def rename_fields(value: object, place: str) -> Step:
    """Move fields to other paths; one that is missing is passed over."""
    given = Arguments(value, place, ("fields",))
    moves = [(part.path("from"), part.path("to")) for part in given.parts("fields", ("from", "to"))]

    def step(document: Document, at: At) -> Document:
        for old, new in moves:
            value = find(document, old)
            if value is MISSING or old == new:
                continue
            if find(document, new) is not MISSING:
                raise TransformError(f"{shown(old)}: there is a field {shown(new)} already")
            del find(document, old[:-1])[old[-1]]
            put(document, new, value)
        return document

    return step


def filter_messages(value: object, place: str) -> Step:
    """Keep the messages of which the condition `where` holds, and drop the others."""
    given = Arguments(value, place, ("where",))
    holds = condition(given.value("where"), given.at("where"))
    return lambda document, at: document if holds(document) else None


def filter_fields(value: object, place: str) -> Step:
    """Keep or remove the fields that match patterns; those of the keep list stay in any case.

    With `deep` objects within are looked through as well.
    """
    given = Arguments(value, place, ("keep_fields", "patterns", "include_matching", "deep"))
    keep = {parse_path(item, at) for item, at in given.items("keep_fields", [])}
    patterns = [_pattern(item, at) for item, at in given.items("patterns", [])]
    include = given.flag("include_matching", True)
    deep = given.flag("deep", False)
    if not keep and not patterns:
        return lambda document, at: document
    if not deep and any(len(path) > 1 for path in keep):
        raise OptionError(f"{given.at('keep_fields')}: paths into objects need deep: true")
    if not deep:
        names = {path[0] for path in keep}
        return lambda document, at: {
            key: found
            for key, found in document.items()
            if key in names or _matches(patterns, key, found) is include
        }
    kept = _Deep(keep, patterns, include)
    return lambda document, at: kept.fields(document, (), False)


def _pattern(value: object, place: str) -> tuple[Callable[[str], bool], Test]:
    given = Arguments(value, place, ("key_pattern", "value_pattern"))
    key: Callable[[str], bool] = lambda name: True  # noqa: E731
    test: Test = lambda found: True  # noqa: E731
    if given.value("key_pattern", None) is not None:
        key = key_pattern(given.value("key_pattern"), given.at("key_pattern"))
    if given.value("value_pattern", None) is not None:
        test = value_pattern(given.value("value_pattern"), given.at("value_pattern"))
    return key, test


def _matches(patterns: list[tuple[Callable[[str], bool], Test]], key: str, value: Any) -> bool:
    return any(name(key) and test(value) for name, test in patterns)


class _Deep:
    """`filter_fields` in objects within objects and lists."""

    def __init__(
        self, keep: set[Path], patterns: list[tuple[Callable[[str], bool], Test]], include: bool
    ) -> None:
        self._keep, self._patterns, self._include = keep, patterns, include

    def fields(self, document: Document, path: Path, dropped: bool) -> Document:
        """What stays of an object at `path`; of a dropped one only what is on the keep list."""
        kept = {}
        for key, value in document.items():
            inner = self._field(key, value, (*path, key), dropped)
            if inner is not MISSING:
                kept[key] = inner
        return kept

    def _field(self, key: str, value: Any, path: Path, dropped: bool) -> Any:
        if path in self._keep:
            return value
        matches = not dropped and _matches(self._patterns, key, value)
        if matches and self._include:
            return value
        return self._rest(value, path, dropped or matches)

    def _rest(self, value: Any, path: Path, dropped: bool) -> Any:
        """What stays of a value that does not stay by itself, or go."""
        goes = self._include or dropped
        if isinstance(value, dict):
            inner: Any = self.fields(value, path, dropped)
        elif isinstance(value, list):
            items = (self._rest(item, path, dropped) for item in value)
            inner = [item for item in items if item is not MISSING]
        else:
            return MISSING if goes else value
        return inner if inner or not goes else MISSING
