"""Transforms of the whole document: unwrapping, flattening, and what is known of the message."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from iggy_spark.transforms.arguments import Arguments, as_text
from iggy_spark.transforms.base import MISSING, At, Document, Step, TransformError
from iggy_spark.transforms.computed import time_text
from iggy_spark.transforms.paths import Path, find, put, shown, wildcard

DEPTH_MAX = 100  # of objects that flatten looks into
PREFIX = "iggy_"


def unwrap_envelope(value: object, place: str) -> Step:
    """The object at `field` becomes the document. Null counts as missing."""
    given = Arguments(value, place, ("field", "onMissing"))
    path = given.path("field")
    missing = given.word("onMissing", ("keep", "error", "drop"), "keep")

    def step(document: Document, at: At) -> Document | None:
        inner = find(document, path)
        if isinstance(inner, dict):
            return inner
        if inner is not MISSING and inner is not None:
            raise TransformError(f"{shown(path)}: not an object, so it cannot become the document")
        if missing == "error":
            raise TransformError(f"{shown(path)}: missing")
        return document if missing == "keep" else None

    return step


def flatten(value: object, place: str) -> Step:
    """Fields of objects within become fields of the document; lists stay."""
    given = Arguments(value, place, ("separator", "depth"))
    separator = given.text("separator", "_")
    depth_max = given.whole("depth", DEPTH_MAX, 1, DEPTH_MAX)

    def step(document: Document, at: At) -> Document:
        found: Document = {}
        _flatten(document, "", depth_max, separator, found)
        return found

    return step


def _flatten(document: Document, prefix: str, depth: int, separator: str, found: Document) -> None:
    for key, value in document.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and depth:
            _flatten(value, f"{name}{separator}", depth - 1, separator, found)
        elif name in found:
            raise TransformError(f"{name}: two fields get this name")
        else:
            found[name] = value


_METADATA: dict[str, Callable[[At], Any]] = {
    "id": lambda at: at.messages.ids[at.row],
    "offset": lambda at: at.messages.offsets[at.row],
    "timestamp": lambda at: at.messages.timestamps_us[at.row],
    "origin_timestamp": lambda at: at.messages.origin_timestamps_us[at.row],
    "stream": lambda at: at.messages.stream,
    "topic": lambda at: at.messages.topic,
    "partition_id": lambda at: at.messages.partition,
}
_TIMES = ("timestamp", "origin_timestamp")


def metadata_to_fields(value: object, place: str) -> Step:
    """Where and when the message was: fields named as Iggy's own sinks name them."""
    given = Arguments(value, place, ("fields", "prefix", "into", "times"))
    names = [as_text(item, at) for item, at in given.items("fields", list(_METADATA))]
    for number, name in enumerate(names):
        Arguments({name: None}, f"{given.at('fields')}[{number}]", _METADATA)
    as_times = given.word("times", ("micros", "text"), "micros") == "text"
    target = _target(given)

    def read(name: str) -> Callable[[At], Any]:
        plain = _METADATA[name]
        if not as_times or name not in _TIMES:
            return plain

        def text(at: At) -> str:
            try:
                return time_text(plain(at))
            except OverflowError as error:
                raise TransformError(f"{name}: {plain(at)} is not within 9999 years") from error

        return text

    readers = [(name, read(name)) for name in names]

    def step(document: Document, at: At) -> Document:
        for name, compute in readers:
            put(document, target(name), compute(at))
        return document

    return step


def headers_to_fields(value: object, place: str) -> Step:
    """User headers as fields. Bytes become base64, other values stay what they are."""
    given = Arguments(value, place, ("headers", "prefix", "into"))
    wanted = [_name(as_text(item, at)) for item, at in given.items("headers", ["*"])]
    target = _target(given)

    def step(document: Document, at: At) -> Document:
        for name, found in at.messages.headers[at.row].items():
            if any(pattern.fullmatch(name) for pattern in wanted):
                plain = base64.b64encode(found).decode() if isinstance(found, bytes) else found
                put(document, target(name), _number(name, plain))
        return document

    return step


def _number(name: str, value: Any) -> Any:
    if isinstance(value, float) and value - value != 0:  # NaN or infinite
        raise TransformError(f"header {name}: {value} is no JSON number")
    return value


def _name(text: str) -> re.Pattern[str]:
    return wildcard(text) or re.compile(re.escape(text))


def _target(given: Arguments) -> Callable[[str], Path]:
    """Where a name goes: into the document with a prefix, or into an object, without one."""
    if "into" not in given:
        prefix = given.value("prefix", PREFIX)
        prefix = prefix if prefix == "" else as_text(prefix, given.at("prefix"))
        return lambda name: (f"{prefix}{name}",)
    into, prefix = given.path("into"), given.value("prefix", "")
    prefix = prefix if prefix == "" else as_text(prefix, given.at("prefix"))
    return lambda name: (*into, f"{prefix}{name}")
