"""What a real API server says of a document: accepted, or refused at fields, with messages."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubernetes.client import ApiClient

from iggy_operator import API_GROUP, API_VERSION
from iggy_operator.schema import schemas

DRY_RUN: Final = "dryRun=All&fieldValidation=Strict"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"')
# Beside what it refuses, the server says that it has not looked at everything. No cause of its own.
_NOT_LOOKED: Final = "some validation rules were not checked"
# A rule of the whole object has no field.
_ROOT: Final = ("", "<nil>")


@dataclass(frozen=True, slots=True)
class Said:
    """One cause of a refusal."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request led to."""

    code: int
    body: Mapping[str, Any]

    @property
    def is_fine(self) -> bool:
        return 200 <= self.code < 300


class Server:
    """One API server, spoken to in JSON."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def ask(
        self, method: str, path: str, body: object = None, *, content: str = "application/json"
    ) -> Answer:
        """One request. `path` may carry a query."""
        settings = self._client.configuration
        headers = {"Accept": "application/json", "Content-Type": content}
        for way in settings.auth_settings().values():
            headers[way["key"]] = way["value"]
        response = self._client.call_api(method, settings.host + path, headers, body)
        response.read()
        return Answer(response.status, json.loads(response.data or b"{}"))

    def must(self, method: str, path: str, body: object = None, **more: Any) -> Mapping[str, Any]:
        """A request that must be granted."""
        answer = self.ask(method, path, body, **more)
        assert answer.is_fine, f"{method} {path}: {answer.body.get('message', answer)}"
        return answer.body

    def apply(self, path: str, value: Mapping[str, Any], *, manager: str) -> Mapping[str, Any]:
        """Server-side apply, by force."""
        query = f"{path}?fieldManager={manager}&force=true"
        return self.must("PATCH", query, value, content="application/apply-patch+yaml")


class Judge:
    """Asks for verdicts in one namespace. What it makes, it removes."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self.namespace = namespace

    def folder(self, kind: str) -> str:
        """Where objects of that kind live."""
        plural = schemas()[kind].plural
        return f"/apis/{API_VERSION}/namespaces/{self.namespace}/{plural}"

    def place(self, value: Mapping[str, Any]) -> str:
        """Where this object lives."""
        return f"{self.folder(value['kind'])}/{value['metadata']['name']}"

    def verdict(
        self, value: Mapping[str, Any], old: Mapping[str, Any] | None = None
    ) -> tuple[Said, ...]:
        """Causes of the refusal of `value`, as a new object or as an update of `old`."""
        value = self.here(value)
        if old is None:
            return causes(
                self._server.ask("POST", f"{self.folder(value['kind'])}?{DRY_RUN}", value)
            )
        old = self.here(old)
        there = self._server.must("POST", self.folder(old["kind"]), old)
        try:
            if "status" in old:
                there = {**there, "status": {**there.get("status", {}), **old["status"]}}
                there = self._server.must("PUT", f"{self.place(old)}/status", there)
            value["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            return causes(self._server.ask("PUT", f"{self.place(value)}?{DRY_RUN}", value))
        finally:
            self._server.must("DELETE", self.place(old))

    def here(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """A copy in the judge's own namespace."""
        return {**value, "metadata": {**value["metadata"], "namespace": self.namespace}}


def causes(answer: Answer) -> tuple[Said, ...]:
    """What a refusal says; nothing if there is none."""
    if answer.is_fine:
        return ()
    message = answer.body["message"]
    if fields := _UNKNOWN.findall(message):
        return tuple(Said(field, "unknown field") for field in fields)
    rows = answer.body.get("details", {}).get("causes", ())
    if not rows:
        return (Said("<root>", message),)
    return tuple(
        Said(_field(row), row["message"]) for row in rows if _NOT_LOOKED not in row["message"]
    )


def _field(row: Mapping[str, Any]) -> str:
    field = row.get("field", "")
    return "<root>" if field in _ROOT else str(field)


def install(server: Server, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Bring the resource definitions up to date."""
    for definition in definitions:
        path = f"{CRDS}/{definition['metadata']['name']}"
        server.apply(path, definition, manager="iggykube-schemas")


def is_served(server: Server) -> bool:
    """Whether the server knows all of our kinds."""
    answer = server.ask("GET", f"/apis/{API_GROUP}/v1alpha1")
    kinds = {item["kind"] for item in answer.body.get("resources", ())}
    return answer.is_fine and kinds >= set(schemas())
