"""Protobuf payloads: one message each, by a descriptor set that `protoc` made.

| Protobuf | column |
|---|---|
| bool, string, bytes, float, double | BOOLEAN, STRING, BINARY, FLOAT, DOUBLE |
| int32, sint32, sfixed32; int64, sint64, sfixed64 | INT; BIGINT |
| uint32, fixed32; uint64, fixed64 | BIGINT; DECIMAL(20,0) |
| enum | STRING: the name, or the number as text if it has none |
| message, group; repeated; map | STRUCT; ARRAY; MAP |
| google.protobuf.Timestamp | TIMESTAMP; what is less than a microsecond is cut off |
| google.protobuf wrappers, such as StringValue | the wrapped type, nullable |
| google.protobuf Struct, Value, ListValue | STRING with JSON |

A field that can be absent (optional, oneof, message) is null if it is; one that cannot has its
default. Unknown fields and extensions are left out.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from iggy_spark import schema
from iggy_spark.errors import OptionError
from iggy_spark.formats.base import Unreadable

_D = FieldDescriptor
_SCALARS = {
    _D.TYPE_BOOL: "BOOLEAN",
    _D.TYPE_STRING: "STRING",
    _D.TYPE_BYTES: "BINARY",
    _D.TYPE_FLOAT: "FLOAT",
    _D.TYPE_DOUBLE: "DOUBLE",
    _D.TYPE_INT32: "INT",
    _D.TYPE_SINT32: "INT",
    _D.TYPE_SFIXED32: "INT",
    _D.TYPE_INT64: "BIGINT",
    _D.TYPE_SINT64: "BIGINT",
    _D.TYPE_SFIXED64: "BIGINT",
    _D.TYPE_UINT32: "BIGINT",
    _D.TYPE_FIXED32: "BIGINT",
    _D.TYPE_ENUM: "STRING",
}
_UINT64 = (_D.TYPE_UINT64, _D.TYPE_FIXED64)
_GOOGLE = "google.protobuf."
_WRAPPERS = {
    f"{_GOOGLE}{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
}
_JSON = {f"{_GOOGLE}{kind}" for kind in ("Struct", "Value", "ListValue")}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECONDS_MIN, _SECONDS_MAX = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_NANOS_MAX = 999_999_999

Read = Callable[[Any, str], Any]  # a value and its path → the column's value


class ProtobufFormat:
    """One message type, ready for use."""

    def __init__(self, descriptor_set: bytes, message: str, name: str) -> None:
        """`name` is the option or setting that both come from.

        Raises:
            OptionError: the set is none or lacks files, the message is not in it, or has what no
                column can have.
        """
        self._name = name
        found = _load(descriptor_set, message, name)
        self._class: Any = message_factory.GetMessageClass(found)
        kind, self._read = self._struct(found, "$", (found.full_name,))
        assert isinstance(kind, schema.Struct)
        self.fields = kind.fields

    def read(self, payload: bytes | memoryview) -> dict[str, Any]:
        """The message of a payload."""
        try:
            found = self._class.FromString(bytes(payload))
        except (DecodeError, RecursionError) as error:
            raise Unreadable("MalformedProtobuf", str(error)) from error
        if not found.IsInitialized():
            missing = ", ".join(found.FindInitializationErrors())
            raise Unreadable("SchemaMismatch", f"required fields are missing: {missing}")
        result: dict[str, Any] = self._read(found, "$")
        return result

    def write(self, document: dict[str, Any]) -> bytes:
        """A JSON document, by Protobuf's own mapping of JSON, as a message."""
        try:
            made = json_format.ParseDict(_plain(document), self._class())
            data: bytes = made.SerializeToString(deterministic=True)
            return data
        except (json_format.Error, ValueError, TypeError, RecursionError) as error:
            raise Unreadable("SchemaMismatch", str(error)) from error

    def _error(self, path: str, what: str) -> OptionError:
        return OptionError(f"{self._name}: {path}: {what}")

    def _struct(
        self, given: Descriptor, path: str, inside: tuple[str, ...]
    ) -> tuple[schema.Type, Read]:
        if len(inside) > schema.DEPTH_MAX:
            raise self._error(path, f"nested deeper than {schema.DEPTH_MAX}")
        fields, readers = [], []
        for field in given.fields:
            kind, read = self._field(field, f"{path}.{field.name}", inside)
            fields.append(
                schema.Field(field.name, kind, field.has_presence and not field.is_required)
            )
            readers.append((field.name, read, field.has_presence))
        fault = schema.fault_of(fields)
        if fault is not None:
            raise self._error(path, fault)

        def read_all(message: Message, at: str) -> dict[str, Any]:
            return {
                name: None
                if absent and not message.HasField(name)
                else read(getattr(message, name), f"{at}.{name}")
                for name, read, absent in readers
            }

        return schema.Struct(tuple(fields)), read_all

    def _field(
        self, field: FieldDescriptor, path: str, inside: tuple[str, ...]
    ) -> tuple[schema.Type, Read]:
        if not field.is_repeated:
            return self._single(field, path, inside)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return self._map(entry, path, inside)
        kind, read = self._single(field, f"{path}[]", inside)
        return schema.Array(kind), lambda values, at: [
            read(value, f"{at}[{number}]") for number, value in enumerate(values)
        ]

    def _map(
        self, entry: Descriptor, path: str, inside: tuple[str, ...]
    ) -> tuple[schema.Type, Read]:
        key, _ = self._single(entry.fields_by_name["key"], path, inside)
        if not isinstance(key, schema.Scalar) or key.ddl not in schema.KEY_TYPES:
            # bool and uint64 keys: as texts, as Protobuf's JSON has them
            key = schema.scalar("STRING")
            name: Callable[[Any], Any] = lambda value: str(value).lower()  # noqa: E731
        else:
            name = _same
        kind, read = self._single(entry.fields_by_name["value"], f"{path}.*", inside)
        return schema.Map(key, kind), lambda values, at: {
            name(key): read(values[key], f"{at}.{key}") for key in values
        }

    def _single(
        self, field: FieldDescriptor, path: str, inside: tuple[str, ...]
    ) -> tuple[schema.Type, Read]:
        if field.type in _UINT64:
            return schema.decimal(20, 0), lambda value, at: Decimal(value)
        if field.type == _D.TYPE_ENUM:
            assert field.enum_type is not None
            names = {
                number: value.name for number, value in field.enum_type.values_by_number.items()
            }
            return schema.scalar("STRING"), lambda value, at: names.get(value) or str(value)
        if field.type in _SCALARS:
            return schema.scalar(_SCALARS[field.type]), lambda value, at: value
        assert field.message_type is not None
        return self._message(field.message_type, path, inside)

    def _message(
        self, inner: Descriptor, path: str, inside: tuple[str, ...]
    ) -> tuple[schema.Type, Read]:
        if inner.full_name == f"{_GOOGLE}Timestamp":
            return schema.scalar("TIMESTAMP"), _timestamp
        if inner.full_name in _WRAPPERS:
            kind, read = self._single(inner.fields_by_name["value"], path, inside)
            return kind, lambda value, at: read(value.value, at)
        if inner.full_name in _JSON:
            return schema.scalar("STRING"), _json
        if inner.full_name in inside:
            raise self._error(path, f"{inner.full_name} contains itself, which no column can")
        return self._struct(inner, path, (*inside, inner.full_name))


def _same(value: Any) -> Any:
    return value


def _timestamp(value: Any, at: str) -> datetime.datetime:
    if not (_SECONDS_MIN <= value.seconds <= _SECONDS_MAX and 0 <= value.nanos <= _NANOS_MAX):
        raise Unreadable("SchemaMismatch", f"not within the years 1 to 9999 - at `{at}`")
    return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def _json(value: Message, at: str) -> str:
    try:
        return json_format.MessageToJson(value, indent=None)
    except (json_format.Error, ValueError, RecursionError) as error:
        raise Unreadable("SchemaMismatch", f"{error} - at `{at}`") from error


def _plain(value: Any) -> Any:
    """Decimals as texts, which Protobuf's JSON takes for numbers."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Decimal) else value


def _load(data: bytes, message: str, name: str) -> Descriptor:
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise OptionError(
            f"{name}: no descriptor set: make it with protoc --descriptor_set_out"
        ) from error
    if not files.file:
        raise OptionError(f"{name}: the descriptor set is empty")
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(message)
    except KeyError as error:
        known = ", ".join(_names(files)) or "none"
        raise OptionError(f"{name}: no message {message!r}, there is: {known[:300]}") from error
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"{name}: the descriptor set lacks what it imports: make it with --include_imports "
            f"({error})"
        ) from error


def _names(files: descriptor_pb2.FileDescriptorSet) -> list[str]:
    return [
        f"{file.package}.{item.name}" if file.package else item.name
        for file in files.file
        if not file.package.startswith("google.protobuf")
        for item in file.message_type
    ]
