"""A topic's `sinks` as IggySink objects."""

from collections.abc import Callable
from typing import Any

import pytest

from iggy_operator.cluster import ClusterError, DeniedError, InvalidError, Ref
from launcher_cases import SMALLEST
from operator_world import OperatorWorld, run_in
from planted_faults import Killed, Made
from resource_documents import document, sink
from sink_scene import Scene

BROKER = Ref("IggyBroker", "shop", "main")
STREAM = Ref("IggyStream", "shop", "shop")
TOPIC = Ref("IggyTopic", "shop", "orders")
LAKE = Ref("IggySink", "shop", "orders.lake")


def listed(name: str, **fields: Any) -> dict[str, Any]:
    """An entry of a topic's `sinks`."""
    spec = {key: item for key, item in sink(**fields)["spec"].items() if key != "topicRef"}
    return {"name": name, **spec}


async def given(world: OperatorWorld, *sinks: dict[str, Any], name: str = "orders") -> Ref:
    world.give_broker()
    world.give_stream()
    ref = world.give_topic(name, sinks=list(sinks))
    await world.resync()
    return ref


def test_each_entry_becomes_an_object_that_the_topic_owns() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"), listed("audit", maxOffsetsPerTrigger=5))

        assert world.cluster.names("IggySink") == ["orders.audit", "orders.lake"]
        value = world.cluster.objects[Ref("IggySink", "shop", "orders.audit")]
        assert value["spec"]["topicRef"] == {"name": "orders"}
        assert value["spec"]["maxOffsetsPerTrigger"] == 5
        (owner,) = value["metadata"]["ownerReferences"]
        assert owner["uid"] == world.cluster.objects[TOPIC]["metadata"]["uid"]

    run_in(scenario)


def test_what_is_as_wanted_is_left_alone() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"))
        await world.go(120)
        before = len(world.faults.writes)

        await world.go(600)

        assert world.writes()[before:] == []

    run_in(scenario)


def test_a_changed_entry_changes_its_sink_and_no_other() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"), listed("audit"))
        audit = world.cluster.objects[Ref("IggySink", "shop", "orders.audit")]["metadata"]
        uid = world.cluster.objects[LAKE]["metadata"]["uid"]

        changed = listed("lake", suspend=True)
        world.cluster.change_spec(TOPIC, sinks=[changed, listed("audit")])
        await world.settle()

        lake = world.cluster.objects[LAKE]
        assert lake["spec"]["suspend"] is True
        assert lake["metadata"]["uid"] == uid
        assert world.cluster.objects[Ref("IggySink", "shop", "orders.audit")]["metadata"] == audit

    run_in(scenario)


def test_an_entry_that_is_taken_out_takes_its_sink_along() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"), listed("audit"))
        own = {**sink()["spec"], "topicRef": {"name": "orders"}}
        foreign = {"apiVersion": "iggykube.dev/v1alpha1", "kind": "IggySink", "spec": own}
        world.cluster.put({**foreign, "metadata": {"name": "by-hand"}})

        world.cluster.change_spec(TOPIC, sinks=[listed("lake")])
        await world.go(120)

        assert world.cluster.names("IggySink") == ["by-hand", "orders.lake"]
        assert world.status(TOPIC)["sinksTotal"] == 1

    run_in(scenario)


def test_sinks_go_with_their_topic() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"))
        world.cluster.remove(TOPIC)
        await world.go(120)
        assert world.cluster.names("IggySink") == []

    run_in(scenario)


def test_a_sink_of_somebody_else_is_left_alone() -> None:
    async def scenario(world: OperatorWorld) -> None:
        own = {**sink()["spec"], "topicRef": {"name": "orders"}}
        foreign = {"apiVersion": "iggykube.dev/v1alpha1", "kind": "IggySink", "spec": own}
        world.cluster.put({**foreign, "metadata": {"name": "orders.lake"}})
        await given(world, listed("lake", suspend=True))

        assert world.cluster.objects[LAKE]["spec"]["suspend"] is False
        assert world.says(TOPIC, "SinksReady") == ("False", "NameConflict")
        assert "not this topic's" in world.message(TOPIC, "SinksReady")
        assert world.says(TOPIC) == ("True", "Synced")

    run_in(scenario)


def test_a_long_topic_name_is_cut_and_marked() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"), name="o" * 63)
        (name,) = world.cluster.names("IggySink")
        assert len(name) == 63
        assert name.endswith(".lake")

    run_in(scenario)


def test_a_topic_that_is_paused_makes_no_sinks() -> None:
    async def scenario(world: OperatorWorld) -> None:
        ref = await given(world)
        world.cluster.annotate(ref, "paused", "true")
        world.cluster.change_spec(ref, sinks=[listed("lake")])
        await world.go(120)
        assert world.cluster.names("IggySink") == []

    run_in(scenario)


def test_the_topic_shows_how_its_sinks_are_doing() -> None:
    async def scenario(world: OperatorWorld) -> None:
        ref = await given(world, listed("lake", suspend=True))
        await world.go(60)

        status = world.status(ref)
        assert (status["sinksTotal"], status["sinksReady"]) == (1, 0)
        assert status["sinksSummary"] == "0/1"
        status, reason = world.says(LAKE)
        (row,) = world.status(ref)["sinks"]
        assert (row["name"], row["ready"], row["reason"]) == ("lake", status, reason)
        assert world.says(ref, "SinksReady") == ("False", reason)
        assert world.says(ref) == ("True", "Synced")

    run_in(scenario)


def test_a_sink_that_has_carried_everything_shows_a_lag_of_zero() -> None:
    async def scenario(world: OperatorWorld) -> None:
        scene = Scene(world)
        await given(world, listed("lake", **SMALLEST))
        await scene.go(130)

        (row,) = world.status(TOPIC)["sinks"]
        assert (row["ready"], row["lagMessages"]) == ("True", 0)

    run_in(scenario)


@pytest.mark.parametrize("killed_after", range(1, 14))
def test_a_process_that_is_killed_after_any_write_heals(killed_after: int) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.faults.kill_after_write = killed_after
        try:
            await given(world, listed("lake"), listed("audit"))
            world.cluster.change_spec(TOPIC, sinks=[listed("lake", suspend=True)])
            await world.go(60)
        except Killed:
            world.faults.kill_after_write = None
            world.start()
        world.give_topic(sinks=[listed("lake", suspend=True)])
        await world.go(120)

        assert world.cluster.names("IggySink") == ["orders.lake"]
        assert world.cluster.objects[LAKE]["spec"]["suspend"] is True

    run_in(scenario)


def test_a_sink_that_was_just_made_or_changed_is_looked_at_at_once() -> None:
    """Watches tell of a write after whoever wrote it knows already."""

    async def scenario(world: OperatorWorld) -> None:
        await given(world)
        told: list[tuple[Ref, Any]] = []
        world.cluster.watchers[:] = [lambda ref, value: told.append((ref, value))]

        for generation, entry in enumerate((listed("lake"), listed("lake", suspend=True)), start=1):
            world.cluster.change_spec(TOPIC, sinks=[entry])
            while told:
                world.watched(*told.pop(0))
                await world.settle()

            assert world.status(LAKE)["observedGeneration"] == generation

    run_in(scenario)


def goes_down(world: OperatorWorld) -> None:
    world.broker.is_down = True


def hibernates(world: OperatorWorld) -> None:
    world.cluster.remove(BROKER)
    world.cluster.put(document("IggyBroker", {"hibernate": True}, name="main"))


def lets_nobody_in(world: OperatorWorld) -> None:
    world.broker.password = "another"
    world.broker.cut()


def has_no_login(world: OperatorWorld) -> None:
    world.cluster.remove(Ref("Secret", "shop", "root"))
    world.start()


def loses_the_stream(world: OperatorWorld) -> None:
    world.cluster.annotate(STREAM, "paused", "true")
    world.broker.lose_everything()
    world.broker.cut()


AWAY: dict[str, Callable[[OperatorWorld], None]] = {
    "down": goes_down,
    "hibernated": hibernates,
    "its password changed": lets_nobody_in,
    "its Secret gone": has_no_login,
    "its object gone": lambda world: world.cluster.remove(BROKER),
    "the stream's object gone": lambda world: world.cluster.remove(STREAM),
    "the stream gone": loses_the_stream,
}


@pytest.mark.parametrize("break_it", AWAY.values(), ids=AWAY.keys())
def test_the_list_is_followed_while_the_broker_is_away(
    break_it: Callable[[OperatorWorld], None],
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"), listed("audit"))
        break_it(world)
        await world.go(130)  # it is not taken from a listing any more
        wanted = [listed("lake", suspend=True), listed("more")]
        world.cluster.change_spec(TOPIC, sinks=wanted)
        await world.go(130)

        assert world.cluster.names("IggySink") == ["orders.lake", "orders.more"]
        assert world.cluster.objects[LAKE]["spec"]["suspend"] is True
        assert [row["name"] for row in world.status(TOPIC)["sinks"]] == ["lake", "more"]
        assert world.says(TOPIC, "SinksReady") == ("False", world.says(LAKE)[1])

    run_in(scenario)


def test_the_list_is_followed_where_the_broker_allows_the_topic_no_more() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker(allowedNamespaces={"from": "List", "names": ["friends"]})
        world.give_stream()
        spec = {"streamRef": {"name": "shop", "namespace": "shop"}}
        ref = world.give_topic(namespace="friends", sinks=[listed("lake")], **spec)
        await world.resync()
        assert world.says(ref) == ("True", "Synced")

        world.cluster.change_spec(BROKER, allowedNamespaces={"from": "Same"})
        world.cluster.change_spec(ref, sinks=[listed("lake", suspend=True)])
        await world.go(70)

        assert world.says(ref) == ("False", "NotAllowed")
        lake = world.cluster.objects[Ref("IggySink", "friends", "orders.lake")]
        assert lake["spec"]["suspend"] is True

    run_in(scenario)


@pytest.mark.parametrize("refusal", [DeniedError("exceeded quota"), InvalidError("by a webhook")])
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_a_sink_that_is_refused_is_told_and_hides_nothing_else(
    verb: str, refusal: ClusterError
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        def fail(call: Made) -> Exception | None:
            return refusal if call.verb == verb and "IggySink" in call.what else None

        await given(world, listed("lake"))
        world.broker.is_down = True
        await world.go(130)
        world.faults.fail = fail
        more = [] if verb == "apply" else [listed("more")]
        world.cluster.change_spec(TOPIC, sinks=[listed("lake", suspend=verb == "apply"), *more])
        await world.go(130)

        assert world.says(TOPIC) == ("Unknown", "BrokerUnreachable")
        assert str(refusal) in world.message(TOPIC, "SinksReady")
        world.faults.fail = lambda call: None
        await world.go(310)
        assert "is refused" not in world.message(TOPIC, "SinksReady")

    run_in(scenario)


def test_no_sink_is_made_for_a_topic_that_is_somebody_elses() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        await world.resync()
        world.broker.make_topic("shop", "orders")
        world.give_topic(adoptionPolicy="FailIfExists", sinks=[listed("lake")])
        await world.go(130)

        assert world.says(TOPIC) == ("False", "AlreadyExists")
        assert world.cluster.names("IggySink") == world.cluster.names("IggyUser") == []
        (row,) = world.status(TOPIC)["sinks"]
        assert (row["name"], row["ready"]) == ("lake", "Unknown")

    run_in(scenario)


def test_a_topic_whose_broker_is_away_says_so_and_nothing_is_written_twice() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"))
        world.broker.is_down = True
        await world.go(130)
        world.cluster.change_spec(TOPIC, sinks=[listed("lake", suspend=True)])
        await world.go(130)
        assert world.says(TOPIC) == ("Unknown", "BrokerUnreachable")
        assert world.status(TOPIC)["partitions"] == 1  # as it was last seen
        before = len(world.faults.writes)

        await world.go(600)

        assert world.writes()[before:] == []
        world.broker.is_down = False
        await world.go(310)
        assert world.says(TOPIC) == ("True", "Synced")

    run_in(scenario)


@pytest.mark.parametrize("killed_after", range(1, 9))
def test_a_process_that_is_killed_while_the_broker_is_away_heals(killed_after: int) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given(world, listed("lake"), listed("audit"))
        world.broker.is_down = True
        await world.go(130)
        world.cluster.change_spec(TOPIC, sinks=[listed("lake", suspend=True), listed("more")])
        world.faults.kill_after_write = len(world.faults.writes) + killed_after
        with pytest.raises(Killed):
            await world.go(130)
        world.faults.kill_after_write = None
        world.start()
        await world.go(130)

        assert world.cluster.names("IggySink") == ["orders.lake", "orders.more"]
        assert world.cluster.objects[LAKE]["spec"]["suspend"] is True
        assert world.says(TOPIC) == ("Unknown", "BrokerUnreachable")

    run_in(scenario)
