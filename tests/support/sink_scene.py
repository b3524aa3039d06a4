"""A fake cluster with fake launchers and one sink or source, for tests of their pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fake_launchers import FakeLaunchers
from iggy_operator.cluster import Ref
from launcher_cases import SMALLEST
from operator_world import OperatorWorld, given_all, run_in
from planted_faults import Killed
from resource_documents import sink, source

LAUNCHERS = ("Native", "Kubeflow", "Apache")
SINK = Ref("IggySink", "shop", "lake")
TOPIC = Ref("IggyTopic", "shop", "orders")
GROUP = "shop/lake"
SOURCE = Ref("IggySource", "shop", "made")
SEAT = "shop/made"


def sink_of(launcher: str = "Native", **fields: Any) -> dict[str, Any]:
    spark = {**SMALLEST["spark"], "launcher": launcher} | fields.pop("spark", {})
    value = sink(**{**SMALLEST, "spark": spark, **fields})
    value["metadata"]["name"] = "lake"
    return value


def source_of(launcher: str = "Native", **fields: Any) -> dict[str, Any]:
    value = source(**{"spark": {"launcher": launcher}, **fields})
    value["metadata"]["name"] = "made"
    return value


class Scene:
    """A world with launchers and one sink, or one source."""

    def __init__(self, world: OperatorWorld, ref: Ref = SINK) -> None:
        self.world, self.ref = world, ref
        self.launchers = FakeLaunchers(world.cluster)
        self.takes_seat = True
        self.give_account("iggy-spark")  # of the operator's chart

    def give_account(self, name: str) -> None:
        value = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.world.cluster.put(value)

    async def given(self, launcher: str = "Native", **fields: Any) -> None:
        await given_all(self.world)
        make = source_of if self.ref == SOURCE else sink_of
        self.world.cluster.put(make(launcher, **fields))
        await self.go(60)

    async def go(self, seconds: float) -> None:
        for _ in range(int(seconds // 5)):
            self.launchers.tick()
            self.seat_drivers()
            await self.world.go(5)

    def seat_drivers(self) -> None:
        """As a source's driver does: it is in the group for as long as it runs."""
        broker = self.world.broker
        if self.ref == SOURCE and self.takes_seat and ("shop", "orders") in broker.topics:
            broker.groups["shop", "orders"] = [SEAT]
            broker.members[SEAT] = len(self.launchers.drivers())

    def change(self, **spec: Any) -> None:
        self.world.cluster.change_spec(self.ref, **spec)

    @property
    def uid(self) -> str:
        """Of the only application."""
        (value,) = self.launchers.applications()
        return str(value["metadata"]["uid"])

    @property
    def status(self) -> Any:
        return self.world.status(self.ref)

    def says(self, kind: str = "Ready") -> tuple[str, str]:
        return self.world.says(self.ref, kind)


def play(scenario: Callable[[Scene], Any], ref: Ref = SINK) -> None:
    async def main(world: OperatorWorld) -> None:
        await scenario(Scene(world, ref))

    run_in(main)


async def survive(scene: Scene, steps: Iterable[Mapping[str, Any]], *, killed_after: int) -> None:
    """Change the connector step by step, with an operator that is killed after so many writes.
    There are never two drivers.
    """
    world = scene.world
    world.faults.kill_after_write = len(world.faults.writes) + killed_after
    kills = 0
    for spec in steps:
        scene.change(**spec)
        try:
            await scene.go(40)
        except Killed:
            kills += 1
            world.faults.kill_after_write = None
            world.start()
    assert kills == 1
    await scene.go(120)  # `tick` fails at once where there are two
