"""The operator's core around a fake cluster and a fake broker, on a clock that a test moves."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any

from desired_cases import RELEASE
from fake_broker import ADDRESS, PASSWORD, USERNAME, FakeBroker
from fake_cluster import FakeCluster
from iggy_operator.broker_admin import Connect
from iggy_operator.brokers import BrokerPool
from iggy_operator.cache import KINDS, ObjectCache
from iggy_operator.cluster import Object, Ref
from iggy_operator.conditions import found
from iggy_operator.endings import Endings
from iggy_operator.figures import FiguresError
from iggy_operator.kinds.common import World
from iggy_operator.passes import Passes
from iggy_operator.queue import WorkQueue
from operator_rights import must_be_granted
from planted_faults import Faults
from resource_documents import document

NAMESPACE = "shop"
RESYNC_S = 60.0
PASSES_MAX = 5_000  # of one `settle`: more is a loop without end


class HandClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def now_s(self) -> float:
        return self.seconds

    def monotonic_s(self) -> float:
        return self.seconds


class OperatorWorld:
    """A cluster, a broker, and an operator that can be killed and started again."""

    def __init__(self, connect: Connect | None = None) -> None:
        self.clock = HandClock()
        self.faults = Faults()
        self.cluster = FakeCluster(self.clock, self.faults)
        self.cluster.check_right = must_be_granted
        self.broker = FakeBroker(self.faults)
        self._connect = connect or self.broker.connect
        self.product = RELEASE
        self.metrics: list[str] | None = None
        """Lines of the metrics of brokers and drivers; None: they do not come."""
        self.asked: list[str] = []
        """Addresses whose metrics were asked for."""
        self.passes: Passes
        self.queue: WorkQueue[Ref]
        self.cluster.watchers.append(lambda ref, value: self.watched(ref, value))
        self.start()

    def start(self) -> None:
        """A new process: it remembers nothing, and begins with a resync."""
        cache = ObjectCache()
        self.pool = BrokerPool(self._connect, self.clock, lambda: 0.5)
        self.endings = Endings(self.cluster, (NAMESPACE,))
        ending = self.endings.ending
        self.world = World(
            self.cluster, cache, self.pool, self.clock, self.product, ending=ending,
            read_metrics=self.read_metrics,
        )  # fmt: skip
        self.queue = WorkQueue(lambda: 0.5)
        self._next_resync_s = self.clock.seconds
        self._is_loaded = False
        self.passes = Passes(self.world, add=self._add, check=self._check)

    async def read_metrics(self, address: str, prefix: str) -> list[str]:
        """Those that a test has set."""
        self.asked.append(address)
        if self.metrics is None:
            raise FiguresError(f"http://{address}/metrics: nobody is there")
        return [line for line in self.metrics if line.startswith(prefix)]

    def _add(self, ref: Ref) -> None:
        self.queue.add(ref, self.clock.monotonic_s())

    def _check(self, ref: Ref) -> None:
        self.queue.check(ref, self.clock.monotonic_s())

    def watched(self, ref: Ref, value: Object | None) -> None:
        """What a watch tells; None: the object is gone."""
        if ref.kind in KINDS:
            self.passes.changed(ref, value)

    async def settle(self) -> None:
        """Run passes until none is due at this moment, a few side by side."""
        for _ in range(PASSES_MAX):
            batch: list[Ref] = []
            while len(batch) < 4 and (ref := self.queue.take(self.clock.seconds)) is not None:
                batch.append(ref)
            if not batch:
                return
            outcomes = await asyncio.gather(*(self.passes.run(ref) for ref in batch))
            for ref, outcome in zip(batch, outcomes, strict=True):
                self.queue.finish(ref, self.clock.seconds, outcome)
        raise AssertionError("the operator does not come to rest")

    async def resync(self) -> None:
        """What happens each minute, and at the start."""
        await self._look()
        await self.settle()

    async def _look(self) -> None:
        self._next_resync_s = self.clock.seconds + RESYNC_S
        if not self._is_loaded:
            await self.passes.load()
            self._is_loaded = True
        await self.passes.resync()

    async def go(self, seconds: float) -> None:
        """Let time pass, with every retry and resync in it."""
        end_s = self.clock.seconds + seconds
        while True:
            due_s = min(self.queue.next_due_s() or end_s, self._next_resync_s, end_s)
            self.clock.seconds = max(self.clock.seconds, due_s)
            if self.clock.seconds >= self._next_resync_s:
                await self._look()
            await self.settle()
            if self.clock.seconds >= end_s:
                return

    # What is there.

    def give_broker(self, name: str = "main", **spec: Any) -> None:
        """An external broker and its Secret."""
        self.give_secret("root", username=USERNAME, password=PASSWORD)
        external = {"tcp": ADDRESS, "http": "http://iggy", "credentialsSecretName": "root"}
        value = document("IggyBroker", {"mode": "External", "external": external} | spec)
        value["metadata"]["name"] = name
        self.cluster.put(value)

    def give_secret(self, name: str, **values: str) -> None:
        data = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        self.cluster.put(secret)

    def give_stream(self, name: str = "shop", *, namespace: str = NAMESPACE, **spec: Any) -> Ref:
        value = document("IggyStream", {"brokerRef": {"name": "main"}} | spec, name=name)
        self.cluster.put(value, namespace=namespace)
        return Ref("IggyStream", namespace, name)

    def give_topic(self, name: str = "orders", *, namespace: str = NAMESPACE, **spec: Any) -> Ref:
        value = document("IggyTopic", {"streamRef": {"name": "shop"}} | spec, name=name)
        self.cluster.put(value, namespace=namespace)
        return Ref("IggyTopic", namespace, name)

    def give_user(self, name: str = "fraud", *, namespace: str = NAMESPACE, **spec: Any) -> Ref:
        value = document("IggyUser", {"brokerRef": {"name": "main"}} | spec, name=name)
        self.cluster.put(value, namespace=namespace)
        return Ref("IggyUser", namespace, name)

    def secret(self, name: str, key: str, *, namespace: str = NAMESPACE) -> str:
        """A value of a Secret."""
        value = self.cluster.objects[Ref("Secret", namespace, name)]
        return base64.b64decode(value["data"][key]).decode()

    def status(self, ref: Ref) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.cluster.objects[ref]["status"]
        return status

    def says(self, ref: Ref, kind: str = "Ready") -> tuple[str, str]:
        """Status and reason of a condition."""
        item = found(self.status(ref)["conditions"], kind)
        assert item is not None, f"no condition {kind} in {self.status(ref)}"
        return item["status"], item["reason"]

    def message(self, ref: Ref, kind: str = "Ready") -> str:
        item = found(self.status(ref)["conditions"], kind)
        assert item is not None
        return str(item["message"])

    def finalizers(self, ref: Ref) -> list[str]:
        return list(self.cluster.objects[ref]["metadata"].get("finalizers", []))

    def writes(self) -> list[str]:
        """What was changed in broker and cluster, in order."""
        return [call.verb for call in self.faults.writes]


def run_in(
    scenario: Callable[[OperatorWorld], Any], connect: Connect | None = None
) -> OperatorWorld:
    """Run an async scenario in a fresh world; the world afterwards."""

    async def main() -> OperatorWorld:
        world = OperatorWorld(connect)
        await scenario(world)
        return world

    return asyncio.run(main())


async def given_all(world: OperatorWorld, **topic: Any) -> tuple[Ref, Ref]:
    """A broker, a stream and a topic, settled; the stream and the topic."""
    world.give_broker()
    refs = world.give_stream(), world.give_topic(**topic)
    await world.resync()
    return refs
