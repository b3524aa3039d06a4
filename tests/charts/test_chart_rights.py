"""Who may do what, in both modes: no more than the operator's code does, and Secrets unlisted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from helm_program import (
    Manifest,
    needs_helm,
    of_kind,
    rendered,
    with_monitoring,
    without_crds,
)
from operator_rights import Rights, rights_of
from operator_rights import granted as in_the_template

pytestmark = needs_helm
OPERATOR = "iggy-operator"
CLUSTER_WIDE = {
    "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace", "PriorityClass",
}  # fmt: skip
IN_TWO = {"watch": {"all": False, "namespaces": ["shop", "lake"]}}


def names(manifests: Iterable[Manifest]) -> list[tuple[str, str]]:
    return sorted((item["metadata"].get("namespace", ""), item["metadata"]["name"])
                  for item in manifests)  # fmt: skip


def role(manifests: Iterable[Manifest], kind: str, name: str) -> Rights:
    found = [item for item in of_kind(manifests, kind) if item["metadata"]["name"] == name]
    return rights_of(found[0]["rules"])


def test_one_cluster_role_where_all_is_watched() -> None:
    manifests = rendered(OPERATOR, without_crds())

    own = role(manifests, "ClusterRole", OPERATOR)
    assert own == {**in_the_template(), ("storage.k8s.io", "storageclasses"): {"get"}}
    assert names(of_kind(manifests, "ClusterRoleBinding")) == [("", OPERATOR)]
    assert names(of_kind(manifests, "Role")) == [("here", f"{OPERATOR}-lease")]


def test_roles_and_nothing_cluster_wide_where_namespaces_are_watched() -> None:
    values = {**IN_TWO, "spark": {"namespaces": ["lake"]}, "metrics": {"podMonitor": {
              "enabled": True}}, "networkPolicy": {"enabled": True}}  # fmt: skip

    manifests = rendered(OPERATOR, without_crds(values), arguments=with_monitoring())

    assert {item["kind"] for item in manifests} & CLUSTER_WIDE == set()
    assert all(item["metadata"].get("namespace") for item in manifests)
    own = [item for item in of_kind(manifests, "Role") if item["metadata"]["name"] == OPERATOR]
    assert names(own) == [("lake", OPERATOR), ("shop", OPERATOR)]
    assert all(rights_of(item["rules"]) == in_the_template() for item in own)
    for binding in of_kind(manifests, "RoleBinding"):
        assert binding["roleRef"]["kind"] == "Role"


def test_rights_that_outlive_a_namespace_are_few_and_only_there_where_they_are_asked_for() -> None:
    values = {**IN_TWO, "rbac": {"outliveNamespaces": True}}
    manifests = rendered(OPERATOR, without_crds(values))

    verbs = {"get", "list", "patch"}
    kinds = ("iggystreams", "iggytopics", "iggyusers")
    assert role(manifests, "ClusterRole", f"here-{OPERATOR}-endings") == {
        **{("iggykube.dev", kind): verbs for kind in kinds},
        ("", "namespaces"): {"get"},
    }
    (binding,) = of_kind(manifests, "ClusterRoleBinding")
    assert binding["subjects"][0]["namespace"] == "here"
    in_all = rendered(OPERATOR, without_crds({"rbac": {"outliveNamespaces": True}}))
    assert names(of_kind(in_all, "ClusterRoleBinding")) == [("", OPERATOR)]


def test_its_own_namespace_is_watched_where_none_is_named() -> None:
    manifests = rendered(OPERATOR, without_crds({"watch": {"all": False}}))

    assert ("here", OPERATOR) in names(of_kind(manifests, "Role"))
    assert environment(manifests)["IGGY_OPERATOR_WATCH_NAMESPACES"] == "here"


def environment(manifests: Iterable[Manifest]) -> dict[str, Any]:
    (deployment,) = of_kind(manifests, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value") for item in container["env"]}


@pytest.mark.parametrize("values", [{}, IN_TWO], ids=["all", "namespaces"])
def test_secrets_are_never_listed_and_nothing_is_a_star(values: dict[str, Any]) -> None:
    manifests = rendered(OPERATOR, without_crds(values))

    for item in (*of_kind(manifests, "ClusterRole"), *of_kind(manifests, "Role")):
        for (group, resource), verbs in rights_of(item["rules"]).items():
            assert "*" not in (group, resource, *verbs)
            assert resource != "secrets" or not verbs & {"list", "watch", "deletecollection"}
            assert not {"escalate", "bind", "impersonate"} & verbs
            assert group != "rbac.authorization.k8s.io", "the operator hands out no rights"


def test_the_lease_is_the_only_one_and_in_its_own_namespace() -> None:
    manifests = rendered(OPERATOR, without_crds({**IN_TWO, "lease": {"name": "mine"}}))

    (lease,) = [item for item in of_kind(manifests, "Role")
                if item["metadata"]["name"] == f"{OPERATOR}-lease"]  # fmt: skip
    assert lease["metadata"]["namespace"] == "here"
    named, new = lease["rules"]
    assert (named["resourceNames"], named["verbs"]) == (["mine"], ["get", "update"])
    assert new["verbs"] == ["create"]


def test_people_see_and_change_but_sinks_are_apart() -> None:
    manifests = rendered(OPERATOR, without_crds())
    roles = {item["metadata"]["name"]: item for item in of_kind(manifests, "ClusterRole")}

    def joins(name: str) -> set[str]:
        mark = "rbac.authorization.k8s.io/aggregate-to-"
        labels = roles[f"{OPERATOR}-{name}"]["metadata"]["labels"]
        return {label.removeprefix(mark) for label in labels if label.startswith(mark)}

    assert joins("view") == {"view", "edit", "admin"}
    assert joins("edit") == {"edit", "admin"}
    assert joins("sink-edit") == set()
    edit = rights_of(roles[f"{OPERATOR}-edit"]["rules"])
    assert not {name for _, name in edit} & {"iggysinks", "iggysources"}
    sinks = rights_of(roles[f"{OPERATOR}-sink-edit"]["rules"])
    assert set(sinks) == {("iggykube.dev", "iggysinks"), ("iggykube.dev", "iggysources")}
    seen = rights_of(roles[f"{OPERATOR}-view"]["rules"])
    assert set(seen) == set(edit) | set(sinks)
    assert all(verbs == {"get", "list", "watch"} for verbs in seen.values())


def test_roles_for_people_are_in_the_namespaces_that_are_watched() -> None:
    manifests = rendered(OPERATOR, without_crds(IN_TWO))

    found = {place for place in names(of_kind(manifests, "Role"))
             if place[1].endswith(("-view", "-edit"))}  # fmt: skip
    assert found == {
        (namespace, f"{OPERATOR}-{name}")
        for namespace in ("shop", "lake")
        for name in ("view", "edit", "sink-edit")
    }


def test_a_spark_driver_may_make_executors_in_its_own_namespace() -> None:
    manifests = rendered(OPERATOR, without_crds({"spark": {"namespaces": ["lake"]}}))

    assert ("lake", "iggy-spark") in names(of_kind(manifests, "ServiceAccount"))
    rights = role(manifests, "Role", "iggy-spark")
    assert {resource for _, resource in rights} == {
        "pods", "services", "configmaps", "persistentvolumeclaims"}  # fmt: skip
    (binding,) = [item for item in of_kind(manifests, "RoleBinding")
                  if item["metadata"]["name"] == "iggy-spark"]  # fmt: skip
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "iggy-spark", "namespace": "lake"}]  # fmt: skip


def test_rights_can_be_left_to_others() -> None:
    manifests = rendered(OPERATOR, without_crds({"rbac": {"create": False, "userRoles": False}}))

    assert not any(item["kind"].startswith(("Role", "ClusterRole")) for item in manifests)
