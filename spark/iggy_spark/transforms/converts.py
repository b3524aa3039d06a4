"""`proto_convert` and `avro_convert`: a field with an encoded message ↔ the object in it.

The payload as a whole is decoded by its format; these are for what lies encoded within a document,
as base64, as JSON has no bytes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from iggy_spark.errors import OptionError
from iggy_spark.formats.base import Format, Unreadable
from iggy_spark.formats.files import Files
from iggy_spark.transforms.arguments import Arguments, as_object, as_text
from iggy_spark.transforms.base import MISSING, At, Document, Step, TransformError
from iggy_spark.transforms.paths import find, put, shown

_COMMON = ("source_format", "target_format", "field", "into", "field_mappings")


def proto_convert(value: object, place: str, files: Files) -> Step:
    """Protobuf in a field → an object, or the other way."""
    known = (*_COMMON, "descriptor_set", "message_type", "any")
    if isinstance(value, dict) and "schema_path" in value:
        raise OptionError(
            f"{place}.schema_path: not possible here, name a descriptor_set: "
            "protoc --include_imports --descriptor_set_out=FILE ..."
        )
    given = Arguments(value, place, known)

    def form() -> Format:
        from iggy_spark.formats.protobuf import ProtobufFormat

        path, name = given.text("descriptor_set"), given.text("message_type")
        return ProtobufFormat(files.read(path, given.at("descriptor_set")), name, place)

    decode_any = given.flag("any", False)
    return _convert(given, "proto", form, unwrap=_of_any if decode_any else None)


def avro_convert(value: object, place: str, files: Files) -> Step:
    """Avro in a field → an object, or the other way."""
    given = Arguments(value, place, (*_COMMON, "schema_json", "schema_path"))

    def form() -> Format:
        from iggy_spark.formats.avro import AvroFormat

        if ("schema_json" in given) == ("schema_path" in given):
            raise OptionError(f"{place}: either schema_json or schema_path is expected")
        if "schema_json" in given:
            made = AvroFormat(given.text("schema_json"), given.at("schema_json"))
        else:
            at = given.at("schema_path")
            try:
                text = files.read(given.text("schema_path"), at).decode()
            except UnicodeDecodeError as error:
                raise OptionError(f"{at}: not UTF-8, so no Avro schema") from error
            made = AvroFormat(text, at)
        if given.value("target_format", "json") == "avro":
            made.check_writable()
        return made

    return _convert(given, "avro", form)


def _convert(
    given: Arguments,
    name: str,
    form: Callable[[], Format],
    *,
    unwrap: Callable[[bytes], bytes] | None = None,
) -> Step:
    decodes = _decodes(given, name)
    into = given.path("into" if "into" in given else "field")
    path = given.path("field") if "field" in given else ()
    names = _mappings(given)
    ready = form()

    def change(found: Any) -> Any:
        if decodes:
            return names(_decoded(ready, found, unwrap))
        return _encoded(ready, names(found))

    def step(document: Document, at: At) -> Document:
        found = find(document, path)
        if found is MISSING or found is None:
            return document
        try:
            made = change(found)
        except Unreadable as error:
            raise TransformError(f"{shown(path) or 'document'}: {error}") from error
        if not path:
            document = {}
        put(document, into, made)
        return document

    return step


def _decodes(given: Arguments, name: str) -> bool:
    """Whether it is from the format to an object; else it is the other way."""
    source = given.word("source_format", (name, "json"), name)
    target = given.word("target_format", (name, "json"), "json")
    if source == target:
        raise OptionError(f"{given.place}: from {source} to {target} there is nothing to convert")
    if "field" not in given and source == name:
        raise OptionError(
            f"{given.at('field')}: missing: which field has the encoded message? Whole payloads "
            "are decoded by their format"
        )
    if "into" not in given and "field" not in given:
        raise OptionError(f"{given.at('into')}: missing: which field gets the encoded document?")
    return source == name


def _mappings(given: Arguments) -> Callable[[Any], Any]:
    """New names for fields of the converted object's top level, all at once."""
    pairs = as_object(given.value("field_mappings", {}), given.at("field_mappings"))
    names = {old: as_text(new, f"{given.at('field_mappings')}.{old}") for old, new in pairs.items()}
    if not names:
        return lambda found: found
    return lambda found: (
        {names.get(key, key): value for key, value in found.items()}
        if isinstance(found, dict)
        else found
    )


def _decoded(form: Format, found: Any, unwrap: Callable[[bytes], bytes] | None) -> Any:
    if not isinstance(found, str):
        raise Unreadable("SchemaMismatch", "a text with base64 is expected")
    try:
        data = base64.b64decode(found, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unreadable("SchemaMismatch", f"not base64: {error}") from error
    values = form.read(data if unwrap is None else unwrap(data))
    return msgspec.to_builtins(values, builtin_types=(Decimal,), str_keys=True)


def _encoded(form: Format, found: Any) -> str:
    if not isinstance(found, dict):
        raise Unreadable("SchemaMismatch", "an object is expected")
    return base64.b64encode(form.write(found)).decode()


def _of_any(data: bytes) -> bytes:
    from google.protobuf.any_pb2 import Any as AnyMessage
    from google.protobuf.message import DecodeError

    try:
        return AnyMessage.FromString(data).value
    except DecodeError as error:
        raise Unreadable("MalformedProtobuf", str(error)) from error
