"""Which handler serves a method and path. Iggy 0.9 HTTP API: exact, and fixed segments win."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from iggy_broker.net.http.query import Parameter

if TYPE_CHECKING:
    from iggy_broker.net.http.call import Call
    from iggy_broker.net.http.replies import Reply

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE")  # in the order of `allow`

Handler = Callable[["Call"], Awaitable["Reply"]]


@dataclass(frozen=True, slots=True)
class Success:
    """What a route answers when all is well: for the description of the API."""

    status: int = 200
    shape: Any = None  # of the JSON body; None: there is none
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the route table. `{name}` in the path is a parameter of one segment."""

    method: str
    path: str
    handler: Handler
    summary: str
    success: Success
    body: Any = None  # the type that the JSON body is decoded to; None: no body is read
    query: tuple[Parameter, ...] = ()
    is_public: bool = False
    is_consistent: bool = True  # takes `consistency`, if it is a GET
    original_body: Any = None  # instead of `body` where the original is to be followed
    may_wait: bool = False  # for messages: it is counted among those that do, and is no write
    is_write: bool = field(init=False)

    def __post_init__(self) -> None:
        """Everything but GET changes something."""
        is_write = self.method != "GET" and not self.is_public and not self.may_wait
        object.__setattr__(self, "is_write", is_write)

    def as_original(self) -> Route:
        """The same with the body that the original reads."""
        return self if self.original_body is None else replace(self, body=self.original_body)


@dataclass(slots=True)
class _Node:
    """One segment of the tree of paths."""

    fixed: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    routes: dict[str, Route] = field(default_factory=dict)


class UndecodableSegment(Exception):
    """A segment of the path is not the percent-encoding of UTF-8."""


class Router:
    """The route table as a tree."""

    def __init__(self, routes: Sequence[Route]) -> None:
        """Two routes of one method and path are a bug."""
        self._root = _Node()
        for route in routes:
            node = self._root
            for segment in route.path.split("/")[1:]:
                node = _child(node, segment)
            assert route.method not in node.routes, route.path
            node.routes[route.method] = route

    def find(self, path: str) -> tuple[dict[str, Route], list[str]]:
        """Routes by method for a path as sent, and its parameters; no routes if it is unknown.

        Raises UndecodableSegment.
        """
        node, values = self._root, []
        for segment in path.split("/")[1:]:
            found = node.fixed.get(segment)
            if found is None:
                found = node.parameter
                if found is None or not segment:
                    return {}, []
                values.append(_decoded(segment))
            node = found
        return node.routes, values


def allowed(routes: dict[str, Route]) -> str:
    """The `allow` header of a path with these routes."""
    methods = routes.keys() | ({"HEAD"} if "GET" in routes else set())
    return ",".join(method for method in METHODS if method in methods)


def _child(node: _Node, segment: str) -> _Node:
    if not segment.startswith("{"):
        return node.fixed.setdefault(segment, _Node())
    if node.parameter is None:
        node.parameter = _Node()
    return node.parameter


def _decoded(segment: str) -> str:
    if "%" not in segment:
        if not segment.isascii():  # bytes that are not UTF-8 come as surrogates
            _check(segment)
        return segment
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise UndecodableSegment from None


def _check(segment: str) -> None:
    try:
        segment.encode()
    except UnicodeEncodeError:
        raise UndecodableSegment from None
