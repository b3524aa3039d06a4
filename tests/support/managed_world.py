"""An operator's world in which managed brokers come to life."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

from fake_stateful_sets import FakeStatefulSets
from iggy_operator.broker_admin import Connect
from iggy_operator.cluster import Object, Ref
from operator_world import NAMESPACE, OperatorWorld
from resource_documents import document

BROKER = Ref("IggyBroker", NAMESPACE, "main")
POD = Ref("Pod", NAMESPACE, "main-0")
CLAIM = Ref("PersistentVolumeClaim", NAMESPACE, "data-main-0")
STATEFUL_SET = Ref("StatefulSet", NAMESPACE, "main")
ROOT = Ref("Secret", NAMESPACE, "main-root")


class ManagedWorld(OperatorWorld):
    """The fake broker answers at the Service of the pod that started last."""

    def __init__(self, connect: Connect | None = None) -> None:
        super().__init__(connect)
        self.broker.address = ""
        self.volumes: dict[str, tuple[str, str]] = {}
        """Root's name and password, as the first start on a volume wrote them."""
        self._volume = ""
        self.broker.root_changed = self._root_changed
        self.sets = FakeStatefulSets(self.cluster, self._started)

    def _started(self, pod: Object) -> None:
        metadata = pod["metadata"]
        name, namespace = metadata["name"].removesuffix("-0"), metadata["namespace"]
        env = pod["spec"]["containers"][0]["env"]
        secret = next(item["valueFrom"]["secretKeyRef"]["name"] for item in env
                      if item["name"] == "IGGY_ROOT_PASSWORD")  # fmt: skip
        data = self.cluster.objects[Ref("Secret", namespace, secret)]["data"]
        login = tuple(base64.b64decode(data[key]).decode() for key in ("username", "password"))
        claim = self.cluster.objects.get(Ref("PersistentVolumeClaim", namespace, f"data-{name}-0"))
        volume = claim["metadata"]["uid"] if claim else metadata["uid"]
        kept = self.volumes.setdefault(volume, (login[0], login[1]))
        self._volume = volume
        self.broker.username, self.broker.password = kept
        self.broker.address = f"{name}.{namespace}.svc:8090"

    def _root_changed(self, password: str) -> None:
        self.volumes[self._volume] = (self.broker.username, password)

    def root(self) -> tuple[str, str]:
        """Name and password as the volume of the broker that started last has them."""
        return self.volumes[self._volume]

    def give_managed(self, name: str = "main", **spec: Any) -> Ref:
        self.cluster.put(document("IggyBroker", spec, name=name), namespace=NAMESPACE)
        return Ref("IggyBroker", NAMESPACE, name)

    def uid(self, ref: Ref) -> str:
        return str(self.cluster.objects[ref]["metadata"]["uid"])

    def spec(self, ref: Ref) -> dict[str, Any]:
        spec: dict[str, Any] = self.cluster.objects[ref]["spec"]
        return spec

    def claimed(self) -> str:
        """Size that the claim asks for."""
        return str(self.spec(CLAIM)["resources"]["requests"]["storage"])


def run_managed(scenario: Callable[[ManagedWorld], Any]) -> ManagedWorld:
    """Run an async scenario in a fresh world; the world afterwards."""

    async def main() -> ManagedWorld:
        world = ManagedWorld()
        await scenario(world)
        return world

    return asyncio.run(main())


async def started(world: ManagedWorld, **spec: object) -> None:
    world.give_managed(**spec)
    await world.resync()
    await world.go(10)
    assert world.says(BROKER) == ("True", "Synced"), world.message(BROKER)


def template_of(world: ManagedWorld) -> dict[str, Any]:
    template: dict[str, Any] = world.spec(STATEFUL_SET)["volumeClaimTemplates"][0]["spec"]
    return template


def rendered_size(world: ManagedWorld) -> str:
    return str(template_of(world)["resources"]["requests"]["storage"])


def wish(world: ManagedWorld, size: str, **further: Any) -> None:
    storage = world.spec(BROKER)["storage"] | {"size": size} | further
    world.cluster.change_spec(BROKER, storage=storage)
