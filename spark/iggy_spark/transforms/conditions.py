"""Tests of values and of names of fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from iggy_spark.errors import OptionError
from iggy_spark.transforms.arguments import Arguments, as_object, as_regex, as_text, nearest, shown
from iggy_spark.transforms.base import MISSING, Document
from iggy_spark.transforms.paths import Path, find

DEPTH_MAX = 16  # of conditions in conditions

Test = Callable[[Any], bool]
Condition = Callable[[Document], bool]


def is_number(value: Any) -> bool:
    """Whether a value is a JSON number."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 is 1.0, but not true."""
    if is_number(one):
        return is_number(other) and bool(one == other)
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(same(a, b) for a, b in zip(one, other, strict=True))
        )
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(value, other[key]) for key, value in one.items())
        )
    return type(one) is type(other) and bool(one == other)


_KINDS: dict[str, Test] = {
    "is_null": lambda value: value is None or value is MISSING,
    "is_not_null": lambda value: value is not None and value is not MISSING,
    "is_string": lambda value: isinstance(value, str),
    "is_number": is_number,
    "is_boolean": lambda value: isinstance(value, bool),
    "is_object": lambda value: isinstance(value, dict),
    "is_array": lambda value: isinstance(value, list),
    "exists": lambda value: value is not MISSING,
}


def _ordered(value: object, place: str) -> Test:
    """Whether something is of the kind that it can be compared with a bound: number or text."""
    if is_number(value):
        return is_number
    if isinstance(value, str):
        return lambda found: isinstance(found, str)
    raise OptionError(f"{place}: a number or a text is expected, not {shown(value)}")


def _equals(value: Any, place: str) -> Test:
    if isinstance(value, str):
        return lambda found: found == value  # no other kind of value equals a text
    return lambda found: same(found, value)


def _contains(value: object, place: str) -> Test:
    text = as_text(value, place)
    return lambda found: isinstance(found, str) and text in found


def _regex(value: object, place: str) -> Test:
    search = as_regex(value, place).search
    return lambda found: isinstance(found, str) and search(found) is not None


def _greater(value: Any, place: str) -> Test:
    comparable = _ordered(value, place)
    return lambda found: comparable(found) and found > value


def _less(value: Any, place: str) -> Test:
    comparable = _ordered(value, place)
    return lambda found: comparable(found) and found < value


def _between(value: Any, place: str) -> Test:
    try:
        low, high = value
    except (TypeError, ValueError) as error:
        what = f"a list of two bounds is expected, not {shown(value)}"
        raise OptionError(f"{place}: {what}") from error
    comparable = _ordered(low, place)
    if not comparable(high):
        raise OptionError(f"{place}: both bounds must be numbers, or both texts")
    return lambda found: comparable(found) and low <= found <= high


def _kind(test: Test) -> Callable[[Any, str], Test]:
    def build(value: Any, place: str) -> Test:
        if not isinstance(value, bool):
            raise OptionError(f"{place}: true or false is expected, not {shown(value)}")
        return test if value else lambda found: not test(found)

    return build


_TESTS: dict[str, Callable[[Any, str], Test]] = {
    "equals": _equals,
    "contains": _contains,
    "regex": _regex,
    "greater": _greater,
    "greater_than": _greater,
    "less": _less,
    "less_than": _less,
    "between": _between,
    **{name: _kind(test) for name, test in _KINDS.items()},
}
_KEY_TESTS: dict[str, Callable[[str, str], Callable[[str], bool]]] = {
    "exact": lambda text, place: text.__eq__,
    "starts_with": lambda text, place: lambda key: key.startswith(text),
    "ends_with": lambda text, place: lambda key: key.endswith(text),
    "contains": lambda text, place: lambda key: text in key,
    "regex": lambda text, place: _regex(text, place),
}


def key_pattern(value: object, place: str) -> Callable[[str], bool]:
    """A test of a field's name, such as `{starts_with: tmp_}`.

    Raises:
        OptionError: it is none.
    """
    name, given = _only(value, place, _KEY_TESTS)
    return _KEY_TESTS[name](as_text(given, f"{place}.{name}"), f"{place}.{name}")


def value_pattern(value: object, place: str) -> Test:
    """One test of a value, such as `{greater_than: 5}`, or `is_number` as a word of its own.

    Raises:
        OptionError: it is none.
    """
    if isinstance(value, str) and value in _KINDS:
        return _KINDS[value]
    name, given = _only(value, place, _TESTS)
    return _TESTS[name](given, f"{place}.{name}")


def _only(value: object, place: str, known: Mapping[str, Any]) -> tuple[str, Any]:
    given = Arguments(as_object(value, place), place, known)
    names = [name for name in known if name in given]
    if len(names) != 1:
        raise OptionError(f"{place}: exactly one test is expected, {nearest('', known)}")
    return names[0], given.value(names[0])


def condition(value: object, place: str) -> Condition:
    """A condition on a document: tests of a field, and conditions under `not`, `and`, `or`.

    What stands beside each other must all hold. Inner conditions are about the same field unless
    they name another. A field that is missing passes `is_null` and `exists: false`, and no other
    test.

    Raises:
        OptionError: it is none; the message has its place in front.
    """
    return _condition(value, place, None, DEPTH_MAX)


def _condition(value: object, place: str, field: Path | None, depth: int) -> Condition:
    if depth == 0:
        raise OptionError(f"{place}: conditions are nested deeper than {DEPTH_MAX}")
    given = Arguments(value, place, ("field", "not", "and", "or", *_TESTS))
    if "field" in given:
        field = given.path("field")
    holds = [_test(given, name, field) for name in _TESTS if name in given]
    if "not" in given:
        inner = _condition(given.value("not"), given.at("not"), field, depth - 1)
        holds.append(lambda document: not inner(document))
    for name, combine in (("and", all), ("or", any)):
        if name in given:
            parts = [_condition(v, at, field, depth - 1) for v, at in given.items(name)]
            holds.append(_combined(parts, combine))
    if not holds:
        raise OptionError(f"{place}: no test, {nearest('', ('not', 'and', 'or', *_TESTS))}")
    return holds[0] if len(holds) == 1 else _combined(holds, all)


def _test(given: Arguments, name: str, field: Path | None) -> Condition:
    if field is None:
        raise OptionError(f"{given.at(name)}: of which field? Name it beside: field: status")
    test = _TESTS[name](given.value(name), given.at(name))
    path = field
    if len(path) == 1:
        only = path[0]
        return lambda document: test(document.get(only, MISSING))
    return lambda document: test(find(document, path))


def _combined(parts: list[Condition], combine: Callable[..., bool]) -> Condition:
    return lambda document: combine(part(document) for part in parts)
