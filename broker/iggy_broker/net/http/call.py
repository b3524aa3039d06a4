"""One request, as the handlers of routes see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from iggy_broker.errors import Reject
from iggy_broker.net.http.problems import NOT_FOUND, Refusal, status_of
from iggy_broker.net.http.query import identifier

if TYPE_CHECKING:
    from aiohttp.web_protocol import RequestHandler

    from iggy_broker.net.http.app import App
    from iggy_broker.net.http.auth import Asker
    from iggy_wire.primitives import Identifier
    from iggy_wire.reply_base import Reply
    from iggy_wire.request_base import Request

R = TypeVar("R", bound="Reply")

_MISSING = 404


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was matched and read."""

    app: App
    values: list[str]  # parameters of the path, decoded
    query: dict[str, Any]  # by name, as the route's parameters say
    body: Any  # of the route's shape; None: it has none
    who: Asker | None
    address: str  # of the client
    connection: RequestHandler  # that it came on
    authorization: str | None = field(repr=False)  # as sent

    @property
    def asker(self) -> Asker:
        """Who asks. Routes that are not public have somebody."""
        assert self.who is not None, "not a public route"
        return self.who

    @property
    def is_strict(self) -> bool:
        """Whether the original is to be followed also where we know better."""
        return self.app.is_strict

    def reference(self, place: int, field: str) -> Identifier:
        """The parameter of the path as an identifier; INVALID_IDENTIFIER."""
        return identifier(self.values[place], field)

    def stream(self) -> Identifier:
        """The stream in the path."""
        return self.reference(0, "stream")

    def topic(self) -> tuple[Identifier, Identifier]:
        """The stream and topic in the path."""
        return self.reference(0, "stream"), self.reference(1, "topic")

    async def run(self, request: Request) -> bytes:
        """Run a command: the body of its reply. Reject."""
        return await self.app.commands.run(self.asker, request)

    async def find(self, request: Request, shape: type[R]) -> R:
        """Read one thing. Whatever is missing of it and above it is answered the same way."""
        try:
            body = await self.run(request)
        except Reject as refusal:
            if status_of(refusal.code) == _MISSING:
                raise Refusal(NOT_FOUND) from None
            raise
        if not body:
            raise Refusal(NOT_FOUND)
        return shape.decode(body)
