"""A topic's `sinks` and `sources` as objects of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from iggy_operator.cluster import ClusterError, DeniedError, InvalidError, Ref
from operator_world import OperatorWorld, run_in
from planted_faults import Killed, Made
from resource_documents import document, sink, source

BROKER = Ref("IggyBroker", "shop", "main")
STREAM = Ref("IggyStream", "shop", "shop")
TOPIC = Ref("IggyTopic", "shop", "orders")


@dataclass(frozen=True)
class Lists:
    """One of the two lists of a topic."""

    kind: str
    field: str
    condition: str
    make: Callable[..., dict[str, Any]]
    limit: str
    """A field that only this kind has."""

    def entry(self, name: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, **self.fields(**fields)}

    def fields(self, **fields: Any) -> dict[str, Any]:
        spec = self.make(**fields)["spec"]
        return {key: item for key, item in spec.items() if key != "topicRef"}

    def spec(self, *entries: dict[str, Any]) -> dict[str, Any]:
        """Of the topic."""
        return {self.field: list(entries)}

    def ref(self, name: str = "orders.lake", namespace: str = "shop") -> Ref:
        return Ref(self.kind, namespace, name)

    def foreign(self, name: str) -> dict[str, Any]:
        """One that somebody made by hand."""
        spec = {**self.fields(), "topicRef": {"name": "orders"}}
        return document(self.kind, spec, name=name)

    async def given(
        self, world: OperatorWorld, *entries: dict[str, Any], name: str = "orders"
    ) -> Ref:
        world.give_broker()
        world.give_stream()
        ref = world.give_topic(name, **self.spec(*entries))
        await world.resync()
        return ref


SINKS = Lists("IggySink", "sinks", "SinksReady", sink, "maxOffsetsPerTrigger")
SOURCES = Lists("IggySource", "sources", "SourcesReady", source, "maxMessagesPerTrigger")
pytestmark = pytest.mark.parametrize("lists", [SINKS, SOURCES], ids=["sinks", "sources"])


def test_each_entry_becomes_an_object_that_the_topic_owns(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"), lists.entry("audit", **{lists.limit: 5}))

        assert world.cluster.names(lists.kind) == ["orders.audit", "orders.lake"]
        value = world.cluster.objects[lists.ref("orders.audit")]
        assert value["spec"]["topicRef"] == {"name": "orders"}
        assert value["spec"][lists.limit] == 5
        (owner,) = value["metadata"]["ownerReferences"]
        assert owner["uid"] == world.cluster.objects[TOPIC]["metadata"]["uid"]

    run_in(scenario)


def test_what_is_as_wanted_is_left_alone(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"))
        await world.go(120)
        before = len(world.faults.writes)

        await world.go(600)

        assert world.writes()[before:] == []

    run_in(scenario)


def test_a_changed_entry_changes_its_sink_and_no_other(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"), lists.entry("audit"))
        audit = world.cluster.objects[lists.ref("orders.audit")]["metadata"]
        uid = world.cluster.objects[lists.ref()]["metadata"]["uid"]

        changed = lists.entry("lake", suspend=True)
        world.cluster.change_spec(TOPIC, **lists.spec(changed, lists.entry("audit")))
        await world.settle()

        lake = world.cluster.objects[lists.ref()]
        assert lake["spec"]["suspend"] is True
        assert lake["metadata"]["uid"] == uid
        assert world.cluster.objects[lists.ref("orders.audit")]["metadata"] == audit

    run_in(scenario)


def test_an_entry_that_is_taken_out_takes_its_sink_along(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"), lists.entry("audit"))
        world.cluster.put(lists.foreign("by-hand"))

        world.cluster.change_spec(TOPIC, **lists.spec(lists.entry("lake")))
        await world.go(120)

        assert world.cluster.names(lists.kind) == ["by-hand", "orders.lake"]
        assert world.status(TOPIC)[f"{lists.field}Total"] == 1

    run_in(scenario)


def test_sinks_go_with_their_topic(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"))
        world.cluster.remove(TOPIC)
        await world.go(120)
        assert world.cluster.names(lists.kind) == []

    run_in(scenario)


def test_a_sink_of_somebody_else_is_left_alone(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.cluster.put(lists.foreign("orders.lake"))
        await lists.given(world, lists.entry("lake", suspend=True))

        assert world.cluster.objects[lists.ref()]["spec"]["suspend"] is False
        assert world.says(TOPIC, lists.condition) == ("False", "NameConflict")
        assert "not this topic's" in world.message(TOPIC, lists.condition)
        assert world.says(TOPIC) == ("True", "Synced")

    run_in(scenario)


def test_a_long_topic_name_is_cut_and_marked(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"), name="o" * 63)
        (name,) = world.cluster.names(lists.kind)
        assert len(name) == 63
        assert name.endswith(".lake")

    run_in(scenario)


def test_a_topic_that_is_paused_makes_no_sinks(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        ref = await lists.given(world)
        world.cluster.annotate(ref, "paused", "true")
        world.cluster.change_spec(ref, **lists.spec(lists.entry("lake")))
        await world.go(120)
        assert world.cluster.names(lists.kind) == []

    run_in(scenario)


def test_the_topic_shows_how_its_sinks_are_doing(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        ref = await lists.given(world, lists.entry("lake", suspend=True))
        await world.go(60)

        status = world.status(ref)
        assert (status[f"{lists.field}Total"], status[f"{lists.field}Ready"]) == (1, 0)
        assert status[f"{lists.field}Summary"] == "0/1"
        status, reason = world.says(lists.ref())
        (row,) = world.status(ref)[lists.field]
        assert (row["name"], row["ready"], row["reason"]) == ("lake", status, reason)
        assert world.says(ref, lists.condition) == ("False", reason)
        assert world.says(ref) == ("True", "Synced")

    run_in(scenario)


@pytest.mark.parametrize("killed_after", range(1, 14))
def test_a_process_that_is_killed_after_any_write_heals(killed_after: int, lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.faults.kill_after_write = killed_after
        try:
            await lists.given(world, lists.entry("lake"), lists.entry("audit"))
            world.cluster.change_spec(TOPIC, **lists.spec(lists.entry("lake", suspend=True)))
            await world.go(60)
        except Killed:
            world.faults.kill_after_write = None
            world.start()
        world.give_topic(**lists.spec(lists.entry("lake", suspend=True)))
        await world.go(120)

        assert world.cluster.names(lists.kind) == ["orders.lake"]
        assert world.cluster.objects[lists.ref()]["spec"]["suspend"] is True

    run_in(scenario)


def test_a_sink_that_was_just_made_or_changed_is_looked_at_at_once(lists: Lists) -> None:
    """Watches tell of a write after whoever wrote it knows already."""

    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world)
        told: list[tuple[Ref, Any]] = []
        world.cluster.watchers[:] = [lambda ref, value: told.append((ref, value))]

        for generation, entry in enumerate(
            (lists.entry("lake"), lists.entry("lake", suspend=True)), start=1
        ):
            world.cluster.change_spec(TOPIC, **lists.spec(entry))
            while told:
                world.watched(*told.pop(0))
                await world.settle()

            assert world.status(lists.ref())["observedGeneration"] == generation

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
    break_it: Callable[[OperatorWorld], None], lists: Lists
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"), lists.entry("audit"))
        break_it(world)
        await world.go(130)  # it is not taken from a listing any more
        wanted = [lists.entry("lake", suspend=True), lists.entry("more")]
        world.cluster.change_spec(TOPIC, **lists.spec(*wanted))
        await world.go(130)

        assert world.cluster.names(lists.kind) == ["orders.lake", "orders.more"]
        assert world.cluster.objects[lists.ref()]["spec"]["suspend"] is True
        assert [row["name"] for row in world.status(TOPIC)[lists.field]] == ["lake", "more"]
        assert world.says(TOPIC, lists.condition) == ("False", world.says(lists.ref())[1])

    run_in(scenario)


def test_the_list_is_followed_where_the_broker_allows_the_topic_no_more(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker(allowedNamespaces={"from": "List", "names": ["friends"]})
        world.give_stream()
        spec = {"streamRef": {"name": "shop", "namespace": "shop"}}
        ref = world.give_topic(namespace="friends", **lists.spec(lists.entry("lake")), **spec)
        await world.resync()
        assert world.says(ref) == ("True", "Synced")

        world.cluster.change_spec(BROKER, allowedNamespaces={"from": "Same"})
        world.cluster.change_spec(ref, **lists.spec(lists.entry("lake", suspend=True)))
        await world.go(70)

        assert world.says(ref) == ("False", "NotAllowed")
        lake = world.cluster.objects[lists.ref(namespace="friends")]
        assert lake["spec"]["suspend"] is True

    run_in(scenario)


@pytest.mark.parametrize("refusal", [DeniedError("exceeded quota"), InvalidError("by a webhook")])
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_a_sink_that_is_refused_is_told_and_hides_nothing_else(
    verb: str, refusal: ClusterError, lists: Lists
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        def fail(call: Made) -> Exception | None:
            return refusal if call.verb == verb and lists.kind in call.what else None

        await lists.given(world, lists.entry("lake"))
        world.broker.is_down = True
        await world.go(130)
        world.faults.fail = fail
        more = [] if verb == "apply" else [lists.entry("more")]
        world.cluster.change_spec(
            TOPIC, **lists.spec(lists.entry("lake", suspend=verb == "apply"), *more)
        )
        await world.go(130)

        assert world.says(TOPIC) == ("Unknown", "BrokerUnreachable")
        assert str(refusal) in world.message(TOPIC, lists.condition)
        world.faults.fail = lambda call: None
        await world.go(310)
        assert "is refused" not in world.message(TOPIC, lists.condition)

    run_in(scenario)


def test_no_sink_is_made_for_a_topic_that_is_somebody_elses(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        await world.resync()
        world.broker.make_topic("shop", "orders")
        world.give_topic(adoptionPolicy="FailIfExists", **lists.spec(lists.entry("lake")))
        await world.go(130)

        assert world.says(TOPIC) == ("False", "AlreadyExists")
        assert world.cluster.names(lists.kind) == world.cluster.names("IggyUser") == []
        (row,) = world.status(TOPIC)[lists.field]
        assert (row["name"], row["ready"]) == ("lake", "Unknown")

    run_in(scenario)


def test_a_topic_whose_broker_is_away_says_so_and_nothing_is_written_twice(lists: Lists) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"))
        world.broker.is_down = True
        await world.go(130)
        world.cluster.change_spec(TOPIC, **lists.spec(lists.entry("lake", suspend=True)))
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
def test_a_process_that_is_killed_while_the_broker_is_away_heals(
    killed_after: int, lists: Lists
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await lists.given(world, lists.entry("lake"), lists.entry("audit"))
        world.broker.is_down = True
        await world.go(130)
        world.cluster.change_spec(
            TOPIC, **lists.spec(lists.entry("lake", suspend=True), lists.entry("more"))
        )
        world.faults.kill_after_write = len(world.faults.writes) + killed_after
        with pytest.raises(Killed):
            await world.go(130)
        world.faults.kill_after_write = None
        world.start()
        await world.go(130)

        assert world.cluster.names(lists.kind) == ["orders.lake", "orders.more"]
        assert world.cluster.objects[lists.ref()]["spec"]["suspend"] is True
        assert world.says(TOPIC) == ("Unknown", "BrokerUnreachable")

    run_in(scenario)
