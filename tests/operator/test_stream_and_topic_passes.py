import pytest

from fake_broker import ADDRESS
from iggy_operator.cluster import Ref
from iggy_operator.objects import FINALIZER
from operator_world import OperatorWorld, given_all, run_in

BROKER = Ref("IggyBroker", "shop", "main")


def test_one_apply_makes_stream_and_topic() -> None:
    async def scenario(world: OperatorWorld) -> None:
        stream, topic = await given_all(world, partitions=6, consumerGroups=[{"name": "billing"}])

        assert world.broker.topics["shop", "orders"].partitions_count == 6
        assert world.broker.groups["shop", "orders"] == ["billing"]
        for ref in (BROKER, stream, topic):
            assert world.says(ref) == ("True", "Synced")
        assert world.says(topic, "Synced") == ("True", "Synced")
        assert world.says(topic, "DataContinuity") == ("True", "Synced")
        assert world.says(topic, "SinksReady") == ("True", "Synced")
        status = world.status(topic)
        assert (status["partitions"], status["streamName"]) == (6, "shop")
        assert status["effective"]["messageExpiry"] == "never"
        assert world.status(BROKER)["endpoints"]["tcp"] == ADDRESS

    run_in(scenario)


def test_what_is_as_wanted_is_left_alone_for_ever() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world)
        await world.go(120)  # counts of topics in stream and broker
        before = len(world.faults.writes)

        await world.go(600)

        assert world.writes()[before:] == []

    run_in(scenario)


def test_nothing_of_the_object_but_its_status_is_touched() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        ref = world.give_topic()
        world.give_stream()
        before = {key: world.cluster.objects[ref][key] for key in ("spec", "metadata")}

        await world.go(600)

        after = world.cluster.objects[ref]
        assert after["spec"] == before["spec"]
        assert after["metadata"] == before["metadata"] | {
            "resourceVersion": after["metadata"]["resourceVersion"]
        }

    run_in(scenario)


def test_a_topic_waits_for_its_stream_and_the_stream_for_its_broker() -> None:
    async def scenario(world: OperatorWorld) -> None:
        topic = world.give_topic()
        await world.resync()
        assert world.says(topic) == ("False", "StreamNotFound")

        stream = world.give_stream()
        await world.settle()
        assert world.says(stream) == ("False", "BrokerNotFound")
        assert world.says(topic) == ("False", "BrokerNotFound")

        world.give_broker()
        await world.settle()  # no resync: each change leads to the next pass
        assert [world.says(ref)[0] for ref in (stream, topic)] == ["True", "True"]

    run_in(scenario)


def test_a_topic_deleted_by_hand_is_made_again_and_said_so_until_acknowledged() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world)
        first = world.status(topic)["incarnation"]
        world.broker.drop_topic("shop", "orders")

        await world.go(65)

        assert ("shop", "orders") in world.broker.topics
        status = world.status(topic)
        assert status["recreations"] == 1
        assert status["incarnation"] != first
        assert world.says(topic) == ("True", "Synced")
        assert world.says(topic, "DataContinuity") == ("False", "Recreated")
        assert [event.reason for event in world.cluster.events] == ["Recreated"]

        await world.go(120)
        assert world.status(topic)["recreations"] == 1
        assert status["incarnation"] in world.message(topic, "DataContinuity")

        world.cluster.annotate(topic, "acknowledge-recreation", status["incarnation"])
        await world.settle()
        assert world.says(topic, "DataContinuity") == ("True", "Synced")

    run_in(scenario)


def test_a_topic_that_somebody_else_made_anew_is_recreated_too() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world)
        world.broker.drop_topic("shop", "orders")
        world.broker.make_topic("shop", "orders")

        await world.go(65)

        assert world.says(topic, "DataContinuity") == ("False", "Recreated")
        assert world.status(topic)["recreations"] == 1

    run_in(scenario)


def test_a_broker_that_lost_everything_gets_everything_again() -> None:
    async def scenario(world: OperatorWorld) -> None:
        stream, topic = await given_all(world)
        world.broker.is_down = True
        await world.go(30)
        world.broker.lose_everything()
        world.broker.is_down = False

        await world.go(120)

        assert ("shop", "orders") in world.broker.topics
        assert world.says(stream) == ("True", "Synced")
        assert world.says(topic, "DataContinuity") == ("False", "Recreated")

    run_in(scenario)


def test_missing_is_only_told_when_the_policy_says_report() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, missingPolicy="Report")
        world.broker.drop_topic("shop", "orders")

        await world.go(65)

        assert world.says(topic) == ("False", "Missing")
        assert world.broker.topics == {}

    run_in(scenario)


def test_drift_is_set_back_or_told() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        reverted = world.give_topic("orders", retention={"messageExpiry": "7d"})
        told = world.give_topic("audit", driftPolicy="Report")
        await world.resync()
        for name in ("orders", "audit"):
            world.broker.drop_topic("shop", name)
            world.broker.make_topic("shop", name, message_expiry=5_000)
            world.cluster.wipe_status(Ref("IggyTopic", "shop", name))

        await world.go(65)

        assert world.broker.topics["shop", "orders"].message_expiry_us == 7 * 86_400_000_000
        assert world.says(reverted, "Synced") == ("True", "Synced")
        assert "DriftReverted" in [event.reason for event in world.cluster.events]
        assert world.says(told) == ("True", "Synced")
        assert world.says(told, "Synced") == ("False", "Drifted")
        assert world.status(told)["drift"] == [
            {"field": "retention.messageExpiry", "desired": "unlimited", "actual": "5000"}
        ]

    run_in(scenario)


def test_partitions_are_added_in_the_broker_and_the_object() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, partitions=2)
        world.cluster.change_spec(topic, partitions=5)

        await world.settle()

        assert world.broker.topics["shop", "orders"].partitions_count == 5
        assert world.status(topic)["partitions"] == 5
        assert [event.message for event in world.cluster.events] == ["partitions added: 3"]
        assert world.status(topic)["observedGeneration"] == 2

    run_in(scenario)


def test_an_existing_topic_is_adopted_or_refused() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.broker.make_topic("shop", "mine")
        world.broker.make_topic("shop", "theirs")
        world.give_broker()
        world.give_stream()
        adopted = world.give_topic("mine")
        refused = world.give_topic("theirs", adoptionPolicy="FailIfExists", deletionPolicy="Delete")

        await world.go(65)

        assert world.says(adopted) == ("True", "Synced")
        assert world.says(refused) == ("False", "AlreadyExists")
        assert world.finalizers(refused) == []
        world.cluster.remove(refused)
        await world.go(65)
        assert ("shop", "theirs") in world.broker.topics

    run_in(scenario)


def test_of_two_objects_for_one_topic_the_older_has_it_and_the_other_inherits() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        younger = world.give_topic("z-first-in-no-order", topicName="orders", partitions=3)
        first = world.cluster.objects[younger]["metadata"]["creationTimestamp"]
        world.clock.seconds += 60
        owner_name, loser = younger, world.give_topic("a", topicName="orders", partitions=5)
        assert first < world.cluster.objects[loser]["metadata"]["creationTimestamp"]

        await world.resync()
        await world.go(120)

        assert world.says(owner_name) == ("True", "Synced")
        assert world.says(loser) == ("False", "Conflict")
        assert str(owner_name) in world.message(loser)
        assert world.broker.topics["shop", "orders"].partitions_count == 3

        world.cluster.remove(owner_name)
        await world.settle()
        assert world.says(loser) == ("True", "Synced")
        assert world.broker.topics["shop", "orders"].partitions_count == 5

    run_in(scenario)


def test_another_namespace_must_be_allowed_by_the_broker() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker(allowedNamespaces={"from": "List", "names": ["friends"]})
        spec = {"brokerRef": {"name": "main", "namespace": "shop"}}
        friend = world.give_stream("friendly", namespace="friends", **spec)
        stranger = world.give_stream("strange", namespace="strangers", **spec)
        world.give_stream()
        topic = world.give_topic(
            namespace="strangers", streamRef={"name": "shop", "namespace": "shop"}
        )

        await world.resync()

        assert world.says(friend) == ("True", "Synced")
        assert world.says(stranger) == ("False", "NotAllowed")
        assert world.says(topic) == ("False", "NotAllowed")
        assert sorted(world.broker.streams) == ["friendly", "shop"]

    run_in(scenario)


def test_an_older_object_of_a_namespace_that_is_not_allowed_takes_nothing_away() -> None:
    async def scenario(world: OperatorWorld) -> None:
        spec = {"brokerRef": {"name": "main", "namespace": "shop"}}
        stranger = world.give_stream("shop", namespace="strangers", **spec)
        world.clock.seconds += 60
        world.give_broker()
        ours = world.give_stream("shop")

        await world.resync()

        assert world.says(ours) == ("True", "Synced")
        assert world.says(stranger) == ("False", "NotAllowed")

    run_in(scenario)


@pytest.mark.parametrize("annotation", ["paused", "unmanaged"])
def test_paused_and_unmanaged_objects_are_watched_and_left_alone(annotation: str) -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world, deletionPolicy="Delete")
        world.cluster.annotate(topic, annotation, "true")
        world.cluster.change_spec(topic, partitions=9)
        world.broker.fill("shop", "orders", messages=7)
        await world.go(120)

        assert world.broker.topics["shop", "orders"].partitions_count == 1
        assert world.says(topic) == ("True", "Synced")
        assert world.says(topic, "Paused") == ("True", "Paused")
        assert world.status(topic)["messages"] == 7
        assert world.finalizers(topic) == ([FINALIZER] if annotation == "paused" else [])

        world.cluster.annotate(topic, annotation, None)
        await world.settle()
        assert world.broker.topics["shop", "orders"].partitions_count == 9
        assert world.says(topic, "Paused") == ("False", "Reconciling")
        assert world.finalizers(topic) == [FINALIZER]

    run_in(scenario)


def test_a_paused_topic_that_vanished_is_counted_once_when_it_goes_on() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world)
        world.cluster.annotate(topic, "paused", "true")
        world.broker.drop_topic("shop", "orders")
        await world.go(300)
        assert world.broker.topics == {}
        assert "recreations" not in world.status(topic)

        world.cluster.annotate(topic, "paused", None)
        await world.settle()

        assert world.status(topic)["recreations"] == 1

    run_in(scenario)


def test_a_reconcile_at_annotation_leads_to_a_pass_at_once() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world)
        world.clock.seconds += 6  # the listing is too old
        world.broker.drop_topic("shop", "orders")

        world.cluster.annotate(topic, "reconcile-at", "now")
        await world.settle()

        assert world.status(topic)["recreations"] == 1

    run_in(scenario)
