"""A fake cluster with fake launchers and one sink, for tests of the sink pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fake_launchers import FakeLaunchers
from iggy_operator.cluster import Ref
from launcher_cases import SMALLEST
from operator_world import OperatorWorld, given_all, run_in
from resource_documents import sink

LAUNCHERS = ("Native", "Kubeflow", "Apache")
SINK = Ref("IggySink", "shop", "lake")
TOPIC = Ref("IggyTopic", "shop", "orders")
GROUP = "shop/lake"


def sink_of(launcher: str = "Native", **fields: Any) -> dict[str, Any]:
    spark = {**SMALLEST["spark"], "launcher": launcher} | fields.pop("spark", {})
    value = sink(**{**SMALLEST, "spark": spark, **fields})
    value["metadata"]["name"] = "lake"
    return value


class Scene:
    """A world with launchers and one sink."""

    def __init__(self, world: OperatorWorld) -> None:
        self.world = world
        self.launchers = FakeLaunchers(world.cluster)
        self.give_account("iggy-spark")  # of the operator's chart

    def give_account(self, name: str) -> None:
        value = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.world.cluster.put(value)

    async def given(self, launcher: str = "Native", **fields: Any) -> None:
        await given_all(self.world)
        self.world.cluster.put(sink_of(launcher, **fields))
        await self.go(60)

    async def go(self, seconds: float) -> None:
        for _ in range(int(seconds // 5)):
            self.launchers.tick()
            await self.world.go(5)

    def change(self, **spec: Any) -> None:
        self.world.cluster.change_spec(SINK, **spec)

    @property
    def uid(self) -> str:
        """Of the only application."""
        (value,) = self.launchers.applications()
        return str(value["metadata"]["uid"])

    @property
    def status(self) -> Any:
        return self.world.status(SINK)

    def says(self, kind: str = "Ready") -> tuple[str, str]:
        return self.world.says(SINK, kind)


def play(scenario: Callable[[Scene], Any]) -> None:
    async def main(world: OperatorWorld) -> None:
        await scenario(Scene(world))

    run_in(main)
