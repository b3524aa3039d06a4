"""One operator for the whole cluster, as the chart installs it by itself."""

from __future__ import annotations

import pytest

from e2e_kubectl import Document, Kubectl
from e2e_namespaces import Namespaces
from e2e_operator import RELEASE, Operator

pytestmark = pytest.mark.timeout(900)

READY_S = 300.0
STREAM: Document = {
    "apiVersion": "iggykube.dev/v1alpha1",
    "kind": "IggyStream",
    "metadata": {"name": "shop"},
    "spec": {},
}


def test_namespaces_that_are_made_later_are_served(
    cluster_operator: Operator, make_namespace: Namespaces
) -> None:
    teams = [make_namespace(restricted=True) for _ in range(2)]

    for team in teams:
        team.apply(STREAM)

    try:
        endpoints = {endpoint(team) for team in teams}
        assert endpoints == {f"iggy.{team.namespace}.svc:8090" for team in teams}
    finally:
        # A namespace that ends takes them along; whether it ends has a scenario of its own.
        for team in teams:
            team.delete("igs,igb", "--all")


def test_its_rights_are_cluster_wide_and_its_lease_is_not(
    cluster: Kubectl, cluster_operator: Operator
) -> None:
    system = cluster_operator.system

    assert cluster.exists("clusterrolebinding", RELEASE)
    assert system.exists("lease", RELEASE)
    assert [one["metadata"]["name"] for one in system.items("roles")] == [f"{RELEASE}-lease"]


def endpoint(team: Kubectl) -> str:
    """Of the broker that was made for the stream, once both are Ready."""
    for one in ("igb/iggy", "igs/shop"):
        team.wait(one, "condition=Ready", within_s=READY_S)
    return str(team.get("igb", "iggy")["status"]["endpoints"]["tcp"])
