"""The CEL rules of our schemas, evaluated as the API server does it.

The language is `cel-python`'s; the functions that Kubernetes adds to it (quantities, addresses) are
here. Names of fields are escaped as Kubernetes does it, so that one rule text works in both places.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELEvalError

from iggy_operator import units

PROGRAMS_MAX: Final = 1024
# Fields whose names CEL keeps for itself are written `__name__` in rules (Kubernetes: "Validation
# rules", escaping).
_RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
     "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[./-]")

CelValue: TypeAlias = Any


class RuleError(Exception):
    """A rule that could not be evaluated on this value; the API server refuses then, too."""


class _Quantity:
    """A number while a rule is evaluated."""

    def __init__(self, number: Fraction) -> None:
        self.number = number


def _quantity(text: CelValue) -> _Quantity:
    return _Quantity(units.quantity(str(text)))


def _is_url(text: CelValue) -> celtypes.BoolType:
    try:
        parts = urlsplit(str(text))
        valid = bool(parts.scheme and parts.hostname) or str(text).startswith("/")
        valid = valid and parts.port != 0 and not re.search(r"[\s\x00-\x1f]", str(text))
    except ValueError:
        valid = False
    return celtypes.BoolType(valid)


def _as_integer(value: _Quantity) -> celtypes.IntType:
    if value.number.denominator != 1:
        raise ValueError("the quantity is no whole number")
    return celtypes.IntType(int(value.number))


def _compare(left: _Quantity, right: _Quantity) -> celtypes.IntType:
    return celtypes.IntType((left.number > right.number) - (left.number < right.number))


_FUNCTIONS: Final[dict[str, Callable[..., CelValue]]] = {
    "isQuantity": lambda text: celtypes.BoolType(units.is_quantity(str(text))),
    "quantity": _quantity,
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: celtypes.BoolType(left.number > right.number),
    "isLessThan": lambda left, right: celtypes.BoolType(left.number < right.number),
    "isInteger": lambda value: celtypes.BoolType(value.number.denominator == 1),
    "asInteger": _as_integer,
    "isURL": _is_url,
}


def escape(name: str) -> str:
    """A field's name as rules write it."""
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


@lru_cache(maxsize=PROGRAMS_MAX)
def _program(rule: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(rule), functions=_FUNCTIONS)


def to_cel(value: object, schema: Mapping[str, Any]) -> CelValue:
    """A JSON value as rules see it: names of declared fields escaped, keys of maps as they are."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties", {})
        extra = extra if isinstance(extra, dict) else {}
        return celtypes.MapType(
            {
                celtypes.StringType(escape(key) if key in properties else key): to_cel(
                    item, properties.get(key, extra)
                )
                for key, item in value.items()
            }
        )
    if isinstance(value, list):
        return celtypes.ListType([to_cel(item, schema.get("items", {})) for item in value])
    return json_to_cel(value)  # type: ignore[arg-type]


def holds(rule: str, value: CelValue, old: CelValue | None = None) -> bool:
    """Whether `rule` holds for `self` (and `oldSelf`), both from `to_cel`. Raises RuleError."""
    names = {"self": value} if old is None else {"self": value, "oldSelf": old}
    try:
        result = _program(rule).evaluate(names)
    except (CELEvalError, ValueError, TypeError) as error:
        raise RuleError(str(error)) from error
    return bool(result)
