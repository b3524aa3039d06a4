"""Paths of fields: `card.number`. A dot within a name is written `\\.`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from iggy_spark.errors import OptionError
from iggy_spark.transforms.base import MISSING, Document, TransformError

STEPS_MAX = 32
PATH_CHARS_MAX = 1000
_DOT = re.compile(r"(?<!\\)\.")
_STAR = re.compile(r"(?<!\\)\*")

Path: TypeAlias = tuple[str, ...]


def _split(value: object, place: str) -> list[str]:
    if not isinstance(value, str) or not value or len(value) > PATH_CHARS_MAX:
        raise OptionError(
            f"{place}: the path of a field is expected, such as card.number, not {value!r:.60}"
        )
    steps = _DOT.split(value)
    if "" in steps or len(steps) > STEPS_MAX:
        raise OptionError(
            f"{place}: {value!r} is not the path of a field: 1 to {STEPS_MAX} names with dots "
            "between them"
        )
    return steps


def _plain(step: str) -> str:
    return step.replace(r"\.", ".").replace(r"\*", "*")


def parse_path(value: object, place: str) -> Path:
    """The path of one field.

    Raises:
        OptionError: no path, or one with a wildcard; `place` is in front.
    """
    steps = _split(value, place)
    for step in steps:
        if _STAR.search(step):
            raise OptionError(rf"{place}: {value!r}: no wildcard here; a star itself is \*")
    return tuple(map(_plain, steps))


def find(document: Any, path: Path) -> Any:
    """The value at a path, MISSING if there is none. Lists are not entered."""
    for step in path:
        if not isinstance(document, dict):
            return MISSING
        document = document.get(step, MISSING)
    return document


def put(document: Document, path: Path, value: Any) -> None:
    """Set the value at a path, making the objects on the way.

    Raises:
        TransformError: something on the way is not an object.
    """
    for step in path[:-1]:
        inner = document.get(step, MISSING)
        if inner is MISSING:
            inner = document[step] = {}
        elif not isinstance(inner, dict):
            raise TransformError(f"{shown(path)}: {step} is not an object")
        document = inner
    document[path[-1]] = value


def shown(path: Path) -> str:
    """A path as it is written."""
    return ".".join(step.replace(".", r"\.") for step in path)


@dataclass(frozen=True, slots=True)
class Fields:
    """A path that may mean several fields: of each element of a list, or by a wildcard."""

    steps: Path  # on the way
    last: str
    pattern: re.Pattern[str] | None  # instead of `last`, if it has wildcards

    def places(self, document: Document) -> list[tuple[Document, str]]:
        """Those that are there: each as the object that holds it and its name."""
        holders = self._holders(document) if self.steps else [document]
        if self.pattern is None:
            return [(holder, self.last) for holder in holders if self.last in holder]
        matches = self.pattern.fullmatch
        return [(holder, key) for holder in holders for key in holder if matches(key)]

    def _holders(self, document: Document) -> list[Document]:
        holders = [document]
        for step in self.steps:
            found: list[Document] = []
            for holder in holders:
                _objects(holder.get(step), found)
            holders = found
        return holders


def _objects(value: Any, found: list[Document]) -> None:
    if isinstance(value, dict):
        found.append(value)
    elif isinstance(value, list):
        for item in value:
            _objects(item, found)


def wildcard(text: str) -> re.Pattern[str] | None:
    """The pattern of a name with stars in it, each of which means any characters; None without."""
    parts = _STAR.split(text)
    if len(parts) == 1:
        return None
    return re.compile(".*".join(re.escape(_plain(part)) for part in parts), re.DOTALL)


def parse_fields(value: object, place: str) -> Fields:
    """A path whose last step may have wildcards.

    Raises:
        OptionError: no path, or a wildcard elsewhere; `place` is in front.
    """
    *steps, last = _split(value, place)
    if any(_STAR.search(step) for step in steps):
        raise OptionError(f"{place}: {value!r}: a wildcard is possible in the last step only")
    return Fields(tuple(map(_plain, steps)), _plain(last), wildcard(last))
