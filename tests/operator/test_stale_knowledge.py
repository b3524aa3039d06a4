"""What the operator knows may be old: that must never cost anybody anything."""

import pytest

from iggy_client import LinkError
from iggy_operator.cluster import Object, Ref
from operator_world import OperatorWorld, given_all, run_in
from planted_faults import Made
from resource_documents import sink

TOPIC = Ref("IggyTopic", "shop", "orders")
DELETED = {"deletionPolicy": "Delete"}


def test_a_list_that_comes_late_brings_no_deleted_topic_back() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world, **DELETED)
        old = [dict(value) for value in await world.cluster.list("IggyTopic")]
        world.cluster.remove(TOPIC)
        await world.settle()
        assert world.broker.topics == {}

        await resync_with(world, old)

        assert world.broker.topics == {}
        assert world.world.cache.get(TOPIC) is None

    run_in(scenario)


def test_a_list_that_comes_late_takes_no_new_object_and_no_change_back() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world, partitions=2, partitionDecreasePolicy="DeleteData")
        old = [dict(value) for value in await world.cluster.list("IggyTopic")]
        world.cluster.change_spec(TOPIC, partitions=6)
        new = world.give_topic("new")
        await world.settle()

        await resync_with(world, old)

        assert world.broker.topics["shop", "orders"].partitions_count == 6
        assert world.faults.verbs("DeletePartitions") == []
        assert world.world.cache.get(new) is not None

    run_in(scenario)


async def resync_with(world: OperatorWorld, topics: list[Object]) -> None:
    """A resync whose list of topics is an old one."""
    true_list = world.cluster.list

    async def list_late(kind: str, **options: object) -> object:
        return topics if kind == "IggyTopic" else await true_list(kind)

    world.cluster.list = list_late  # type: ignore[method-assign, assignment]
    await world.resync()
    world.cluster.list = true_list  # type: ignore[method-assign]


def test_partitions_go_only_as_the_object_says_at_this_moment() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world, partitions=4, partitionDecreasePolicy="DeleteData")
        world.cluster.change_spec(TOPIC, partitions=2)
        watchers, world.cluster.watchers[:] = list(world.cluster.watchers), []

        def change_back(call: Made) -> None:
            # The pass has read two; before it acts somebody wants four again.
            if call.verb == "GetTopics":
                world.cluster.change_spec(TOPIC, partitions=4)

        world.faults.fail = change_back
        world.clock.seconds += 10
        await world.settle()
        world.faults.fail = lambda call: None
        world.cluster.watchers[:] = watchers
        await world.go(70)

        assert world.faults.verbs("DeletePartitions") == []
        assert world.broker.topics["shop", "orders"].partitions_count == 4

    run_in(scenario)


def test_partitions_that_somebody_else_has_removed_are_not_removed_twice() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world, partitions=6, partitionDecreasePolicy="DeleteData")
        await world.pool._known[Ref("IggyBroker", "shop", "main")].admin.topics("shop")
        key = ("shop", "orders")
        world.broker.drop_topic(*key)
        world.broker.make_topic(*key, partitions=4)

        world.cluster.change_spec(TOPIC, partitions=4)  # the listing still says six
        await world.settle()

        assert world.broker.topics[key].partitions_count == 4

    run_in(scenario)


def test_nothing_is_made_in_a_stream_that_its_object_did_not_take_over() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.broker.make_topic("shop", "theirs")
        world.give_broker()
        stream = world.give_stream(adoptionPolicy="FailIfExists")
        topic = world.give_topic()
        await world.go(130)

        assert world.says(stream) == ("False", "AlreadyExists")
        assert world.says(topic) == ("False", "StreamNotFound")
        assert list(world.broker.topics) == [("shop", "theirs")]

        world.cluster.change_spec(stream, adoptionPolicy="Adopt")
        await world.settle()
        assert world.says(topic) == ("True", "Synced")

    run_in(scenario)


def test_what_somebody_makes_at_the_last_moment_is_not_taken_for_ours() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        await world.resync()
        world.give_topic(adoptionPolicy="FailIfExists", **DELETED)

        def be_faster(call: Made) -> None:
            if call.verb == "CreateTopic" and not world.broker.topics:
                world.broker.make_topic("shop", "orders")

        world.faults.fail = be_faster
        await world.go(70)
        assert world.says(TOPIC) == ("False", "AlreadyExists")

        world.cluster.remove(TOPIC)
        await world.go(70)
        assert TOPIC not in world.cluster.objects
        assert ("shop", "orders") in world.broker.topics

    run_in(scenario)


@pytest.mark.parametrize("verb", ["CreateStream", "CreateTopic"])
def test_what_was_made_without_an_answer_is_known_for_ours(verb: str) -> None:
    """The mark that says so outlives the report of the pass that was cut short."""

    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        lost: list[Made] = []

        def lose(call: Made) -> Exception | None:
            if call.verb != verb or lost:
                return None
            lost.append(call)
            return LinkError("the connection broke")

        world.faults.lose = lose
        listed = {name: item for name, item in sink()["spec"].items() if name != "topicRef"}
        listed["name"] = "lake"
        stream = world.give_stream(adoptionPolicy="FailIfExists")
        world.give_topic(adoptionPolicy="FailIfExists", sinks=[listed])
        await world.go(70)

        assert lost
        assert world.says(stream) == world.says(TOPIC) == ("True", "Synced")

    run_in(scenario)
