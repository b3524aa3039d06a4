"""A namespace ends, and our rights in it end at any moment: nothing of ours holds it up."""

import asyncio
from typing import Any

import pytest

from iggy_operator import endings
from iggy_operator.cluster import ConflictError, DeniedError, Ref, UnreachableError
from iggy_operator.objects import FINALIZER
from operator_world import NAMESPACE, OperatorWorld, given_all, run_in
from planted_faults import Made
from waiting import WITHIN_S

TOPIC = Ref("IggyTopic", NAMESPACE, "orders")
USER = Ref("IggyUser", NAMESPACE, "fraud")
HELD = (TOPIC, USER)


async def given_held(world: OperatorWorld) -> None:
    """A topic and a user whose deletion waits for us, and what they need."""
    world.give_user()
    await given_all(world, deletionPolicy="Delete")
    assert [world.finalizers(ref) for ref in HELD] == [[FINALIZER], [FINALIZER]]


def mark_namespace(world: OperatorWorld, **more: Any) -> None:
    """It is there; `deletionTimestamp`: somebody has deleted it, and Kubernetes has not begun."""
    metadata = {"name": NAMESPACE, "uid": "n", **more}
    ref = Ref("Namespace", "", NAMESPACE)
    world.cluster.objects[ref] = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


async def look(world: OperatorWorld, *namespaces: str) -> None:
    for namespace in namespaces or (NAMESPACE,):
        await world.endings.look(namespace)


DELETED = {"deletionTimestamp": "2027-01-01T00:00:00Z"}


def deny_everything(call: Made) -> Exception | None:
    return DeniedError("forbidden")


def test_what_is_in_it_is_let_go_before_our_rights_are_gone() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_held(world)
        mark_namespace(world, **DELETED)

        await look(world)
        world.faults.fail = deny_everything
        world.cluster.end_namespace(NAMESPACE)

        assert [ref for ref in world.cluster.objects if ref.namespace == NAMESPACE] == []
        assert ("shop", "orders") in world.broker.topics
        await world.settle()
        assert world.world.cache.get(TOPIC) is None

    run_in(scenario)


def test_a_living_namespace_is_left_alone() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_held(world)
        mark_namespace(world)

        await look(world, NAMESPACE, "elsewhere")

        assert [world.finalizers(ref) for ref in HELD] == [[FINALIZER], [FINALIZER]]

    run_in(scenario)


def test_in_a_namespace_that_ends_nothing_is_made_and_nothing_held_again() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_held(world)
        mark_namespace(world, **DELETED)
        await look(world)
        world.faults.calls.clear()

        world.broker.topics.clear()
        world.cluster.change_spec(TOPIC, partitions=3)
        world.give_topic("late", deletionPolicy="Delete")
        await world.go(130)

        assert world.writes() == []

    run_in(scenario)


def test_one_of_the_same_name_that_is_made_later_is_worked_on() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_held(world)
        mark_namespace(world, **DELETED)
        await look(world)
        world.cluster.end_namespace(NAMESPACE)
        del world.cluster.objects[Ref("Namespace", "", NAMESPACE)]
        await look(world)

        mark_namespace(world)
        await given_all(world, deletionPolicy="Delete")
        await look(world)

        assert world.finalizers(TOPIC) == [FINALIZER]
        assert world.says(TOPIC) == ("True", "Synced")

    run_in(scenario)


def test_a_look_that_is_denied_changes_nothing() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_held(world)
        mark_namespace(world, **DELETED)
        await look(world)
        world.faults.fail = deny_everything

        await look(world)

        assert world.endings.ending == {NAMESPACE}

    run_in(scenario)


@pytest.mark.parametrize("error", [ConflictError("changed"), UnreachableError("cut")])
def test_one_that_cannot_be_let_go_is_tried_again_and_keeps_no_other(error: Exception) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_held(world)
        mark_namespace(world, **DELETED)

        def fail(call: Made) -> Exception | None:
            return error if call.verb == "remove_finalizer" and "orders" in call.what else None

        world.faults.fail = fail
        await look(world)
        assert [world.finalizers(ref) for ref in HELD] == [[FINALIZER], []]

        world.faults.fail = lambda call: None
        await look(world)
        assert [world.finalizers(ref) for ref in HELD] == [[], []]

    run_in(scenario)


def test_it_goes_on_looking_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "LOOK_S", 0.01)

    async def scenario(world: OperatorWorld) -> None:
        await given_held(world)
        looks = 0

        def fail(call: Made) -> Exception | None:
            nonlocal looks
            looks += call.verb == "get"
            return UnreachableError("cut") if looks < 3 else None

        world.faults.fail = fail
        mark_namespace(world, **DELETED)
        running = asyncio.create_task(world.endings.run())
        async with asyncio.timeout(WITHIN_S):
            while any(world.finalizers(ref) for ref in HELD):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()

    run_in(scenario)
