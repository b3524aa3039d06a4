"""The declared list of transforms: checked once, and made into steps where they run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from iggy_spark.errors import OptionError
from iggy_spark.formats.files import Files
from iggy_spark.transforms import casts, converts, fields, masks, shapes
from iggy_spark.transforms.arguments import as_object, nearest, shown
from iggy_spark.transforms.base import Step
from iggy_spark.transforms.computed import ALLOW_UNREPEATABLE, NOT_REPEATABLE

TRANSFORMS_MAX = 32

_log = logging.getLogger(__name__)

_KINDS: dict[str, Callable[[Any, str], Step]] = {
    "add_fields": fields.add_fields,
    "update_fields": fields.update_fields,
    "delete_fields": fields.delete_fields,
    "filter_fields": fields.filter_fields,
    "unwrap_envelope": shapes.unwrap_envelope,
    "filter_messages": fields.filter_messages,
    "rename_fields": fields.rename_fields,
    "cast_fields": casts.cast_fields,
    "flatten": shapes.flatten,
    "mask_fields": masks.mask_fields,
    "headers_to_fields": shapes.headers_to_fields,
    "metadata_to_fields": shapes.metadata_to_fields,
}
_WITH_FILES: dict[str, Callable[[Any, str, Files], Step]] = {
    "proto_convert": converts.proto_convert,
    "avro_convert": converts.avro_convert,
}
KINDS = (*_KINDS, *_WITH_FILES)
# Iggy's connectors take a table with one transform of each kind, in no defined order.
TABLE_ORDER = (
    "filter_fields",
    "unwrap_envelope",
    "proto_convert",
    "avro_convert",
    "add_fields",
    "update_fields",
    "delete_fields",
)


@dataclass(frozen=True, slots=True)
class Transform:
    """One declared transform."""

    kind: str
    place: str  # where it was declared, such as transforms[3].add_fields
    arguments: str  # as JSON


def parse(value: object, name: str) -> tuple[Transform, ...]:
    """A list of transforms, or a table with one of each kind.

    `name` is the option or setting that it comes from. Arguments are checked by `steps`.

    Raises:
        OptionError: it is neither, there are too many, or a kind is unknown.
    """
    if value is None:
        return ()
    if isinstance(value, dict):
        found = _of_table(value, name)
    elif isinstance(value, list):
        found = [_of_item(item, f"{name}[{number}]") for number, item in enumerate(value)]
    else:
        raise OptionError(f"{name}: a list of transforms is expected, not {shown(value)}")
    if len(found) > TRANSFORMS_MAX:
        raise OptionError(f"{name}: {len(found)} transforms, at most {TRANSFORMS_MAX} are possible")
    return tuple(found)


def _of_item(item: object, place: str) -> Transform:
    given = as_object(item, place)
    if len(given) != 1:
        raise OptionError(
            f"{place}: exactly one key is expected, the kind of the transform, not "
            f"{', '.join(given) or 'none'}"
        )
    ((kind, arguments),) = given.items()
    _check_kind(kind, place)
    return Transform(kind, f"{place}.{kind}", _json(arguments, f"{place}.{kind}"))


def _of_table(table: dict[Any, Any], name: str) -> list[Transform]:
    found = {}
    for kind, value in as_object(table, name).items():
        _check_kind(kind, name)
        if kind not in TABLE_ORDER:
            raise OptionError(f"{name}: {kind} needs the form of a list: - {kind}: ...")
        arguments = dict(as_object(value, f"{name}.{kind}"))
        if arguments.pop("enabled", True) is not False:
            place = f"{name}.{kind}"
            found[kind] = Transform(kind, place, _json(arguments, place))
    if found:
        order = [kind for kind in TABLE_ORDER if kind in found]
        _log.warning("%s: a table has no order; it runs as %s", name, ", ".join(order))
    return [found[kind] for kind in TABLE_ORDER if kind in found]


def _check_kind(kind: str, place: str) -> None:
    if kind == "flatbuffer_convert":
        raise OptionError(
            f"{place}: flatbuffer_convert is not possible here, leave it out: FlatBuffers cannot "
            "be read without generated code; carry such messages as they are, as Raw"
        )
    if kind not in KINDS:
        raise OptionError(f"{place}: {kind} is not a transform, {nearest(kind, KINDS)}")


def _json(arguments: object, place: str) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"{place}: no JSON value: {error}") from error


def steps(transforms: Sequence[Transform], files: Files) -> tuple[Step, ...]:
    """The transforms, ready to run in this process.

    Raises:
        OptionError: an argument is unknown or wrong, or what it names is not here.
    """
    return tuple(_step(one, files) for one in transforms)


def _step(transform: Transform, files: Files) -> Step:
    arguments = msgspec.json.decode(transform.arguments)
    if transform.kind in _WITH_FILES:
        return _WITH_FILES[transform.kind](arguments, transform.place, files)
    return _KINDS[transform.kind](arguments, transform.place)


def unrepeatable(transforms: Iterable[Transform]) -> tuple[str, ...]:
    """The places whose values differ when a message is read again, such as uuid_v4 and date_time,
    but for those that are allowed to.

    A target that tells repeated messages by their content must not get them.
    """
    computing = [one for one in transforms if one.kind in ("add_fields", "update_fields")]
    return tuple(
        f"{one.place}.fields[{number}]: {kind}"
        for one in computing
        if not (given := msgspec.json.decode(one.arguments)).get(ALLOW_UNREPEATABLE)
        for number, field in enumerate(given["fields"])
        if (kind := field["value"].get("computed")) in NOT_REPEATABLE
    )
