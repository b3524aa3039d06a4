import pytest

from iggy_operator.cluster import DeniedError, NotFoundError, Ref
from iggy_operator.decide.actions import DeleteStream, DeleteTopic
from iggy_operator.decide.deletion import (
    Deletion,
    Doomed,
    decide_stream_deletion,
    decide_topic_deletion,
)
from iggy_operator.objects import FINALIZER
from operator_world import OperatorWorld, given_all, run_in
from planted_faults import Killed, Made

BROKER = Ref("IggyBroker", "shop", "main")
OURS = Doomed("orders", "1-1", 0)


@pytest.mark.parametrize(
    ("policy", "observed", "known", "removed", "waits", "note"),
    [
        ("Delete", OURS, "1-1", True, "", ""),
        ("Delete", Doomed("orders", "1-1", 9), "1-1", True, "", ""),
        ("DeleteIfEmpty", OURS, "1-1", True, "", ""),
        ("DeleteIfEmpty", Doomed("orders", "1-1", 9), "1-1", False, "9 messages", ""),
        ("Retain", OURS, "1-1", False, "", "stays"),
        ("Delete", None, "1-1", False, "", ""),
        ("Delete", Doomed("orders", "2-2", 0), "1-1", False, "", "somebody else"),
        ("Delete", OURS, None, False, "", "stays"),
    ],
)
def test_only_the_topic_that_is_ours_and_as_the_policy_says_is_removed(
    policy: str, observed: Doomed | None, known: str | None, removed: bool, waits: str, note: str
) -> None:
    deletion = decide_topic_deletion(policy, observed, known=known)  # type: ignore[arg-type]

    assert deletion.removal == (DeleteTopic("orders") if removed else None)
    assert waits in deletion.waits_for
    assert bool(waits) == bool(deletion.waits_for)
    assert note in deletion.note
    assert bool(note) == bool(deletion.note)


@pytest.mark.parametrize(
    ("policy", "topics", "named"),
    [
        ("Delete", {}, ""),
        ("DeleteIfEmpty", {}, ""),
        ("Delete", {"a": True}, ""),
        ("DeleteIfEmpty", {"a": True}, "a"),
        ("Delete", {"a": True, "b": False}, "b"),
        ("Delete", dict.fromkeys("gfedcba", False), "a, b, c, d, e and 2 more"),
    ],
)
def test_a_stream_waits_for_topics_that_nobody_asked_to_delete(
    policy: str, topics: dict[str, bool], named: str
) -> None:
    stream = Doomed("shop", "1-1", 0)

    deletion = decide_stream_deletion(policy, stream, known="1-1", topics=topics)  # type: ignore[arg-type]

    if not named:
        assert deletion == Deletion(DeleteStream("shop"))
    else:
        assert deletion.removal is None
        assert f": {named};" in deletion.waits_for


def test_with_retain_no_object_has_a_finalizer_and_everything_stays() -> None:
    async def scenario(world: OperatorWorld) -> None:
        refs = await given_all(world)
        assert [world.finalizers(ref) for ref in refs] == [[], []]

        for ref in refs:
            world.cluster.remove(ref)
        await world.go(200)

        assert not {*refs} & {*world.cluster.objects}
        assert ("shop", "orders") in world.broker.topics

    run_in(scenario)


def test_a_deleted_topic_and_its_object_do_not_come_back() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, deletionPolicy="Delete")
        world.broker.fill("shop", "orders", messages=5)
        assert world.finalizers(topic) == [FINALIZER]

        world.cluster.remove(topic)
        await world.go(200)

        assert topic not in world.cluster.objects
        assert world.broker.topics == {}
        assert world.faults.verbs("create") == []

    run_in(scenario)


def test_delete_if_empty_waits_says_how_many_and_goes_on_by_itself() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, deletionPolicy="DeleteIfEmpty")
        world.broker.fill("shop", "orders", messages=1)

        world.cluster.remove(topic)
        await world.go(200)
        assert world.says(topic) == ("False", "Deleting")
        assert "1 messages" in world.message(topic)
        assert "force-release" in world.message(topic)

        world.broker.fill("shop", "orders", messages=0)
        await world.go(65)
        assert topic not in world.cluster.objects
        assert world.broker.topics == {}

    run_in(scenario)


def test_a_policy_that_changes_moves_the_finalizer() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world)
        found = []
        for policy in ("Delete", "Retain"):
            world.cluster.change_spec(topic, deletionPolicy=policy)
            await world.settle()
            found.append(world.finalizers(topic))

        assert found == [[FINALIZER], []]

    run_in(scenario)


def test_stream_and_topic_deleted_together_are_both_gone() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        stream = world.give_stream(deletionPolicy="Delete")
        topic = world.give_topic(deletionPolicy="Delete")
        await world.resync()

        world.cluster.remove(stream)
        world.cluster.remove(topic)
        await world.go(130)

        assert not {stream, topic} & {*world.cluster.objects}
        assert world.broker.streams == {}

    run_in(scenario)


def test_a_stream_with_topics_of_others_is_not_deleted() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        stream = world.give_stream(deletionPolicy="Delete")
        await world.resync()
        world.broker.make_topic("shop", "theirs")

        world.cluster.remove(stream)
        await world.go(130)

        assert world.says(stream) == ("False", "Deleting")
        assert "theirs" in world.message(stream)
        assert ("shop", "theirs") in world.broker.topics

    run_in(scenario)


def test_a_stream_stays_for_a_topic_that_one_of_two_objects_keeps() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        stream = world.give_stream(deletionPolicy="Delete")
        world.give_topic("z", topicName="orders")
        world.clock.seconds += 60
        going = world.give_topic("a", topicName="orders", deletionPolicy="Delete")
        world.cluster.objects[going]["metadata"]["finalizers"] = ["somebody/else"]
        await world.resync()

        world.cluster.remove(going)
        world.cluster.remove(stream)
        await world.go(130)

        assert ("shop", "orders") in world.broker.topics
        assert world.says(stream) == ("False", "Deleting")

    run_in(scenario)


@pytest.mark.parametrize("refusal", [NotFoundError("no such kind"), DeniedError("forbidden")])
def test_a_topic_goes_when_its_broker_object_its_kind_or_our_right_is_gone(
    refusal: Exception,
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, deletionPolicy="Delete")

        def fail(call: Made) -> Exception | None:
            return refusal if call.verb == "get" and "IggyBroker" in call.what else None

        world.faults.fail = fail
        world.cluster.remove(topic)
        await world.settle()

        assert topic not in world.cluster.objects
        assert ("shop", "orders") in world.broker.topics

    run_in(scenario)


def test_topics_go_after_their_broker_object_in_one_pass() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        topics = [world.give_topic(f"t{n}", deletionPolicy="Delete") for n in range(5)]
        await world.resync()

        world.cluster.remove(BROKER)
        for topic in topics:
            world.cluster.remove(topic)
        await world.settle()

        assert world.cluster.names("IggyTopic") == []

    run_in(scenario)


@pytest.mark.parametrize("is_down", [False, True])
def test_a_namespace_ends_whether_the_broker_answers_or_not(is_down: bool) -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world, deletionPolicy="Delete")
        world.broker.is_down = is_down
        started = world.clock.seconds

        world.cluster.end_namespace("shop")
        await world.go(30)

        left = [ref for ref in world.cluster.objects if ref.namespace == "shop"]
        assert left == []
        assert world.clock.seconds - started <= 30

    run_in(scenario)


def test_a_broker_that_does_not_answer_holds_the_object_and_names_the_way_out() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, deletionPolicy="Delete")
        world.broker.is_down = True
        await world.go(100)

        world.cluster.remove(topic)
        await world.go(400)
        assert world.says(topic) == ("False", "BrokerUnreachable")
        assert "force-release: true" in world.message(topic)

        world.cluster.annotate(topic, "force-release", "true")
        await world.settle()
        assert topic not in world.cluster.objects

    run_in(scenario)


@pytest.mark.parametrize(("annotation", "is_gone"), [("unmanaged", True), ("paused", False)])
def test_an_unmanaged_object_goes_and_leaves_the_broker_alone_a_paused_one_waits(
    annotation: str, is_gone: bool
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, deletionPolicy="Delete")
        world.cluster.annotate(topic, annotation, "true")
        await world.settle()

        world.cluster.remove(topic)
        await world.go(65)

        assert (topic not in world.cluster.objects) == is_gone
        assert ("shop", "orders") in world.broker.topics

    run_in(scenario)


def test_the_finalizer_stays_off_a_living_object_that_is_marked_for_release() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, deletionPolicy="Delete")

        world.cluster.annotate(topic, "force-release", "true")
        await world.go(130)

        assert world.finalizers(topic) == []
        assert world.says(topic) == ("True", "Synced")

    run_in(scenario)


def test_an_object_that_lost_its_topic_to_an_older_one_deletes_nothing() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world, topicName="orders", deletionPolicy="Delete")
        topic = Ref("IggyTopic", "shop", "orders")
        older = world.give_topic("older", topicName="orders")
        early = world.cluster.objects[older]["metadata"]
        early["creationTimestamp"] = "2020-01-01T00:00:00Z"
        await world.go(65)
        assert world.says(topic) == ("False", "Conflict")

        world.cluster.remove(topic)
        await world.go(65)

        assert topic not in world.cluster.objects
        assert world.faults.verbs("DeleteTopic") == []
        assert ("shop", "orders") in world.broker.topics

    run_in(scenario)


def test_a_topic_whose_stream_object_is_gone_goes_and_says_what_stays() -> None:
    async def scenario(world: OperatorWorld) -> None:
        stream, topic = await given_all(world, deletionPolicy="Delete")
        world.cluster.remove(stream)
        await world.settle()

        world.cluster.remove(topic)
        await world.settle()

        assert topic not in world.cluster.objects
        assert ("shop", "orders") in world.broker.topics
        assert [event.reason for event in world.cluster.events][-1] == "Retained"

    run_in(scenario)


def test_an_object_deleted_while_the_operator_was_dead_takes_its_topic_along() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        await world.resync()
        topic = world.give_topic(deletionPolicy="Delete", adoptionPolicy="FailIfExists")

        def end_after_creation(call: Made) -> None:
            if call.verb == "CreateTopic":
                raise Killed(call)

        world.faults.lose = end_after_creation
        with pytest.raises(Killed):
            await world.settle()
        world.faults.lose = lambda call: None
        assert ("shop", "orders") in world.broker.topics
        world.cluster.remove(topic)
        world.start()
        await world.go(65)

        assert topic not in world.cluster.objects
        assert world.broker.topics == {}

    run_in(scenario)
