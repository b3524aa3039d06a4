"""What others have in the cluster: other operators on kopf, thousands of their objects."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from e2e_kubectl import Document, Kubectl
from operator_scene import OperatorScene, play
from process_figures import anonymous_bytes
from process_memory import MIB
from real_people import eventually

pytestmark = pytest.mark.usefixtures("our_kinds")
GROWTH_BYTES_MAX = 5 * MIB
LABELS = {"app": "foreign"}
CONTAINERS = [{"name": "foreign", "image": "foreign"}]
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}}
FOREIGN = [  # how many, where, what
    (5_000, "/api/v1/namespaces/{}/secrets", {"stringData": {"data": "x" * 20_000}}),
    (1_000, "/api/v1/namespaces/{}/configmaps", {"data": {"data": "x" * 20_000}}),
    # Pods that nobody starts.
    (
        500,
        "/api/v1/namespaces/{}/pods",
        {"spec": {"containers": CONTAINERS, "schedulingGates": [{"name": "example.com/never"}]}},
    ),
    (
        500,
        "/apis/apps/v1/namespaces/{}/statefulsets",
        {"spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}},
    ),
]


def peering(plural: str, kind: str, scope: str) -> dict[str, object]:
    """A definition as kopf's documents have it."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kopf.dev"},
        "spec": {
            "scope": scope,
            "group": "kopf.dev",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_a_foreign_peering_of_kopf_pauses_nobody(
    tmp_path: Path, cluster: Kubectl, kubectl: Kubectl, request: pytest.FixtureRequest
) -> None:
    kinds = [
        ("clusterkopfpeerings", "ClusterKopfPeering", "Cluster"),
        ("kopfpeerings", "KopfPeering", "Namespaced"),
    ]
    for plural, kind, scope in kinds:
        if cluster.exists("crd", f"{plural}.kopf.dev"):
            pytest.skip("there are operators on kopf in this cluster, which are not to be paused")
        request.addfinalizer(partial(cluster.delete, "crd", f"{plural}.kopf.dev"))
        cluster.apply(peering(plural, kind, scope))
        cluster.wait(f"crd/{plural}.kopf.dev", "condition=Established")
    other = {"priority": 100, "lifetime": 3_600, "lastseen": "2099-01-01T00:00:00"}
    body = {"apiVersion": "kopf.dev/v1", "metadata": {"name": "default"}, "status": {"x": other}}
    cluster.apply(body | {"kind": "ClusterKopfPeering"})
    kubectl.apply(body | {"kind": "KopfPeering"})

    async def scenario(scene: OperatorScene) -> None:
        await scene.ready_operator(RESYNC_SECONDS="3600")
        await scene.is_ready(await scene.give_topic())
        assert kubectl.get("kopfpeering", "default")["status"] == {"x": other}

    play(tmp_path, kubectl, scenario)


def test_thousands_of_foreign_objects_are_nothing_to_the_operator(
    tmp_path: Path, kubectl: Kubectl, measured: Callable[[str], None]
) -> None:
    async def scenario(scene: OperatorScene) -> None:
        operator = await scene.ready_operator(RESYNC_SECONDS="1", LEASE_SECONDS="60")
        await scene.is_ready(await scene.give_topic())
        before = anonymous_bytes(operator.pid)
        turns = asyncio.Semaphore(16)

        async def give(path: str, value: Document, number: int) -> None:
            metadata = {"name": f"foreign-{number}", "namespace": scene.namespace}
            async with turns:
                await scene.people.client.request(
                    "POST", path.format(scene.namespace), body={**value, "metadata": metadata}
                )

        for count, path, value in FOREIGN:
            await asyncio.gather(*(give(path, value, number) for number in range(count)))
        await scene.is_ready(await scene.give_topic("after"))
        await eventually(
            lambda: asyncio.to_thread(lambda: operator.asked("/healthz")[0] == 200), "it is well"
        )
        grown = anonymous_bytes(operator.pid) - before
        count = sum(count for count, _, _ in FOREIGN)
        measured(f"{count:,} foreign objects: the operator grew by {grown / MIB:.1f} MiB")
        assert grown < GROWTH_BYTES_MAX

    play(tmp_path, kubectl, scenario)
