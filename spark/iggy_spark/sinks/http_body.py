"""What a request of the Http sink carries for a message, and several messages together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from iggy_spark import blocks
from iggy_spark.errors import OptionError
from iggy_spark.payload import Payload
from iggy_spark.pylists import values_of
from iggy_spark.sinks.base import Portion
from iggy_spark.sinks.documents import DOCUMENT, Documents, positions

_ENCODE = msgspec.json.Encoder().encode
# Our own, or of the connection: they are no part of the settings.
_OURS: Final = frozenset(
    {"authorization", "idempotency-key", "host", "content-length", "transfer-encoding",
     "connection"}
)  # fmt: skip
_TEXT_COLUMN: Final = "value"
_RAW_COLUMN: Final = "payload"
JSON: Final = "application/json"

Texts = Callable[[Portion], list[bytes]]


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    """Where a message was. Bytes in headers are base64 text."""

    stream: str
    topic: str
    partition: int
    offset: int
    timestamp: str  # when the broker took it, RFC 3339
    id: str  # 32 hex digits
    headers: dict[str, Any]


def texts(settings: blocks.Http, payload: Payload) -> Texts:
    """How to write the messages of a portion, each by itself.

    Raises:
        OptionError: body, metadata and payload do not go together.
    """
    if settings.body == "Raw":
        return _raw(settings, payload)
    if payload.format == "raw":
        raise OptionError(
            f"http.body: {settings.body} is made of JSON documents, and payload.format is Raw: use "
            "body Raw, which sends bytes as they are, or payload.format Json or Text"
        )
    made = _strings if payload.format == "text" else Documents(payload, position=False).of
    if not settings.metadata:
        return lambda portion: made(portion.rows)
    return lambda portion: _enveloped(portion, made(portion.rows))


def _raw(settings: blocks.Http, payload: Payload) -> Texts:
    if settings.metadata:
        raise OptionError("http.metadata: wraps JSON, and body Raw sends payloads unchanged")
    if payload.format == "json" and not payload.is_document:
        raise OptionError(
            "http.body: Raw sends payloads unchanged: leave payload.schema out, or use another body"
        )
    column = {"raw": _RAW_COLUMN, "text": _TEXT_COLUMN}.get(payload.format, DOCUMENT)
    return lambda portion: values_of(portion.rows.column(column).cast(pa.binary()))


def _strings(rows: pa.RecordBatch) -> list[bytes]:
    return [_ENCODE(text) for text in values_of(rows.column(_TEXT_COLUMN))]


def _enveloped(portion: Portion, payloads: Sequence[bytes]) -> list[bytes]:
    known = portion.messages
    row_of = {offset: row for row, offset in enumerate(known.offsets)}
    found = []
    for payload, partition, offset, time in zip(payloads, *positions(portion.rows), strict=True):
        row = row_of[offset]
        place = _Metadata(
            known.stream, known.topic, partition, offset, time, known.ids[row], known.headers[row]
        )
        found.append(b'{"metadata":' + _ENCODE(place) + b',"payload":' + payload + b"}")
    return found


def together(settings: blocks.Http, parts: Sequence[bytes]) -> bytes:
    """The body of a request with these messages."""
    if settings.body == "JsonArray":
        return b"[" + b",".join(parts) + b"]"
    if settings.body == "NdJson":
        return b"\n".join(parts) + b"\n"
    (alone,) = parts
    return alone


def headers(settings: blocks.Http, payload: Payload) -> dict[str, str]:
    """Headers of every request; the settings may choose another Content-Type.

    Raises:
        OptionError: a header is not the settings' to choose, or cannot be sent.
    """
    check_headers(settings.headers)
    kind = {"Content-Type": _content_type(settings, payload)}
    chosen = {name.lower() for name in settings.headers}
    return {**({} if "content-type" in chosen else kind), **settings.headers}


def check_headers(chosen: Mapping[str, str]) -> None:
    """Headers that settings choose for every request, of a sink or a source.

    Raises:
        OptionError: one is not the settings' to choose, or cannot be sent.
    """
    for name, value in chosen.items():
        if name.lower() in _OURS:
            raise OptionError(
                f"http.headers: {name} is ours to make; logins are files in credentialsPath"
            )
        if not (name + value).isascii() or not (name + value).isprintable() or " " in name:
            raise OptionError(f"http.headers: {name!r} has characters that no header may have")


def _content_type(settings: blocks.Http, payload: Payload) -> str:
    if settings.body == "NdJson":
        return "application/x-ndjson"
    if settings.body == "Raw" and payload.format == "raw":
        return "application/octet-stream"
    if settings.body == "Raw" and payload.format == "text":
        return "text/plain; charset=utf-8"
    return JSON
