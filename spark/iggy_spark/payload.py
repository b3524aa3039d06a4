"""What messages hold and how that becomes columns: declared once, checked before anything starts.

The data source and the sink job declare it under names of their own; `Names` carries them, so that
an error says what the reader of it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iggy_spark import schema
from iggy_spark.errors import OptionError

FORMATS = ("raw", "text", "json")
ON_ERROR = ("fail", "keep", "skip")


@dataclass(frozen=True, slots=True)
class Payload:
    """A checked declaration. Travels to the tasks, so everything in it can be pickled."""

    format: str = "raw"  # one of FORMATS
    schema_text: str | None = None  # as declared
    fields: tuple[schema.Field, ...] = ()  # the columns that the schema declares
    transforms: tuple[Any, ...] = ()
    on_error: str = "fail"  # one of ON_ERROR


@dataclass(frozen=True, slots=True)
class Names:
    """What the parts are called where they were declared."""

    format: str
    schema: str
    transforms: str
    capitals: bool = False  # whether formats are written like Json

    def word(self, chosen: str) -> str:
        """A format as it is written there."""
        return chosen.capitalize() if self.capitals else chosen


OPTION_NAMES = Names("payloadFormat", "payloadSchema", "transforms")
JOB_NAMES = Names("sink.payload.format", "sink.payload.schema", "sink.transforms", capitals=True)


def parse(
    format_name: str,
    schema_text: str | None,
    transforms: Any = (),
    *,
    on_error: str = "fail",
    names: Names,
) -> Payload:
    """Check a declaration.

    Raises:
        OptionError: the parts are wrong, or do not go together; it names the part.
    """
    chosen = format_name.lower()
    if chosen not in FORMATS or names.word(chosen) != format_name:
        known = ", ".join(map(names.word, FORMATS))
        raise OptionError(f"{names.format}: {format_name!r} is not a format, use one of {known}")
    if transforms:
        raise OptionError(f"{names.transforms}: not in this version, leave it out")
    fields = _fields(chosen, schema_text, names)
    return Payload(chosen, schema_text, fields, on_error=on_error)


def _fields(chosen: str, text: str | None, names: Names) -> tuple[schema.Field, ...]:
    goes_with = f"{names.format}={names.word('json')}"
    if chosen == "json":
        if text is None:
            raise OptionError(
                f'{names.schema} is missing: {goes_with} needs one, such as "id BIGINT"'
            )
        return schema.parse(text, name=names.schema)
    if text is not None:
        raise OptionError(f"{names.schema} goes with {goes_with}: set it, or leave this out")
    return ()
