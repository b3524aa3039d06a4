"""A namespace of a real cluster with an external broker that is a real process, and operators.

The operators have the rights that the chart gives them.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from broker_process import PASSWORD, USERNAME, BrokerProcess
from e2e_kubectl import Kubectl
from iggy_client import calls
from iggy_operator import API_VERSION
from iggy_operator.cluster import Object, Ref
from operator_account import account
from operator_process import OperatorProcess
from real_people import RealPeople, eventually, real


class OperatorScene:
    """What a test of the operator's process stands on."""

    def __init__(self, folder: Path, kubectl: Kubectl, people: RealPeople) -> None:
        self.folder = folder
        self.kubectl = kubectl
        self.people = people
        self.namespace = kubectl.namespace
        self.kubeconfig = account(kubectl, folder / "operators.kubeconfig").kubeconfig
        self.broker = BrokerProcess(folder, shards=1)
        self.operators: list[OperatorProcess] = []
        self._numbers = itertools.count(1)

    def operator(self, *, kubeconfig: Path | None = None, **settings: str) -> OperatorProcess:
        """One replica for this namespace, started."""
        name = f"operator-{next(self._numbers)}"
        own = {"NAMESPACE": self.namespace, "WATCH_NAMESPACES": self.namespace}
        found = OperatorProcess(
            self.folder, kubeconfig or self.kubeconfig, own | settings, name=name
        )
        self.operators.append(found)
        return found.start()

    async def ready_operator(self, **settings: str) -> OperatorProcess:
        return await asyncio.to_thread(self.operator(**settings).wait_ready)

    async def give(self, kind: str, name: str, **spec: Any) -> Ref:
        """Make or change an object."""
        await self.people.put(self.document(kind, name, spec))
        return Ref(kind, self.namespace, name)

    def document(self, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}

    async def give_broker(self, *, address: str = "") -> None:
        """An object for the broker, its login, and the stream `shop`."""
        values = {"username": USERNAME, "password": PASSWORD}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}
        metadata = {"name": "root", "namespace": self.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        await self.people.put(secret)
        external = {
            "tcp": address or self.broker.address,
            "http": "http://127.0.0.1:3000",
            "credentialsSecretName": "root",
        }
        await self.give("IggyBroker", "main", mode="External", external=external)
        await self.give("IggyStream", "shop", brokerRef={"name": "main"})

    async def give_topic(self, name: str = "orders", **spec: Any) -> Ref:
        return await self.give("IggyTopic", name, streamRef={"name": "shop"}, **spec)

    async def is_ready(self, ref: Ref, within_s: float = 60.0) -> Object:
        """The object, once it says so of its present spec."""

        async def says() -> bool:
            value = await self.people.get(ref)
            items = value.get("status", {}).get("conditions", ())
            generation = value["metadata"]["generation"]
            return any(
                item["type"] == "Ready"
                and item["status"] == "True"
                and item.get("observedGeneration") == generation
                for item in items
            )

        await eventually(says, f"{ref} is Ready", within_s)
        return await self.people.get(ref)

    async def is_gone(self, ref: Ref) -> None:
        await eventually(lambda: self.people.is_gone(ref), f"{ref} is gone")

    def topics(self) -> dict[str, int]:
        """What the broker itself has: partitions by topic."""
        with self.broker.client() as client:
            return {
                item.name: item.partitions_count for item in client.call(calls.get_topics("shop"))
            }


@asynccontextmanager
async def scene(folder: Path, kubectl: Kubectl) -> AsyncIterator[OperatorScene]:
    """Everything that was started is ended."""
    async with real(kubectl.kubeconfig, kubectl.namespace) as (_, people):
        found = OperatorScene(folder, kubectl, people)
        with ExitStack() as ends:
            ends.callback(found.broker.end)
            found.broker.start()
            try:
                yield found
            finally:
                for operator in found.operators:
                    operator.kill()


def play(
    folder: Path, kubectl: Kubectl, scenario: Callable[[OperatorScene], Awaitable[None]]
) -> None:
    """Run one."""

    async def main() -> None:
        async with scene(folder, kubectl) as found:
            await found.give_broker()
            await scenario(found)

    asyncio.run(main())


def through(kubeconfig: Path, port: int, path: Path) -> Path:
    """The same kubeconfig by way of a port of this machine."""
    config = yaml.safe_load(kubeconfig.read_text())
    for item in config["clusters"]:
        cluster = item["cluster"]
        cluster.pop("certificate-authority-data", None)
        cluster.pop("certificate-authority", None)
        cluster |= {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    path.write_text(yaml.safe_dump(config))
    return path
