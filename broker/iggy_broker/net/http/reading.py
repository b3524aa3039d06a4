"""Reading the body of a request: its type, its limit, its time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from iggy_broker.net.http import bodies
from iggy_broker.net.http.limits import BODY_S, InFlight
from iggy_broker.net.http.problems import (
    CONTENT_TYPE_TEXT,
    TOO_LARGE_TEXT,
    Refusal,
    of_status,
    unreadable,
)
from iggy_broker.net.http.replies import Reply

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = (("connection", "close"),)


class BodyReader:
    """Reads bodies for one shard."""

    def __init__(self, in_flight: InFlight, *, size_bytes_max: int) -> None:
        """`size_bytes_max` of one body."""
        self._in_flight = in_flight
        self._size_bytes_max = size_bytes_max

    async def read(self, request: BaseRequest, shape: Any, *, as_json: bool) -> Any:
        """The body as a value of `shape`. Refusal."""
        if not is_json(request.headers.get("Content-Type", "")):
            raise Refusal(unreadable(415, CONTENT_TYPE_TEXT, as_json=as_json))
        try:
            if request.content.is_eof():  # all of it is here: a timeout would cost more
                body = await self._received(request, as_json=as_json)
            else:
                async with asyncio.timeout(BODY_S):
                    body = await self._received(request, as_json=as_json)
            return bodies.decode(body, shape)
        except bodies.BadBody as bad:
            raise Refusal(unreadable(bad.status, bad.text, as_json=as_json)) from None
        except TimeoutError:
            late = of_status(408, "request_timeout", f"the body took longer than {BODY_S:.0f} s")
            raise Refusal(_closing(late)) from None

    async def _received(self, request: BaseRequest, *, as_json: bool) -> bytes:
        """The bytes. No more than the limit is read, and nothing if more is announced."""
        announced = request.content_length or 0
        if announced > self._size_bytes_max:
            raise self._too_large(as_json)
        self._in_flight.take(announced)
        taken = announced
        try:
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(_CONTINUE)
            body = bytearray()
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > self._size_bytes_max:
                    raise self._too_large(as_json)
                if len(body) > taken:
                    self._in_flight.take(len(body) - taken)
                    taken = len(body)
            return bytes(body)
        finally:
            self._in_flight.give(taken)

    def _too_large(self, as_json: bool) -> Refusal:
        return Refusal(_closing(unreadable(413, TOO_LARGE_TEXT, as_json=as_json)))


def is_json(content_type: str) -> bool:
    """`application/json` and `application/...+json`, with parameters or without."""
    kind, _, subkind = content_type.partition(";")[0].strip().lower().partition("/")
    return kind == "application" and (subkind == "json" or subkind.endswith("+json"))


def _closing(reply: Reply) -> Reply:
    return Reply(reply.status, reply.body, reply.content_type, reply.headers + _CLOSE)
