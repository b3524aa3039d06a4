"""Avro schemas → columns, and the schema with which fastavro reads values of these columns.

| Avro | column |
|---|---|
| boolean, string, bytes | BOOLEAN, STRING, BINARY |
| int, long, float, double | INT, BIGINT, FLOAT, DOUBLE |
| enum, fixed | STRING, BINARY |
| array, map, record | ARRAY, MAP<STRING, ...>, STRUCT |
| union with null | the other type, nullable |
| union of several types | STRUCT of member0, member1, ..., one of which is not null |
| null, alone | no column |
| decimal, date | DECIMAL, DATE |
| timestamp-millis, timestamp-micros | TIMESTAMP |
| local-timestamp-millis, local-timestamp-micros | TIMESTAMP_NTZ |
| other logical types | their number, text or bytes |

The names of union members are those of Spark's own Avro functions.
"""

from __future__ import annotations

from typing import Any

from iggy_spark import schema
from iggy_spark.errors import OptionError

_PRIMITIVES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BINARY",
}
_LOGICAL = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
# Our own readers of these types give a time that no calendar has as the number that it is, so that
# it is told with its path when it does not fit the column.
OURS = "iggy-"
_NULLS: tuple[Any, ...] = ("null", {"type": "null"})
_NAMED = ("record", "error", "enum", "fixed")


class Walk:
    """Goes through one schema. What no column can be is an OptionError with the field's path."""

    def __init__(self, name: str) -> None:
        """`name` is the option or setting that the schema comes from."""
        self._name = name
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        self._inside: list[str] = []
        self.unions: list[str] = []  # paths of unions of several types

    def fields(self, record: dict[str, Any]) -> tuple[schema.Field, ...]:
        """The columns of the outermost record."""
        kind = self._type(record, "$", "")
        assert isinstance(kind, schema.Struct)
        return kind.fields

    def _error(self, path: str, what: str) -> OptionError:
        return OptionError(f"{self._name}: {path}: {what}")

    def _type(self, given: Any, path: str, space: str) -> schema.Type:
        """The type of one value that is not null."""
        if len(self._inside) > schema.DEPTH_MAX:
            raise self._error(path, f"nested deeper than {schema.DEPTH_MAX}")
        self._inside.append("")
        try:
            if isinstance(given, str):
                return self._by_name(given, path, space)
            if isinstance(given, list):
                return self._union(given, path, space)[0]
            if isinstance(given, dict):
                return self._complex(given, path, space)
        finally:
            self._inside.pop()
        raise self._error(path, f"{given!r:.60} is no Avro type")

    def _by_name(self, given: str, path: str, space: str) -> schema.Type:
        if given in _PRIMITIVES:
            return schema.scalar(_PRIMITIVES[given])
        full = given if "." in given or not space else f"{space}.{given}"
        found = self._named.get(full) or self._named.get(given)
        if found is None:
            raise self._error(path, f"{given!r} is no Avro type")
        if full in self._inside or given in self._inside:
            raise self._error(path, f"{given} contains itself, which no column can")
        return self._complex(found[0], path, found[1])

    def _complex(self, given: dict[str, Any], path: str, space: str) -> schema.Type:
        kind = given.get("type")
        if kind in _NAMED:
            return self._named_type(given, path, space)
        if kind == "array":
            return schema.Array(self._element(given.get("items"), f"{path}[]", space))
        if kind == "map":
            return schema.Map(
                schema.scalar("STRING"), self._element(given.get("values"), f"{path}.*", space)
            )
        if _logical(given) == "decimal":
            return self._decimal(given, path)
        if _logical(given) is not None:
            return schema.scalar(_LOGICAL[_logical(given)])
        return self._type(kind, path, space)

    def _element(self, given: Any, path: str, space: str) -> schema.Type:
        found = self._nullable(given, path, space)
        if found is None:
            raise self._error(path, "nothing but null, which no column can be")
        return found[0]

    def _named_type(self, given: dict[str, Any], path: str, space: str) -> schema.Type:
        name = str(given.get("name", ""))
        own = name.rpartition(".")[0]
        space = own or str(given.get("namespace", space) or "")
        full = name if "." in name or not space else f"{space}.{name}"
        self._named[full] = (given, space)
        if given["type"] == "enum":
            return schema.scalar("STRING")
        if given["type"] == "fixed":
            # Without bytes a payload of ten bytes could hold a list that never ends.
            if not isinstance(given.get("size"), int) or given["size"] < 1:
                raise self._error(path, f"a fixed of size {given.get('size')!r:.20}")
            decimal = _logical(given) == "decimal"
            return self._decimal(given, path) if decimal else schema.scalar("BINARY")
        self._inside[-1] = full
        return self._record(given, path, space)

    def _record(self, given: dict[str, Any], path: str, space: str) -> schema.Type:
        fields = []
        parts = given.get("fields")
        for part in parts if isinstance(parts, list) else []:
            if not isinstance(part, dict) or not isinstance(part.get("name"), str):
                raise self._error(path, "a field without a name")
            at = f"{path}.{part['name']}"
            found = self._nullable(part.get("type"), at, space)
            if found is not None:
                fields.append(schema.Field(part["name"], found[0], found[1]))
        fault = schema.fault_of(fields)
        if fault is not None:
            raise self._error(path, fault)
        return schema.Struct(tuple(fields))

    def _nullable(self, given: Any, path: str, space: str) -> tuple[schema.Type, bool] | None:
        """A type and whether it may be null; None if it is nothing but null."""
        if given in _NULLS:
            return None
        if isinstance(given, dict) and isinstance(given.get("type"), list):
            given = given["type"]
        if isinstance(given, list):
            return self._union(given, path, space) if _branches(given) else None
        return self._type(given, path, space), False

    def _union(self, given: list[Any], path: str, space: str) -> tuple[schema.Type, bool]:
        branches = _branches(given)
        nullable = len(branches) < len(given)
        if len(branches) == 1:
            return self._type(branches[0], path, space), nullable
        self.unions.append(path)
        members = tuple(
            schema.Field(
                f"member{number}", self._type(branch, f"{path}.member{number}", space), True
            )
            for number, branch in enumerate(branches)
        )
        return schema.Struct(members), nullable

    def _decimal(self, given: dict[str, Any], path: str) -> schema.Type:
        precision, scale = given.get("precision"), given.get("scale", 0)
        if (
            not isinstance(precision, int)
            or not isinstance(scale, int)
            or not 0 <= scale <= precision <= schema.DECIMAL_DIGITS_MAX
            or not precision
        ):
            raise self._error(
                path, f"a decimal of {precision!r} digits, {scale!r} behind the point"
            )
        return schema.decimal(precision, scale)


def _branches(union: list[Any]) -> list[Any]:
    return [branch for branch in union if branch not in _NULLS]


def _logical(given: dict[str, Any]) -> Any:
    """The logical type, if it has a column of its own and the right type beneath; else None."""
    kind, logical = given.get("type"), given.get("logicalType")
    if logical == "decimal":
        return logical if kind in ("bytes", "fixed") else None
    carrier = "int" if logical == "date" else "long"  # Avro 1.12
    return logical if isinstance(logical, str) and logical in _LOGICAL and kind == carrier else None


def for_fastavro(given: Any, *, prefix: str = "") -> Any:
    """The schema for fastavro: the same bytes, but values come as the columns want them.

    A branch of a union of several types becomes a record with that one field: a record has no
    bytes of its own. Logical types without a column of their own are taken off; those of times get
    the prefix.
    """
    return _Rewrite(prefix).of(given)


class _Rewrite:
    def __init__(self, prefix: str) -> None:
        self._members = 0
        self._prefix = prefix

    def of(self, given: Any) -> Any:
        if isinstance(given, list):
            return self._union(given)
        if not isinstance(given, dict):
            return given
        made = {key: value for key, value in given.items() if key not in ("logicalType", "default")}
        logical = _logical(given)
        if logical is not None:
            made["logicalType"] = logical if logical == "decimal" else f"{self._prefix}{logical}"
        for part in ("type", "items", "values"):
            if isinstance(made.get(part), (dict, list)):
                made[part] = self.of(made[part])
        if isinstance(given.get("fields"), list):
            made["fields"] = [self.of(field) for field in given["fields"]]
        return made

    def _union(self, given: list[Any]) -> list[Any]:
        if len(_branches(given)) <= 1:
            return [self.of(branch) for branch in given]
        made, number = [], 0
        for branch in given:
            if branch in _NULLS:
                made.append(branch)
                continue
            self._members += 1
            field = {"name": f"member{number}", "type": self.of(branch)}
            name = f"iggy_member_{self._members}"
            made.append({"type": "record", "name": name, "fields": [field]})
            number += 1
        return made
