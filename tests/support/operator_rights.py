"""What the chart lets the operator do in a namespace that it watches, read without Helm."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import yaml

from chart_values import CHARTS
from iggy_operator.cluster import Ref
from iggy_operator.program.api_kinds import API_KINDS

RULES = CHARTS / "iggy-operator" / "templates" / "rbac" / "_rules.tpl"
BEGIN = '{{- define "iggy-operator.rules" -}}'
END = "{{- end -}}"
# What a call of the operator's `Cluster` asks the API server for. Server-side apply that makes an
# object needs both verbs.
VERBS: dict[str, tuple[str, ...]] = {
    "get": ("get",),
    "list": ("list",),
    "create": ("create", "patch"),
    "apply": ("patch",),
    "apply_status": ("patch",),
    "delete": ("delete",),
    "add_finalizer": ("patch",),
    "remove_finalizer": ("patch",),
}
# Rights on things outside namespaces, which only the cluster-wide mode gives.
CLUSTER_WIDE: dict[tuple[str, str], set[str]] = {("storage.k8s.io", "storageclasses"): {"get"}}
Rights: TypeAlias = dict[tuple[str, str], set[str]]
"""Verbs by group and resource."""


def rights_of(rules: Iterable[Mapping[str, Any]]) -> Rights:
    """The rules of a role, one resource at a time."""
    result: Rights = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                result.setdefault((group, resource), set()).update(rule["verbs"])
    return result


def rules() -> list[dict[str, Any]]:
    """Those of the operator's role: the template has nothing to render in it."""
    text = RULES.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert "{{" not in text
    found: list[dict[str, Any]] = yaml.safe_load(text)
    return found


@functools.cache
def granted() -> Rights:
    """What those rules allow."""
    return rights_of(rules())


def must_be_granted(call: str, what: object) -> None:
    """Fails for a call that the API server would refuse under the chart's roles."""
    if call == "record":
        group, resource, verbs = "events.k8s.io", "events", ("create",)
    else:
        kind = API_KINDS[what.kind if isinstance(what, Ref) else str(what)]
        group = kind.api_version.rpartition("/")[0]
        resource = kind.plural + ("/status" if call == "apply_status" else "")
        verbs = VERBS[call]
    rights = {**granted(), **CLUSTER_WIDE}.get((group, resource), set())
    missing = set(verbs) - rights
    assert not missing, f"charts/iggy-operator: {sorted(missing)} on {resource} is not granted"
