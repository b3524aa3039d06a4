"""What messages hold and how that becomes columns: declared once, checked before anything starts.

The data source and the sink job declare it under names of their own; `Names` carries them, so that
an error says what the reader of it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from iggy_spark import schema
from iggy_spark.errors import OptionError
from iggy_spark.formats.base import SCHEMA_BYTES_MAX, Format
from iggy_spark.formats.files import Files

if TYPE_CHECKING:
    from iggy_spark.transforms.base import Step
    from iggy_spark.transforms.plan import Transform

FORMATS = ("raw", "text", "json", "avro", "protobuf")
ON_ERROR = ("fail", "keep", "skip")
# What metadata_to_fields adds and no table has by itself: columns may have these names.
METADATA_NAMES = ("iggy_id", "iggy_origin_timestamp", "iggy_stream", "iggy_topic")


@dataclass(frozen=True, slots=True)
class Payload:
    """A checked declaration. Travels to the tasks, so everything in it can be pickled."""

    format: str = "raw"  # one of FORMATS
    schema_text: str | None = None  # as declared
    fields: tuple[schema.Field, ...] = ()  # the declared columns, none for a document as it is
    transforms: tuple[Transform, ...] = ()
    on_error: str = "fail"  # one of ON_ERROR
    files: tuple[tuple[str, bytes], ...] = field(
        default=(), repr=False
    )  # what schema and transforms name, as it was read

    @property
    def is_document(self) -> bool:
        """Whether the value is the JSON document itself, not columns of it."""
        return self.format == "json" and not self.fields


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts are called where they were declared."""

    format: str
    schema: str
    columns: str
    transforms: str
    capitals: bool = False  # whether formats are written like Json

    def word(self, chosen: str) -> str:
        """A format as it is written there."""
        return chosen.capitalize() if self.capitals else chosen


OPTION_NAMES = Names("payloadFormat", "payloadSchema", "payloadColumns", "transforms")
JOB_NAMES = Names(
    "sink.payload.format",
    "sink.payload.schema",
    "sink.payload.columns",
    "sink.transforms",
    capitals=True,
)


def parse(
    format_name: str,
    schema_text: str | None,
    transforms: Any = (),
    *,
    columns: str | None = None,
    on_error: str = "fail",
    names: Names,
) -> Payload:
    """Check a declaration. `transforms` is the list as JSON values.

    `columns` are those after the transforms, for formats whose schema gives columns of its own.

    Raises:
        OptionError: the parts are wrong, or do not go together; it names the part.
    """
    chosen = "protobuf" if format_name == "proto" and not names.capitals else format_name.lower()
    if chosen not in FORMATS or (names.capitals and names.word(chosen) != format_name):
        known = ", ".join(map(names.word, FORMATS))
        raise OptionError(f"{names.format}: {format_name!r} is not a format, use one of {known}")
    files = Files()
    fields = _fields(chosen, schema_text, names, files)
    if columns is not None:
        if chosen not in ("avro", "protobuf"):
            both = " or ".join(map(names.word, ("avro", "protobuf")))
            raise OptionError(f"{names.columns} goes with {names.format}={both}: leave it out")
        fields = schema.parse(columns, name=names.columns)
    planned = _planned(chosen, transforms, names, files)
    held = tuple(sorted(files.held.items()))
    return Payload(chosen, schema_text, fields, planned, on_error, held)


def parse_text(name: str, text: str) -> Any:
    """Transforms from an option's text, as JSON values.

    Raises:
        OptionError: it is no JSON, or too long.
    """
    if len(text) > SCHEMA_BYTES_MAX:
        raise OptionError(f"{name}: more than {SCHEMA_BYTES_MAX} characters")
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise OptionError(f'{name}: no JSON: {error}; write [{{"delete_fields": ...}}]') from error


def _fields(chosen: str, text: str | None, names: Names, files: Files) -> tuple[schema.Field, ...]:
    goes_with = f"{names.format}={names.word(chosen)}"
    if chosen == "json":
        return () if text is None else schema.parse(text, name=names.schema)
    if chosen in ("avro", "protobuf"):
        if text is None:
            what = "a schema in JSON" if chosen == "avro" else "a descriptor set and a message name"
            raise OptionError(f"{names.schema} is missing: {goes_with} needs {what}")
        return _form(chosen, text, names.schema, files).fields
    if text is not None:
        raise OptionError(
            f"{names.schema} does not go with {goes_with}: leave it out, or say what else it is"
        )
    return ()


def _form(chosen: str, text: str, name: str, files: Files) -> Format:
    if chosen == "avro":
        from iggy_spark.formats.avro import AvroFormat

        return AvroFormat(text, name)
    from iggy_spark.formats.protobuf import ProtobufFormat

    path, _, message = text.strip().rpartition(" ")
    if not path.strip():
        raise OptionError(
            f"{name}: the path of a descriptor set and the name of a message are expected, such as "
            "/schemas/orders.pb shop.Order"
        )
    return ProtobufFormat(files.read(path.strip(), name), message, name)


def _planned(chosen: str, transforms: Any, names: Names, files: Files) -> tuple[Transform, ...]:
    if not transforms:
        return ()
    from iggy_spark.transforms import plan

    found = plan.parse(transforms, names.transforms)
    if found and chosen in ("raw", "text"):
        raise OptionError(
            f"{names.transforms}: {names.word(chosen)} payloads have no fields to change: set "
            f"{names.format}, or leave them out"
        )
    plan.steps(found, files)  # only to see that they can be built
    return found


def form(payload: Payload) -> Format:
    """The format of a payload with a schema of its own, ready for use in this process."""
    assert payload.schema_text is not None, "checked by parse"
    return _form(payload.format, payload.schema_text, "payload", Files(dict(payload.files)))


def steps(payload: Payload) -> Sequence[Step]:
    """The transforms, ready to run in this process.

    Raises:
        OptionError: what they name, such as the key of a mask, is not here.
    """
    if not payload.transforms:
        return ()
    from iggy_spark.transforms import plan

    return plan.steps(payload.transforms, Files(dict(payload.files)))


def unrepeatable(payload: Payload) -> tuple[str, ...]:
    """The places of computed values that differ when a message is read again; see `plan`.

    Such a payload must not go with exactly-once delivery, unless whoever asks for it says so.
    """
    if not payload.transforms:
        return ()
    from iggy_spark.transforms import plan

    return plan.unrepeatable(payload.transforms)
