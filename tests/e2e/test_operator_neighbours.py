"""What others have in the cluster: other operators on kopf, thousands of their objects."""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e_kubectl import Kubectl
from operator_scene import OperatorScene, play
from process_figures import anonymous_bytes
from process_memory import MIB
from real_people import eventually

pytestmark = pytest.mark.usefixtures("our_kinds")
SECRETS = 5_000
SECRET_BYTES = 20_000
GROWTH_BYTES_MAX = 20 * MIB


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
    tmp_path: Path, cluster: Kubectl, kubectl: Kubectl
) -> None:
    kinds = [
        ("clusterkopfpeerings", "ClusterKopfPeering", "Cluster"),
        ("kopfpeerings", "KopfPeering", "Namespaced"),
    ]
    for plural, kind, scope in kinds:
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


def test_thousands_of_foreign_secrets_are_nothing_to_the_operator(
    tmp_path: Path, kubectl: Kubectl, measured: Callable[[str], None]
) -> None:
    data = {"data": base64.b64encode(b"x" * SECRET_BYTES).decode()}

    async def scenario(scene: OperatorScene) -> None:
        operator = await scene.ready_operator(RESYNC_SECONDS="1")
        await scene.is_ready(await scene.give_topic())
        before = anonymous_bytes(operator.pid)
        turns = asyncio.Semaphore(16)

        async def give(number: int) -> None:
            metadata = {"name": f"foreign-{number}", "namespace": scene.namespace}
            async with turns:
                await scene.people.client.request(
                    "POST",
                    f"/api/v1/namespaces/{scene.namespace}/secrets",
                    body={"metadata": metadata, "data": data},
                )

        await asyncio.gather(*(give(number) for number in range(SECRETS)))
        await scene.is_ready(await scene.give_topic("after"))
        await eventually(
            lambda: asyncio.to_thread(lambda: operator.asked("/healthz")[0] == 200), "it is well"
        )
        grown = anonymous_bytes(operator.pid) - before
        measured(f"{SECRETS} foreign Secrets: the operator grew by {grown / MIB:.1f} MiB")
        assert grown < GROWTH_BYTES_MAX

    play(tmp_path, kubectl, scenario)
