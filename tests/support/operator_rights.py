"""What the chart lets the operator do in a namespace that it watches, read without Helm."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import yaml

from chart_values import CHARTS

RULES = CHARTS / "iggy-operator" / "templates" / "rbac" / "_rules.tpl"
BEGIN = '{{- define "iggy-operator.rules" -}}'
END = "{{- end -}}"
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


@functools.cache
def granted() -> Rights:
    """Those of the operator: the template has nothing to render in it."""
    text = RULES.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert "{{" not in text
    return rights_of(yaml.safe_load(text))
