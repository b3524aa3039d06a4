"""Which column of a frame is what part of a message. What has no use is refused, never dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructType,
)

from iggy_spark.errors import OptionError
from iggy_spark.write_options import WriteOptions


@dataclass(frozen=True, slots=True)
class WriteColumns:
    """Positions of the columns in the frame; None: there is none, or it is not used."""

    payload: int
    key: int | None = None
    partition: int | None = None
    id: int | None = None
    headers: int | None = None
    stream: int | None = None
    topic: int | None = None


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_bytes_or_text(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, MapType) or not _is_text(kind.keyType):
        return False
    value = kind.valueType
    if isinstance(value, StructType):
        types = {item.name: item.dataType for item in value}
        return (
            list(types) == ["kind", "value"]
            and _is_text(types["kind"])
            and isinstance(types["value"], BinaryType)
        )
    return _is_bytes_or_text(value)


_COLUMNS: dict[str, tuple[Callable[[DataType], bool], str]] = {
    "payload": (_is_bytes_or_text, "BINARY or STRING"),
    "key": (_is_bytes_or_text, "BINARY or STRING"),
    "partition": (lambda kind: isinstance(kind, IntegerType), "INT"),
    "id": (lambda kind: isinstance(kind, BinaryType), "BINARY of 16 bytes"),
    "headers": (
        _is_headers,
        "MAP<STRING, STRING>, MAP<STRING, BINARY> or "
        "MAP<STRING, STRUCT<kind: STRING, value: BINARY>>",
    ),
    "stream": (_is_text, "STRING"),
    "topic": (_is_text, "STRING"),
}


def choose(schema: StructType, options: WriteOptions) -> WriteColumns:
    """The columns of a frame of this schema.

    Raises:
        OptionError: a column is missing, unknown, there twice, of another type, or has no use with
            these options.
    """
    found: dict[str, int] = {}
    for position, column in enumerate(schema):
        name = column.name.lower()
        if name not in _COLUMNS:
            raise OptionError(
                f"column {column.name} is no part of a message: drop it, or put it into payload or "
                f"headers; columns are {', '.join(_COLUMNS)}"
            )
        if name in found:
            raise OptionError(f"column {name} is there twice: keep one")
        fits, wanted = _COLUMNS[name]
        if not fits(column.dataType):
            raise OptionError(
                f"column {name} is {column.dataType.simpleString()}, must be {wanted}: cast it"
            )
        found[name] = position
    _check_use(found, options)
    for name in ("stream", "topic"):
        if getattr(options, name) is not None:
            found.pop(name, None)  # an option wins over the column
    return WriteColumns(**found)


def _check_use(found: dict[str, int], options: WriteOptions) -> None:
    if "payload" not in found:
        raise OptionError("column payload is missing: name the bytes or text of messages so")
    for name in ("stream", "topic"):
        if getattr(options, name) is None and name not in found:
            raise OptionError(f"{name} is missing: set the option, or add a column of that name")
    by_key, with_key = options.partitioning == "key", options.key_header is not None
    needs = (
        ("key", by_key or with_key, "partitioning=key" if by_key else "keyHeader"),
        ("partition", options.partitioning == "partition", "partitioning=partition"),
        ("id", options.ids == "column", "ids=column"),
    )
    for name, used, option in needs:
        if used and name not in found:
            raise OptionError(f"{option} needs a column {name}: add it, or change the option")
        if name in found and not used:
            what = "partitioning=key or keyHeader" if name == "key" else option
            raise OptionError(f"column {name} has no use without {what}: set that, or drop it")
