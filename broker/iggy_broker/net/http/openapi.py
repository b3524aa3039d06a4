"""The description of the API (OpenAPI 3.1), made from the route table and the shapes."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from iggy_broker import __version__
from iggy_broker.net.http.problems import Problem
from iggy_broker.net.http.query import CONSISTENCY, U32_MAX, U64_MAX, Kind, Parameter
from iggy_broker.net.http.replies import JSON
from iggy_broker.net.http.routing import Route

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_REFERENCE: Final = "#/components/schemas/{name}"
_BEARER: Final = "bearer"
_NUMBERS: Final = frozenset({"partition_id", "client_id"})  # in paths; all others may be names
_KINDS: Final[dict[Kind, dict[str, Any]]] = {
    Kind.U32: {"type": "integer", "minimum": 0, "maximum": U32_MAX},
    Kind.U64: {"type": "integer", "minimum": 0, "maximum": U64_MAX},
    Kind.BOOL: {"type": "boolean"},
    Kind.NAME: {"type": "string", "minLength": 1, "maxLength": 255},
    Kind.TEXT: {"type": "string"},
}
_ERRORS: Final = {
    "400": "The command refuses it, or the request cannot be read (then as plain text).",
    "401": "No token, or not a good one.",
    "403": "The user may not.",
    "404": "Something that the request names is missing.",
    "415": "The body is not announced as JSON.",
    "422": "JSON of another shape.",
    "429": "Too many writes of this token are not answered yet.",
    "503": "Too much to do; try again.",
}
_WITH_BODY: Final = frozenset({"415", "422"})
_OF_WRITES: Final = frozenset({"429"})
_BEHIND_LOGIN: Final = frozenset({"403"})


@functools.cache
def described(routes: tuple[Route, ...]) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document(routes))


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document of these routes."""
    shapes: list[Any] = [Problem]
    for route in routes:
        shapes += [one for one in (route.body, route.success.shape) if one is not None]
    schemas, components = msgspec.json.schema_components(shapes, ref_template=_REFERENCE)
    schema_of = dict(zip(map(str, shapes), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "IggyKube broker",
            "version": __version__,
            "description": "Compatible with the HTTP API of Apache Iggy 0.9.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    success = route.success
    answer: dict[str, Any] = {"description": route.summary}
    if success.shape is not None:
        answer["content"] = {success.content_type: {"schema": schema_of[str(success.shape)]}}
    elif success.content_type != JSON:
        answer["content"] = {success.content_type: {"schema": {"type": "string"}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "parameters": [*map(_of_path, _PARAMETER.findall(route.path)), *_of_query(route)],
        "responses": {str(success.status): answer, **_errors(route, schema_of)},
        "security": [] if route.is_public else [{_BEARER: []}],
    }
    if route.body is not None:
        content = {JSON: {"schema": schema_of[str(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _of_path(name: str) -> dict[str, Any]:
    schema = _KINDS[Kind.U32 if name in _NUMBERS else Kind.NAME]
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _of_query(route: Route) -> list[dict[str, Any]]:
    consistent = route.method == "GET" and route.is_consistent
    return [_query(one) for one in (*route.query, *((CONSISTENCY,) if consistent else ()))]


def _query(one: Parameter) -> dict[str, Any]:
    schema = (
        {"type": "string", "enum": list(one.kind)}
        if isinstance(one.kind, tuple)
        else dict(_KINDS[one.kind])
    )
    if one.default is not None:
        schema["default"] = getattr(one.default, "value", one.default)
    return {
        "name": one.name,
        "in": "query",
        "required": one.is_required,
        "description": one.doc,
        "schema": schema,
    }


def _errors(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    content = {JSON: {"schema": schema_of[str(Problem)]}}
    left_out = set() if route.body is not None else set(_WITH_BODY)
    left_out |= set() if route.is_write else set(_OF_WRITES)
    left_out |= set(_BEHIND_LOGIN) if route.is_public else set()
    return {
        status: {"description": text, "content": content}
        for status, text in _ERRORS.items()
        if status not in left_out
    }
