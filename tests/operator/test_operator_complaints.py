"""What users of other operators could not forgive, each as a scenario."""

import pytest

from iggy_operator.cluster import Ref
from operator_world import OperatorWorld, given_all, run_in
from planted_faults import Made

STREAM = Ref("IggyStream", "shop", "shop")


def test_an_empty_cluster_and_a_full_broker_nothing_is_deleted() -> None:
    async def scenario(world: OperatorWorld) -> None:
        for number in range(5):
            world.broker.make_topic("shop", f"t{number}")
        world.give_broker()
        world.faults.calls.clear()

        await world.go(600)

        assert {call.verb for call in world.faults.writes} == {"apply_status"}
        assert len(world.broker.topics) == 5

    run_in(scenario)


def test_a_restored_broker_with_more_topics_than_objects_keeps_them() -> None:
    async def scenario(world: OperatorWorld) -> None:
        await given_all(world)
        world.broker.lose_everything()
        for name in ("orders", "old", "older"):
            world.broker.make_topic("shop", name)

        await world.go(300)

        assert sorted(name for _, name in world.broker.topics) == ["old", "older", "orders"]
        assert world.status(STREAM)["topics"] == 3

    run_in(scenario)


def test_a_broker_that_is_down_costs_one_attempt_a_step_and_one_event_an_object() -> None:
    topics_count = 1_000

    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        for number in range(topics_count):
            world.give_topic(f"t{number:04}")
        await world.resync()
        assert len(world.broker.topics) == topics_count
        await world.go(60)
        world.broker.is_down = True
        world.broker.attempts = 0
        world.cluster.events.clear()

        await world.go(600)

        # 1 + 2 + 4 ... 256 s are 9 steps, one more has begun; jitter takes a tenth off each.
        assert 1 <= world.broker.attempts <= 12
        told = [(event.about["metadata"]["uid"], event.reason) for event in world.cluster.events]
        assert len(told) == len(set(told)) == topics_count + 2
        assert {reason for _, reason in told} == {"BrokerUnreachable"}

    run_in(scenario)


def test_ready_keeps_its_value_for_a_minute_and_is_unknown_after_that() -> None:
    async def scenario(world: OperatorWorld) -> None:
        _, topic = await given_all(world)
        world.broker.is_down = True

        await world.go(60)  # noticed by the resync
        await world.go(59)
        early = world.says(topic)
        await world.go(2)
        late = world.says(topic)
        world.broker.is_down = False
        await world.go(300)

        assert early == ("True", "Synced")
        assert late == ("Unknown", "BrokerUnreachable")
        assert world.says(topic) == ("True", "Synced")

    run_in(scenario)


def test_wrong_credentials_are_told_and_new_ones_found_without_a_restart() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        stream = world.give_stream()
        await world.resync()
        world.broker.password = "another"
        broker = Ref("IggyBroker", "shop", "main")
        world.broker.cut()

        await world.go(65)
        assert world.says(broker) == ("False", "Unauthorized")
        assert world.says(broker, "CredentialsReady") == ("False", "Unauthorized")
        assert world.says(stream) == ("False", "Unauthorized")
        assert "another" not in str(world.cluster.objects[broker]["status"])

        world.give_secret("root", username="root", password="another")
        await world.go(400)
        assert world.says(broker) == ("True", "Synced")
        assert world.says(stream) == ("True", "Synced")

    run_in(scenario)


def test_wrong_credentials_of_many_objects_are_no_storm_of_reads_or_logins() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        for number in range(100):
            world.give_stream(f"s{number}")
        world.broker.password = "another"

        await world.go(600)

        assert world.broker.attempts <= 15
        secrets = [call for call in world.faults.verbs("get") if "Secret" in call.what]
        assert len(secrets) <= 40

    run_in(scenario)


@pytest.mark.parametrize(
    ("values", "reason"),
    [(None, "SecretNotFound"), ({"username": "root"}, "SecretInvalid")],
)
def test_a_secret_that_is_no_use_is_told_and_picked_up_when_it_is_right(
    values: dict[str, str] | None, reason: str
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        secret = Ref("Secret", "shop", "root")
        good = world.cluster.objects.pop(secret)
        if values is not None:
            world.give_secret("root", **values)
        await world.resync()
        broker = Ref("IggyBroker", "shop", "main")
        assert world.says(broker) == ("False", reason)
        assert world.says(broker, "CredentialsReady") == ("False", reason)

        world.cluster.objects[secret] = good
        await world.go(65)

        assert world.says(broker) == ("True", "Synced")

    run_in(scenario)


def test_hundreds_of_topics_from_one_apply_need_one_connection_and_few_listings() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        for number in range(400):
            world.give_topic(f"t{number:04}")

        await world.resync()

        assert len(world.broker.topics) == 400
        assert world.broker.attempts == 1
        assert len(world.faults.verbs("GetStreams")) <= 3
        assert len(world.faults.verbs("GetTopics")) <= 3
        assert len(world.faults.verbs("CreateTopic")) == 400

    run_in(scenario)


def test_somebody_who_is_faster_is_found_out() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        await world.resync()
        topic = world.give_topic(partitions=2)

        def fail(call: Made) -> Exception | None:
            if call.verb == "CreateTopic" and not world.broker.topics:
                world.broker.make_topic("shop", "orders", partitions=1)
            return None

        world.faults.fail = fail
        await world.go(5)

        assert world.says(topic) == ("True", "Synced")
        assert world.broker.topics["shop", "orders"].partitions_count == 2

    run_in(scenario)


def test_a_bug_is_shown_on_its_object_and_stops_nobody_else() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        broken, sound = world.give_topic("broken"), world.give_topic("sound")

        def fail(call: Made) -> Exception | None:
            is_it = call.verb == "CreateTopic" and "broken" in call.what
            return ZeroDivisionError("a bug") if is_it else None

        world.faults.fail = fail
        await world.resync()

        assert world.says(broken) == ("Unknown", "InternalError")
        assert world.says(sound) == ("True", "Synced")
        assert "a bug" not in world.message(broken).removeprefix("a bug of the operator")

    run_in(scenario)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("IggyBroker", {"shards": 5}),
        ("IggyStream", {"brokerRef": "main"}),
        ("IggyTopic", {"partitions": 1}),
    ],
)
def test_an_object_that_cannot_be_read_says_so_and_stops_nobody_else(
    kind: str, spec: dict[str, object]
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_broker("other")
        names = {"IggyBroker": "main", "IggyStream": "shop", "IggyTopic": "orders"}
        world.give_stream()
        topic = world.give_topic(deletionPolicy="Delete")
        sound = world.give_stream("sound", brokerRef={"name": "other"})
        await world.resync()
        broken = Ref(kind, "shop", names[kind])
        world.cluster.objects[broken]["spec"] = spec
        world.cluster.annotate(broken, "reconcile-at", "now")
        world.start()
        await world.go(65)

        assert world.says(broken) == ("False", "Unsupported")
        assert "resource definitions" in world.message(broken)
        assert world.says(sound) == ("True", "Synced")
        world.cluster.remove(topic)
        await world.go(65)
        assert "force-release" in world.message(topic)
        assert ("shop", "orders") in world.broker.topics

    run_in(scenario)
