"""After all scenarios: what their operators asked for, as the API server has noted it.

This file runs last (tests/e2e/conftest.py). Each scenario says by OPERATOR_DELETES what its
operator has to delete.
"""

from __future__ import annotations

import re
from ast import literal_eval
from functools import cache
from pathlib import Path

import pytest

import foreign_schemas
from e2e_audit import OUR_GROUP, Request, changes, denied, first_writers, requests
from e2e_namespaces import module_of
from operator_rights import CLUSTER_WIDE, Rights, granted

HERE = Path(__file__).parent
LEASES = {("coordination.k8s.io", "leases"): {"get", "create", "update"}}
OF_ANY_ACCOUNT = {"selfsubjectreviews", "selfsubjectaccessreviews"}
SPARK_OPERATORS = {
    ("sparkoperator.k8s.io", "sparkapplications"): "test_launchers.py has no definition of it here",
    ("spark.apache.org", "sparkapplications"): "the same",
}
NOT_USED = {
    ("monitoring.coreos.com", "podmonitors"): "the Prometheus operator's kind is not installed",
    ("networking.k8s.io", "networkpolicies", "delete"): "where networkPolicy is switched off",
    ("", "serviceaccounts", "delete"): "where a podTemplate names another account",
    ("iggykube.dev", "iggyusers", "delete"): "where a sink gets a userRef",
    ("", "secrets", "delete"): "tokens that a user does not have any more, and rotated passwords",
    ("batch", "jobs"): "sinks that end by themselves; watched and listed beside the others",
    ("storage.k8s.io", "storageclasses", "get"): "growth, where the whole cluster is watched",
}
"""Rights that scenarios may leave unused, and when they are used."""
WITHOUT_OPERATOR = {"test_rights", "test_schemas"}
MADE_BY_OTHERS = {"persistentvolumeclaims"}
"""The StatefulSet's controller makes a broker's claim, and the operator grows it."""


@pytest.fixture(scope="module")
def found(audit_log: Path) -> list[Request]:
    return requests(audit_log)


def test_no_operator_was_refused_anything(found: list[Request]) -> None:
    refused = [
        one
        for one in denied(found)
        if one.resource != "storageclasses"  # which no Role can grant: docs/operator.md
        and "being terminated" not in one.message
    ]

    assert [str(one) for one in refused] == []


def test_every_right_of_the_chart_is_used(
    found: list[Request], request: pytest.FixtureRequest
) -> None:
    here = {item.path.stem for item in request.session.items}
    missing = scenarios() - here - {module_of(one.namespace) for one in found} - WITHOUT_OPERATOR
    if missing:
        pytest.skip(f"needs a whole run; not in this one: {', '.join(sorted(missing))}")
    used: Rights = {}
    for one in found:
        if one.is_operators and not one.is_denied:
            used.setdefault((one.group, one.resource), set()).update(one.verbs)

    rights = {**granted(), **CLUSTER_WIDE, **LEASES}
    excused = NOT_USED if foreign_schemas.are_there() else NOT_USED | SPARK_OPERATORS
    unused = sorted(
        (*what, verb)
        for what, verbs in rights.items()
        for verb in verbs - used.get(what, set())
        if what not in excused and (*what, verb) not in excused
    )
    beyond = {
        what: verbs - rights.get(what, set())
        for what, verbs in used.items()
        if verbs - rights.get(what, set()) and what[1] not in OF_ANY_ACCOUNT
    }

    assert unused == []
    assert beyond == {}


def test_nothing_was_deleted_that_no_scenario_asked_for(
    found: list[Request],
) -> None:
    unasked = set()
    for one in changes(found):
        module = module_of(one.namespace)
        if one.verb in ("delete", "deletecollection") and one.resource not in asked_by(module):
            unasked.add(f"{module or '?'}: {one.verb} {one.resource}")

    assert unasked == set()


def test_nothing_was_overwritten_that_is_not_the_operators(found: list[Request]) -> None:
    makers = first_writers(found)

    foreign = [
        f"{one}, made by {makers[one.what].user}"
        for one in changes(found)
        if one.group != OUR_GROUP
        and one.verb in ("patch", "update")
        and one.resource not in MADE_BY_OTHERS
        and one.what in makers
        and not makers[one.what].is_operators
    ]

    assert foreign == []


def scenarios() -> set[str]:
    return {path.stem for path in HERE.glob("test_*.py")}


@cache
def asked_by(module: str) -> set[str]:
    """What operators of that scenario have to delete."""
    text = (HERE / f"{module}.py").read_text() if module in scenarios() else ""
    found = re.search(r"^OPERATOR_DELETES = (\{.*?\})$", text, re.MULTILINE | re.DOTALL)
    return set(literal_eval(found[1])) if found else set()
