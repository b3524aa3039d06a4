"""What MongoDB's manual says of filters, for those that are used here: equality, $or, $lt, $lte,
$gt, $gte, $ne, $in, $exists on fields of the first level.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

Document = dict[str, Any]
_MISSING = object()
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "$lt": operator.lt,
    "$lte": operator.le,
    "$gt": operator.gt,
    "$gte": operator.ge,
}


def matches(document: Document, wanted: Document) -> bool:
    """Whether a filter finds a document."""
    for name, value in wanted.items():
        if name == "$or":
            if not any(matches(document, part) for part in value):
                return False
        elif name.startswith("$"):
            raise AssertionError(f"not played: {name}")
        elif not _fits(document.get(name, _MISSING), value):
            return False
    return True


def _fits(found: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return _same(found, wanted)
    return all(_holds(found, name, value) for name, value in wanted.items())


def _holds(found: Any, name: str, value: Any) -> bool:
    if name == "$exists":
        return (found is not _MISSING) == value
    if name == "$ne":  # also where there is no such field
        return not _same(found, value)
    if name == "$in":
        return any(_same(found, one) for one in value)
    return _kind(found) == _kind(value) and _ORDER[name](found, value)  # only values of one type


def _same(found: Any, wanted: Any) -> bool:
    if wanted is None:  # null is equal to nothing at all
        return found is None or found is _MISSING
    return _kind(found) == _kind(wanted) and found == wanted


def _kind(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if is_number else type(value).__name__
