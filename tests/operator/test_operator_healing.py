"""Whatever happens, in whatever order, and wherever the process ends: it heals."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_client import LinkError
from iggy_operator.cluster import Ref
from iggy_operator.conditions import found
from iggy_operator.reasons import Reason
from operator_world import OperatorWorld, given_all, run_in
from planted_faults import CLUSTER_FAULTS, Made
from troubled_lives import Lives, concerns, live

TOPIC = Ref("IggyTopic", "shop", "orders")
STREAM = Ref("IggyStream", "shop", "shop")


async def first_events(world: OperatorWorld, order: tuple[int, ...]) -> None:
    """Five states of one topic, told in an order and with gaps; what is true is the last one."""
    told: list[tuple[Ref, object]] = []
    world.cluster.watchers.clear()
    world.cluster.watchers.append(
        lambda ref, value: told.append((ref, value)) if ref == TOPIC else None
    )
    world.give_topic(partitions=1)
    world.cluster.annotate(TOPIC, "reconcile-at", "1")
    world.cluster.remove(TOPIC)
    world.give_topic(partitions=2, deletionPolicy="Delete")
    world.cluster.change_spec(TOPIC, partitions=3)
    assert len(told) == 5
    world.cluster.watchers[:] = [lambda ref, value: world.watched(ref, value)]
    for index in order:
        ref, value = told[index]
        world.passes.changed(ref, value)  # type: ignore[arg-type]
        if index % 2:
            await world.settle()
    await world.settle()


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_all_orders_of_the_first_events_end_in_the_same_state(order: tuple[int, ...]) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        await world.resync()

        await first_events(world, order)

        assert world.broker.topics["shop", "orders"].partitions_count == 3
        assert world.says(TOPIC) == ("True", "Synced")
        assert world.says(TOPIC, "Synced") == ("True", "Synced")
        assert world.status(TOPIC)["observedGeneration"] == 2
        assert world.status(TOPIC)["partitions"] == 3
        assert "recreations" not in world.status(TOPIC)

    run_in(scenario)


EDITS = st.lists(
    st.sampled_from(
        ["grow", "delete topic", "give topic", "drop", "wipe", "down", "up", "restart", "wait",
         "delete stream", "give stream", "pause", "go on", "silence"]
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(EDITS)
def test_whatever_happens_in_between_the_end_is_as_the_objects_say(edits: list[str]) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world)
        for edit in edits:
            await happen(world, edit)
        await happen(world, "up")
        await happen(world, "give stream")
        await happen(world, "give topic")
        await happen(world, "go on")
        world.cluster.watchers[:] = [lambda ref, value: world.watched(ref, value)]
        await world.go(700)

        wanted = world.cluster.objects[TOPIC]["spec"]["partitions"]
        assert world.broker.topics["shop", "orders"].partitions_count >= wanted
        assert world.says(TOPIC) == ("True", "Synced")
        assert world.says(STREAM) == ("True", "Synced")
        check_sound(world)

    run_in(scenario)


async def happen(world: OperatorWorld, edit: str) -> None:  # noqa: C901 -- a table of edits
    objects = world.cluster.objects
    match edit:
        case "grow" if TOPIC in objects:
            count = objects[TOPIC]["spec"]["partitions"] + 1
            world.cluster.change_spec(TOPIC, partitions=count)
        case "delete topic" if TOPIC in objects:
            world.cluster.remove(TOPIC)
        case "delete stream" if STREAM in objects:
            world.cluster.remove(STREAM)
        case "give topic" if TOPIC not in objects:
            world.give_topic()
        case "give stream" if STREAM not in objects:
            world.give_stream()
        case "drop" if ("shop", "orders") in world.broker.topics:
            world.broker.drop_topic("shop", "orders")
        case "wipe" if TOPIC in objects:
            world.cluster.wipe_status(TOPIC)
        case "pause" | "go on" if TOPIC in objects:
            world.cluster.annotate(TOPIC, "paused", "true" if edit == "pause" else None)
        case "down" | "up":
            world.broker.is_down = edit == "down"
        case "restart":
            world.start()
        case "silence":
            world.cluster.watchers.clear()
        case "wait":
            await world.go(70)


def check_sound(world: OperatorWorld) -> None:
    """What must hold of every object at any time."""
    for ref, value in world.cluster.objects.items():
        rows = value.get("status", {}).get("conditions", [])
        if ref.kind.startswith("Iggy"):
            assert found(rows, "Ready") is not None
        assert all(item["reason"] in set(Reason) for item in rows)
        assert all(item["reason"] != "InternalError" for item in rows)


async def life(world: OperatorWorld) -> None:
    """Make, change, lose, delete; a process that is killed is started again."""
    world.give_broker()
    stream = world.give_stream(adoptionPolicy="FailIfExists", deletionPolicy="Delete")
    topic = world.give_topic(
        adoptionPolicy="FailIfExists",
        deletionPolicy="Delete",
        consumerGroups=[{"name": "a"}, {"name": "b"}],
    )
    await live(world)
    assert sorted(world.broker.groups["shop", "orders"]) == ["a", "b"]
    assert world.says(topic) == ("True", "Synced")
    assert world.says(topic, "DataContinuity") == ("True", "Synced")
    world.cluster.change_spec(topic, partitions=3)
    await live(world)
    assert world.broker.topics["shop", "orders"].partitions_count == 3
    world.broker.drop_topic("shop", "orders")
    await live(world)
    assert world.says(topic, "DataContinuity") == ("False", "Recreated")
    assert world.status(topic)["recreations"] == 1
    check_sound(world)
    world.cluster.remove(topic)
    await live(world)
    world.cluster.remove(stream)
    await live(world)
    assert (world.broker.streams, world.cluster.names("IggyTopic")) == ({}, [])


LIVES = Lives(run_in, life)
FAULTS = [*CLUSTER_FAULTS, LinkError("the connection broke")]
EVERY = 5  # all calls take long, and say the same


def test_a_kill_after_every_single_write_heals() -> None:
    LIVES.check_kills(more_than=10)


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_at_any_call_heals(fault: Exception, lost: bool) -> None:
    def may_hit(call: Made) -> bool:
        return concerns(fault, call) and call.verb != "list"  # who lists tries again by himself

    LIVES.check_faults(fault, may_hit, lost=lost, every=EVERY, more_than=20)
