"""What a refused request is answered: status and body. Iggy 0.9 HTTP API, chapter on errors.

Three shapes: JSON with `id`, `code`, `reason` and `field`; the same without a command's own code,
where `id` is the status (404 of a read, overload); plain text where the request could not be read.
"""

from __future__ import annotations

from typing import Final

import msgspec

from iggy_broker.net.http.replies import JSON, TEXT, Reply
from iggy_wire.errors import ErrorCode

REASON_CHARACTERS_MAX: Final = 500  # names and options in it are as long as clients make them
RETRY_AFTER_S: Final = 1

_STATUS: Final[dict[int, int]] = {
    **dict.fromkeys((20, 100, 1009, 2010, 3007, 3021, 4000, 5000, 5003, 5006), 404),
    **dict.fromkeys((40, 53, 77, 78), 401),
    41: 403,
    101: 409,
    **dict.fromkeys((9, 57, 58, 90), 503),
}
_FIELD: Final[dict[int, str]] = {
    **dict.fromkeys((1009, 1014), "stream_id"),
    **dict.fromkeys((2010, 2016), "topic_id"),
    3007: "partition_id",
    4000: "segment_id",
    100: "client_id",
    **dict.fromkeys((51, 1012, 1013, 2013, 2014, 5004), "name"),
    4100: "offset",
    5002: "consumer_group_id",
    46: "username",
}
_OVERLOADED: Final = (429, 503)

JSON_PREFIX: Final = "Failed to parse the request body as JSON: "
SHAPE_PREFIX: Final = "Failed to deserialize the JSON body into the target type: "
QUERY_PREFIX: Final = "Failed to deserialize query string: "
PATH_PREFIX: Final = "Invalid URL: "
CONTENT_TYPE_TEXT: Final = "Expected request with `Content-Type: application/json`"
TOO_LARGE_TEXT: Final = "Failed to buffer the request body: length limit exceeded"


class Problem(msgspec.Struct, frozen=True):
    """The JSON body of an error."""

    id: int
    code: str
    reason: str
    field: str | None = None


class Refusal(Exception):
    """A request ends with this answer."""

    def __init__(self, reply: Reply) -> None:
        """`reply` is for the client; nothing of it is secret."""
        super().__init__(f"{reply.status}")
        self.reply = reply


def status_of(code: int) -> int:
    """The HTTP status of an error code of the binary protocol."""
    return _STATUS.get(code, 400)


def problem(code: ErrorCode, detail: str = "") -> Reply:
    """The answer to what a command refuses. `detail` says what and how to put it right."""
    name = code.name.lower()
    sentence = name.replace("_", " ").capitalize()
    reason = f"{sentence}: {detail}" if detail else sentence
    return _json(status_of(code), Problem(code.value, name, _cut(reason), _FIELD.get(code)))


def of_status(status: int, code: str, reason: str) -> Reply:
    """An answer whose `id` is the status: no command's own code says this."""
    return _json(status, Problem(status, code, _cut(reason)))


def unreadable(status: int, text: str, *, as_json: bool) -> Reply:
    """The answer to a request that cannot be read: text, or JSON for who asks for JSON only."""
    text = _cut(text)
    if not as_json:
        return Reply(status, text.encode(), TEXT)
    if status in (400, 422):
        code = ErrorCode.INVALID_FORMAT
        return _json(status, Problem(code.value, code.name.lower(), text))
    words = {413: "request_too_large", 415: "unsupported_media_type"}
    return _json(status, Problem(status, words[status], text))


def _json(status: int, body: Problem) -> Reply:
    headers = (("retry-after", str(RETRY_AFTER_S)),) if status in _OVERLOADED else ()
    return Reply(status, msgspec.json.encode(body), JSON, headers)


def _cut(text: str) -> str:
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 3] + "..."


# What reads of something missing are answered, whatever it is.
NOT_FOUND: Final = of_status(404, "not_found", "Resource not found")
