"""Check one document as the API server would: types, limits, unknown fields, rules, transitions.

Every problem names the field and the fix. Rules are checked where the fields below them are sound;
transition rules (`oldSelf`) when the object as it was is given.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import jsonschema
from jsonschema.exceptions import ValidationError

from iggy_operator import cel
from iggy_operator.schema import Node, schemas, with_defaults

FieldPath: TypeAlias = tuple[str | int, ...]

PROBLEMS_MAX: Final = 100
_SHOWN_MAX: Final = 60
_NAMES_SHOWN_MAX: Final = 24
_ARTICLES: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping of fields",
    "array": "a list",
}
_DURATION_FIX: Final = "must be a duration, such as 500ms, 10s, 5m or 1h30m"
_EXPIRY_FIX: Final = "must be never or a duration, such as 7d or 1h30m"
_NAME_FIX: Final = (
    "must be lower-case letters, digits and dashes, and begin and end with a letter or digit"
)
_OBJECT_FIX: Final = _NAME_FIX.replace(" and dashes", ", dashes and dots")
# Patterns in words; a test demands that every pattern of the schemas stands here.
PATTERN_FIXES: Final = {
    "^([0-9]+(ms|s|m|h|d))+$": _DURATION_FIX,
    "^(never|([0-9]+(ms|s|m|h|d|w))+)$": _EXPIRY_FIX,
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": _NAME_FIX,
    "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": _OBJECT_FIX,
    "^[0-9a-fA-F:.]+/[0-9]{1,3}$": "must be a network, such as 203.0.113.0/24",
    "^(\\[[0-9a-fA-F:.]+\\]|[A-Za-z0-9][-A-Za-z0-9.]*)(:[0-9]{1,5})?$": "must be a host, or host "
    "and port, such as iggy.example:8090",
    "^[-._a-zA-Z0-9]+$": "must be a name in a Secret, of letters, digits, dashes, dots and "
    "underscores",
    "^jdbc:[a-z0-9]+:": "must begin with jdbc and the kind of database, such as "
    "jdbc:postgresql://host:5432/name",
    "^https?://[^/@?#]+([/?#].*)?$": "must be an http:// or https:// address without credentials",
    "^https?://[^/@]+/?$": "must be an address without login and path, such as http://minio:9000",
    "^mongodb(\\+srv)?://[^@]+$": "must be mongodb://host:port without credentials; "
    "those belong into credentialsSecretName",
    "^postgres(ql)?://[^/@?#]+/[^/@?#]+$": "must be postgresql://host:port/database without "
    "credentials; those belong into credentialsSecretName",
    "^[^.\\s]+\\.[^.\\s]+$": "must be a table with its schema, such as public.orders",
    "^[a-z0-9_]{1,63}$": "must be lower-case letters, digits and underscores",
    "^[^.]+(\\.[^.]+)*$": "must be names with dots between them, such as customer.id",
    "^[0-9]+\\.[0-9]+\\.[0-9]+$": "must be a version, such as 4.3.0",
    "^[0-9]+[kKmMgGtT]?$": "must be an amount of memory, such as 512m or 1g",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at one place, with the fix."""

    path: FieldPath
    message: str

    def __str__(self) -> str:
        """Field and message."""
        return f"{path_text(self.path)}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Checked:
    """A document with its defaults filled in, and what is wrong with it."""

    value: Mapping[str, Any]
    problems: tuple[Problem, ...]


def path_text(path: FieldPath) -> str:
    """A path as people write it: `spec.sinks[0].files`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def nearest(name: str, names: list[str]) -> str | None:
    """The one of `names` that `name` was probably meant to be; letter case does not count."""
    folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def suggestion(name: str, names: list[str]) -> str:
    """` (did you mean X?)`, or the known names if there are few, or nothing."""
    if close := nearest(name, names):
        return f"did you mean {close}?"
    if len(names) <= _NAMES_SHOWN_MAX:
        return "known: " + ", ".join(sorted(names))
    return "see `kubectl explain` or crds/ for the known ones"


def check(document: Mapping[str, Any], *, old: Mapping[str, Any] | None = None) -> Checked:
    """Check a document of one of our kinds; `old` is the object that it replaces, with defaults."""
    schema = schemas()[document["kind"]]
    value = with_defaults(dict(document), schema.root)
    structural = [
        problem
        for error in _validator(schema.kind).iter_errors(value)
        for problem in _translate(error)
    ]
    structural += _duplicates(value, schema.root, ())
    broken = {problem.path for problem in structural}
    rules = _rule_problems(_Place(value, old, schema.root, ()), broken)
    problems = sorted([*structural, *rules], key=lambda problem: path_text(problem.path))
    return Checked(value, tuple(problems[:PROBLEMS_MAX]))


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schemas()[kind].json_schema)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 3] + "..."


def _type_message(error: ValidationError) -> str:
    wanted: Any = error.validator_value
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    article = " or ".join(_ARTICLES[name] for name in names)
    if error.instance is None:
        return f"must be {article}, is empty"
    quote = " (put it in quotes)" if names == ["string"] else ""
    return f"must be {article}, is {_shown(error.instance)}{quote}"


def _enum_message(error: ValidationError) -> str:
    allowed: Any = error.validator_value
    names = [str(name) for name in allowed]
    close = nearest(str(error.instance), names) if len(names) > 1 else None
    hint = f" (did you mean {close}?)" if close else ""
    return f"must be {_one_of(names)}, is {_shown(error.instance)}{hint}"


def _pattern_message(error: ValidationError) -> str:
    pattern = str(error.validator_value)
    if pattern.endswith(r"\Z"):
        pattern = pattern.removesuffix(r"\Z") + "$"
    fix = PATTERN_FIXES.get(pattern, f"must match {pattern}")
    return f"{fix}, is {_shown(error.instance)}"


def pattern_rule(pattern: str) -> str:
    """The rule that stands beside a pattern, since the API server says no more than the pattern."""
    raw = "r" if "\\" in pattern else ""
    return f"self.matches({raw}'{pattern}')"


def _limit_message(error: ValidationError) -> str:
    instance: Any = error.instance
    count = len(instance) if hasattr(instance, "__len__") else 0
    template = _LIMITS.get(str(error.validator), error.message)
    return template.format(limit=error.validator_value, value=_shown(instance), count=count)


_LIMITS: Final = {
    "minimum": "must be at least {limit}, is {value}",
    "maximum": "must be at most {limit}, is {value}",
    "minLength": "must have at least {limit} characters, has {count}",
    "maxLength": "must have at most {limit} characters, has {count}",
    "minItems": "must have at least {limit} entries, has {count}",
    "maxItems": "must have at most {limit} entries, has {count}",
    "minProperties": "must have at least {limit} key, has {count}",
    "maxProperties": "must have at most {limit} key, has {count}",
}
_MESSAGES: Final = {"type": _type_message, "enum": _enum_message, "pattern": _pattern_message}


def _translate(error: ValidationError) -> Iterator[Problem]:
    """One error of the JSON Schema library in our words."""
    path: FieldPath = tuple(error.absolute_path)
    if error.validator == "required":
        yield from _missing(error, path)
    elif error.validator == "additionalProperties":
        yield from _unknown(error, path)
    else:
        words = _MESSAGES.get(str(error.validator), _limit_message)
        yield Problem(path, words(error))


def _unknown(error: ValidationError, path: FieldPath) -> Iterator[Problem]:
    schema: Any = error.schema
    instance: Any = error.instance
    known = list(schema.get("properties", {}))
    for name in instance:
        if name not in known:
            yield Problem((*path, name), f"unknown field, {suggestion(name, known)}")


def _missing(error: ValidationError, path: FieldPath) -> Iterator[Problem]:
    """Fields that must be there, with what they may be if that is a short list."""
    schema: Any = error.schema
    required: Any = error.validator_value
    instance: Any = error.instance
    # The library reports each missing field by itself; its name is the only one in the message.
    for name in required:
        if name not in instance and error.message.startswith(f"{name!r} "):
            values = schema.get("properties", {}).get(name, {}).get("enum", [])
            fix = f"set it to {_one_of(values)}" if values else "add it"
            yield Problem((*path, name), f"is missing: {fix}")


def _one_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "one of " + ", ".join(names)


def _duplicates(value: object, node: Node, path: FieldPath) -> Iterator[Problem]:
    """Entries of a list that must differ (`x-kubernetes-list-type` set or map)."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _duplicates(item, child_node(node, key), (*path, key))
    elif isinstance(value, list):
        seen: dict[str, int] = {}
        for index, item in enumerate(value):
            yield from _duplicates(item, node.get("items", {}), (*path, index))
            key = _list_key(item, node)
            if key is None:
                continue
            if key in seen:
                yield Problem((*path, index), f"is the same as entry {seen[key]}: {key}")
            seen.setdefault(key, index)


def _list_key(item: object, node: Node) -> str | None:
    """What must be unique in this list, or None."""
    match node.get("x-kubernetes-list-type"):
        case "set":
            return _shown(item)
        case "map" if isinstance(item, dict):
            keys = node["x-kubernetes-list-map-keys"]
            return ", ".join(f"{key} {_shown(item.get(key))}" for key in keys)
    return None


def child_node(node: Node, key: str) -> Node:
    """The schema of a field, or of a map's values."""
    properties: Node = node.get("properties", {})
    if key in properties:
        child: Node = properties[key]
        return child
    extra = node.get("additionalProperties")
    return extra if isinstance(extra, Mapping) else {}


@dataclass(frozen=True, slots=True)
class _Place:
    """A value, what it was, its schema and where it stands."""

    value: Any
    old: Any
    node: Node
    path: FieldPath

    def children(self) -> Iterator["_Place"]:
        """The places below. Old values are found by name, in lists by key, else not at all."""
        if isinstance(self.value, dict):
            old = self.old if isinstance(self.old, dict) else {}
            for key, item in self.value.items():
                yield _Place(item, old.get(key), child_node(self.node, key), (*self.path, key))
        elif isinstance(self.value, list):
            items: Node = self.node.get("items", {})
            old_items = self.old if isinstance(self.old, list) else []
            olds = {_list_key(item, self.node): item for item in old_items}
            for index, item in enumerate(self.value):
                key = _list_key(item, self.node)
                old_item = olds.get(key) if key is not None else None
                yield _Place(item, old_item, items, (*self.path, index))


def _rule_problems(place: _Place, broken: set[FieldPath]) -> list[Problem]:
    """Problems of the rules here and below. `broken`: where types and limits do not hold."""
    below = [item for child in place.children() for item in _rule_problems(child, broken)]
    return [*below, *_own_rule_problems(place, broken, is_clean_below=not below)]


def _own_rule_problems(
    place: _Place, broken: set[FieldPath], *, is_clean_below: bool
) -> Iterator[Problem]:
    rules = place.node.get("x-kubernetes-validations", [])
    if not rules or any(path[: len(place.path)] == place.path for path in broken):
        return
    value = cel.to_cel(place.value, place.node)
    old = None if place.old is None else cel.to_cel(place.old, place.node)
    for rule in rules:
        if rule["rule"] == pattern_rule(place.node.get("pattern", "")):
            continue  # the pattern itself holds, or is told
        is_transition = "oldSelf" in rule["rule"]
        if is_transition and old is None:
            continue
        try:
            holds = cel.holds(rule["rule"], value, old if is_transition else None)
        except cel.RuleError:
            # Often the value of a field below, which has then been told already.
            holds = not is_clean_below
        if not holds:
            field = tuple(part for part in rule.get("fieldPath", "").split(".") if part)
            yield Problem(place.path + field, rule["message"])
