"""Avro payloads: one record each, by a schema that is declared.

A record may have the framing of a schema registry in front: a byte 0 and four bytes with the
schema's number (Confluent's wire format). The number is not looked up. The schema's attribute
`iggy.framing` says whether it is there: `registry`, `none`, or `auto` (the default): then a payload
is taken either way in which it is one whole record, and rejected if it is both ways.
"""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Callable
from typing import Any

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, UnknownType

from iggy_spark.errors import OptionError
from iggy_spark.formats import avro_columns
from iggy_spark.formats.base import SCHEMA_BYTES_MAX, Unreadable
from iggy_spark.typed import Columns

FRAMING = "iggy.framing"
FRAMING_BYTES = 5  # Confluent's wire format: magic byte 0 and a big-endian u32
_FRAMINGS = ("auto", "registry", "none")

# What fastavro raises for bytes that are not of the schema, and for values no Python type has.
_FAULTS = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
    StopIteration,
    decimal.InvalidOperation,
)

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY = _EPOCH.toordinal()


def _day(number: int, *_: Any) -> datetime.date | int:
    try:
        return datetime.date.fromordinal(_EPOCH_DAY + number)
    except (ValueError, OverflowError):
        return number


def _time(unit_us: int, zone: datetime.tzinfo | None) -> Callable[..., datetime.datetime | int]:
    epoch = _EPOCH.replace(tzinfo=zone)

    def read(number: int, *_: Any) -> datetime.datetime | int:
        try:
            return epoch + datetime.timedelta(microseconds=number * unit_us)
        except OverflowError:
            return number

    return read


# fastavro's way of adding logical types; the keys are its own: type and logical type.
fastavro.read.LOGICAL_READERS.update(
    {
        f"int-{avro_columns.OURS}date": _day,
        f"long-{avro_columns.OURS}timestamp-millis": _time(1000, datetime.UTC),
        f"long-{avro_columns.OURS}timestamp-micros": _time(1, datetime.UTC),
        f"long-{avro_columns.OURS}local-timestamp-millis": _time(1000, None),
        f"long-{avro_columns.OURS}local-timestamp-micros": _time(1, None),
    }
)
_NATIVE: Any = {"builtin_types": (bytes, datetime.datetime, datetime.date, decimal.Decimal)}


class AvroFormat:
    """One schema, ready for use."""

    def __init__(self, text: str, name: str) -> None:
        """`text` is the schema as JSON, `name` the option or setting that it comes from.

        Raises:
            OptionError: it is no schema of a record, or has what no column can have.
        """
        given = _parse(text, name)
        framing = given.get(FRAMING, "auto")
        if framing not in _FRAMINGS:
            raise OptionError(f"{name}: {FRAMING}: choose from {', '.join(_FRAMINGS)}")
        self._framing = framing
        found = avro_columns.Walk(name)
        self.fields = found.fields(given)
        self._unions = found.unions
        self._name = name
        try:
            rewritten = avro_columns.for_fastavro(given, prefix=avro_columns.OURS)
            self._schema = fastavro.parse_schema(rewritten)
            self._written = fastavro.parse_schema(avro_columns.for_fastavro(given))
        except (SchemaParseException, UnknownType, *_FAULTS) as error:
            raise OptionError(f"{name}: no Avro schema: {error}") from error
        self._columns = Columns(self.fields)

    def read(self, payload: bytes | memoryview) -> dict[str, Any]:
        """The record of a payload."""
        framed = len(payload) >= FRAMING_BYTES and payload[0] == 0
        if self._framing == "none" or (self._framing == "auto" and not framed):
            return self._record(payload)
        if self._framing == "registry":
            if not framed:
                raise Unreadable("MalformedAvro", "no framing of a registry in front")
            return self._record(payload[FRAMING_BYTES:])
        return self._either(payload)

    def _either(self, payload: bytes | memoryview) -> dict[str, Any]:
        try:
            with_framing = self._record(payload[FRAMING_BYTES:])
        except Unreadable:
            return self._record(payload)
        try:
            self._record(payload)
        except Unreadable:
            return with_framing
        raise Unreadable(
            "AmbiguousFraming",
            f"one record with and without framing: set {FRAMING} in the schema to registry or none",
        )

    def _record(self, data: bytes | memoryview) -> dict[str, Any]:
        source = io.BytesIO(data)
        try:
            found = fastavro.schemaless_reader(source, self._schema, None)
        except _FAULTS as error:
            raise Unreadable("MalformedAvro", _reason(error)) from error
        left = len(data) - source.tell()
        if left:
            raise Unreadable("MalformedAvro", f"{left} bytes are left behind the record")
        return found  # type: ignore[return-value]

    def check_writable(self) -> None:
        """See whether `write` can be used.

        Raises:
            OptionError: the schema has a union that a JSON document cannot choose from.
        """
        if self._unions:
            raise OptionError(
                f"{self._name}: {self._unions[0]}: a union of several types can be read only"
            )

    def write(self, document: dict[str, Any]) -> bytes:
        """A JSON document as a record, without framing."""
        target = io.BytesIO()
        try:
            row = msgspec.convert(document, self._columns.row, str_keys=True)
            fastavro.schemaless_writer(target, self._written, msgspec.to_builtins(row, **_NATIVE))
        except (msgspec.ValidationError, *_FAULTS) as error:
            raise Unreadable("SchemaMismatch", _reason(error)) from error
        return target.getvalue()


def _reason(error: BaseException) -> str:
    return str(error) or f"the record ends too early ({type(error).__name__})"


def _parse(text: str, name: str) -> dict[str, Any]:
    if len(text.encode()) > SCHEMA_BYTES_MAX:
        raise OptionError(f"{name}: an Avro schema of more than {SCHEMA_BYTES_MAX} bytes")
    try:
        given = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise OptionError(f"{name}: no JSON, so no Avro schema: {error}") from error
    if not isinstance(given, dict) or given.get("type") != "record":
        raise OptionError(f"{name}: an Avro schema of type record is expected")
    return given
