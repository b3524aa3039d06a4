"""What the operators of this run have asked the API server for, from its audit log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e_findings import RUN
from e2e_operator import RELEASE

READS = frozenset({"get", "list", "watch"})
OUR_GROUP = "iggykube.dev"
_ACCOUNT = "system:serviceaccount:"
_FORBIDDEN = 403
_CREATED = 201


@dataclass(frozen=True, slots=True)
class Request:
    """One request that was answered."""

    user: str
    verb: str
    group: str
    resource: str
    """With its subresource: `iggytopics/status`."""
    namespace: str
    name: str
    code: int
    message: str
    at: str
    """RFC 3339: sorts as text."""

    @property
    def is_operators(self) -> bool:
        return self.user.startswith(_ACCOUNT) and self.user.endswith(f":{RELEASE}")

    @property
    def is_of_this_run(self) -> bool:
        """The last word of its namespaces begins as that of no other run."""
        return any(
            text.rpartition("-")[2].startswith(RUN)
            for text in (self.namespace, self.name, *self.user.split(":"))
        )

    @property
    def is_denied(self) -> bool:
        return self.code == _FORBIDDEN

    @property
    def verbs(self) -> set[str]:
        """The rights that it needed: an apply that makes an object needs two."""
        return {self.verb, "create"} if self.code == _CREATED else {self.verb}

    @property
    def what(self) -> tuple[str, str, str, str]:
        return self.group, self.resource, self.namespace, self.name

    def __str__(self) -> str:
        return f"{self.at} {self.verb} {self.resource} {self.namespace}/{self.name} {self.message}"


def requests(log: Path) -> list[Request]:
    """All of this run, in its namespaces or by their accounts, in order."""
    found = [
        request
        for path in sorted(log.parent.glob(f"{log.stem}*{log.suffix}"))
        for request in _of(path)
        if request.is_of_this_run
    ]
    return sorted(found, key=lambda request: request.at)


def _of(path: Path) -> Iterator[Request]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if f"-{RUN}" in line and "objectRef" in line:
                event = json.loads(line)
                if event["stage"] == "ResponseComplete" or event["verb"] == "watch":
                    yield _request(event)


def _request(event: dict[str, Any]) -> Request:
    about = event["objectRef"]
    status = event.get("responseStatus", {})
    subresource = f"/{about['subresource']}" if "subresource" in about else ""
    return Request(
        user=event["user"]["username"],
        verb=event["verb"],
        group=about.get("apiGroup", ""),
        resource=about["resource"] + subresource,
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=status.get("code", 0),
        message=status.get("message", ""),
        at=event["requestReceivedTimestamp"],
    )


def denied(found: list[Request]) -> list[Request]:
    """What operators were refused while they had the chart's rights in that namespace."""
    has_rights: dict[str, bool] = {}
    result = []
    for request in found:
        namespace = request.namespace
        if request.resource == "rolebindings" and request.verb in ("create", "patch", "delete"):
            has_rights[namespace] = request.verb != "delete"
        elif request.resource == "namespaces" and request.verb == "delete":
            has_rights[request.name] = False
        elif request.is_operators and request.is_denied and has_rights.get(namespace, True):
            result.append(request)
    return result


def changes(found: list[Request]) -> list[Request]:
    """What operators have written or deleted."""
    return [one for one in found if one.is_operators and one.verb not in READS and one.code < 300]


def first_writers(found: list[Request]) -> dict[tuple[str, str, str, str], Request]:
    """Who made each object that was made in this run."""
    result: dict[tuple[str, str, str, str], Request] = {}
    for one in found:
        if one.verb not in READS and one.code == _CREATED:
            result.setdefault(one.what, one)
    return result
