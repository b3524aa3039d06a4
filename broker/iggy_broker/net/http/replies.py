"""An answer before it is on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

_ENCODER: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, body and the headers that are not on every answer."""

    status: int
    body: bytes = b""
    content_type: str = ""  # empty: there is no body
    headers: tuple[tuple[str, str], ...] = ()


NO_CONTENT: Final = Reply(204)


def json_reply(value: Any, status: int = 200) -> Reply:
    """A success with this value as JSON."""
    return Reply(status, _ENCODER.encode(value), JSON)
