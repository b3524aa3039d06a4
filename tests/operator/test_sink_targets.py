"""Other topics that a sink sends to: its dead letters and the target of a copy."""

from typing import Any

import pytest

from iggy_operator.cluster import Ref
from iggy_operator.kinds.connector_targets import EXPIRY_US
from iggy_wire.permissions import Permissions
from sink_scene import SINK, Scene, play

DEAD: dict[str, Any] = {"tolerance": "Data", "deadLetter": {"topic": "orders.dlq"}}
COPY: dict[str, Any] = {"type": "Iggy", "files": None, "iggy": {"stream": "shop", "topic": "copy"}}
BOTH = ["ReadTopic", "SendMessages"]
THEIRS = {"stream": "theirs", "topic": "orders.dlq"}
MAIN = {"name": "main", "namespace": "shop"}


def dead(stream: str) -> dict[str, Any]:
    return {"tolerance": "Data", "deadLetter": {"stream": stream, "topic": "orders.dlq"}}


def grants(scene: Scene) -> dict[str, list[str]]:
    """What the sink's own user may do, by topic."""
    (name,) = scene.world.cluster.names("IggyUser")
    value = scene.world.cluster.objects[Ref("IggyUser", "shop", name)]
    return {
        f"{item['stream']}/{row['topic']}": row["allow"]
        for item in value["spec"]["permissions"]["streams"]
        for row in item["topics"]
    }


def granted(scene: Scene) -> Permissions:
    """The same as the broker has it."""
    (person,) = scene.world.broker.people.values()
    assert person.permissions is not None
    return person.permissions


def topic_id(scene: Scene, name: str) -> int:
    return int(scene.world.broker.topics["shop", name].id)


def test_the_topic_of_the_dead_letters_is_made_and_the_user_may_send_there() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(errors=DEAD)

        assert scene.says() == ("True", "Running"), scene.world.message(SINK)
        header = scene.world.broker.topics["shop", "orders.dlq"]
        assert (header.partitions_count, header.message_expiry_us) == (1, EXPIRY_US)
        assert EXPIRY_US == 30 * 24 * 3600 * 10**6
        assert grants(scene) == {"shop/orders": ["ReadTopic"], "shop/orders.dlq": BOTH}
        (stream,) = granted(scene).streams
        rights = {item.topic_id: (item.read_topic, item.send_messages) for item in stream.topics}
        assert rights == {
            topic_id(scene, "orders"): (True, False),
            topic_id(scene, "orders.dlq"): (True, True),
        }
        assert not stream.send_messages
        assert not stream.read_topics

    play(scenario)


def test_the_first_dead_letter_of_an_hour_is_an_event() -> None:
    async def scenario(scene: Scene) -> None:
        def told() -> list[str]:
            events = scene.world.cluster.events
            return [event.message for event in events if event.reason == "DeadLetters"]

        def letters() -> Any:
            return scene.status.get("deadLetters")

        broker = scene.world.broker
        await scene.given(errors=DEAD)
        await scene.go(60)
        assert (letters(), told()) == ({"messages": 0}, [])

        broker.ends["shop", "orders.dlq", 0] = 3
        await scene.go(60)
        assert len(told()) == 1
        assert told()[0].startswith("messages are set aside in shop/orders.dlq, which has 3 by now")
        broker.ends["shop", "orders.dlq", 0] = 5
        await scene.go(600)
        assert len(told()) == 1, "that is known"
        await scene.go(3600)
        assert len(told()) == 1, "there were no more"
        broker.ends["shop", "orders.dlq", 0] = 6
        await scene.go(60)
        assert len(told()) == 2

        del broker.topics["shop", "orders.dlq"]
        del broker.ends["shop", "orders.dlq", 0]
        await scene.go(3600)
        assert letters()["messages"] == 0, "made anew, empty"

    play(scenario)


def test_a_topic_that_is_there_stays_as_it_is() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.broker.make_topic("shop", "orders.dlq", 3, message_expiry=77)
        await scene.given(errors=DEAD)

        assert scene.says() == ("True", "Running")
        header = scene.world.broker.topics["shop", "orders.dlq"]
        assert (header.partitions_count, header.message_expiry_us) == (3, 77)
        scene.world.cluster.remove(SINK)
        await scene.go(60)
        assert ("shop", "orders.dlq") in scene.world.broker.topics, "what is in it is kept"

    play(scenario)


def test_dead_letters_that_come_and_go_change_the_rights_of_a_user_that_is_there() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        assert grants(scene) == {"shop/orders": ["ReadTopic"]}

        scene.change(errors=DEAD)
        await scene.go(120)
        assert scene.says() == ("True", "Running")
        assert grants(scene)["shop/orders.dlq"] == BOTH
        dead_id = topic_id(scene, "orders.dlq")
        assert dead_id in {item.topic_id for item in granted(scene).streams[0].topics}

        scene.change(errors={"tolerance": "None"})
        await scene.go(120)
        assert grants(scene) == {"shop/orders": ["ReadTopic"]}
        assert dead_id not in {item.topic_id for item in granted(scene).streams[0].topics}

    play(scenario)


def test_a_topic_that_somebody_deletes_is_made_anew_while_the_job_runs() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(errors=DEAD)
        before = scene.uid
        scene.world.broker.drop_topic("shop", "orders.dlq")
        await scene.go(120)

        assert ("shop", "orders.dlq") in scene.world.broker.topics
        assert topic_id(scene, "orders.dlq") in {
            item.topic_id for item in granted(scene).streams[0].topics
        }
        assert scene.uid == before

    play(scenario)


def test_a_topic_with_an_object_of_its_own_is_left_to_it() -> None:
    async def scenario(scene: Scene) -> None:
        letters = scene.world.give_topic("letters", topicName="orders.dlq", partitions=4)
        scene.world.cluster.annotate(letters, "paused", "true")
        await scene.given(errors=DEAD)

        assert scene.says() == ("False", "TopicNotFound")
        assert "see IggyTopic shop/letters" in scene.world.message(SINK)
        assert scene.launchers.applications() == []
        scene.world.cluster.annotate(letters, "paused", None)
        await scene.go(120)
        assert scene.says() == ("True", "Running")
        assert scene.world.broker.topics["shop", "orders.dlq"].partitions_count == 4

    play(scenario)


def test_a_stream_that_is_not_there_is_named_and_awaited() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(errors=dead("letters"))

        assert scene.says() == ("False", "StreamNotFound")
        assert "no stream letters" in scene.world.message(SINK)
        scene.world.give_stream("letters")
        await scene.go(120)
        assert scene.says() == ("True", "Running")
        assert grants(scene)["letters/orders.dlq"] == BOTH

    play(scenario)


def test_no_topic_is_made_in_a_stream_of_other_people() -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.broker.make_topic("theirs", "something")
        await scene.given(errors=dead("theirs"))

        assert scene.says() == ("False", "TopicNotFound")
        assert "make an IggyTopic for it" in scene.world.message(SINK)
        assert ("theirs", "orders.dlq") not in scene.world.broker.topics
        scene.world.give_stream("theirs", namespace="elsewhere", brokerRef=MAIN)
        await scene.go(120)
        assert ("theirs", "orders.dlq") not in scene.world.broker.topics

    play(scenario)


def test_a_sink_that_is_paused_makes_no_topic() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.world.cluster.annotate(SINK, "paused", "true")
        scene.change(errors=DEAD)
        await scene.go(120)

        assert ("shop", "orders.dlq") not in scene.world.broker.topics
        assert grants(scene) == {"shop/orders": ["ReadTopic"]}

    play(scenario)


def test_a_copy_waits_for_its_target_and_may_send_there() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(**COPY)

        assert scene.says() == ("False", "UnresolvedGrants")
        assert scene.world.message(SINK).endswith("waits for shop/copy")
        assert ("shop", "copy") not in scene.world.broker.topics, "only dead letters are made"
        scene.world.give_topic("copy")
        await scene.go(120)
        assert scene.says() == ("True", "Running")
        assert grants(scene) == {"shop/orders": ["ReadTopic"], "shop/copy": BOTH}

    play(scenario)


@pytest.mark.parametrize("spec", [{"errors": dead("theirs")}, {**COPY, "iggy": THEIRS}])
def test_nothing_is_granted_on_a_topic_of_other_people(spec: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.broker.make_topic("theirs", "orders.dlq")
        await scene.given(**spec)

        assert scene.says() == ("False", "MissingGrants")
        assert "neither an IggyTopic for theirs/orders.dlq" in scene.world.message(SINK)
        assert grants(scene) == {"shop/orders": ["ReadTopic"]}

        rights = {"topic": "orders.dlq", "allow": BOTH}
        allowed = permissions("orders.dlq")
        allowed["streams"].append({"stream": "theirs", "topics": [rights]})
        scene.world.give_user("mine", permissions=allowed)
        scene.change(userRef={"name": "mine"})
        await scene.go(120)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_topic_of_ones_own_in_a_stream_of_other_people_will_do() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        main = Ref("IggyBroker", "shop", "main")
        scene.world.cluster.change_spec(main, allowedNamespaces={"from": "All"})
        theirs = scene.world.give_stream("theirs", namespace="elsewhere", brokerRef=MAIN)
        await scene.go(60)
        there = {"name": "theirs", "namespace": "elsewhere"}
        scene.world.give_topic("letters", topicName="orders.dlq", streamRef=there)
        scene.change(errors=dead("theirs"))
        await scene.go(120)

        assert scene.world.says(theirs) == ("True", "Synced"), scene.world.message(theirs)
        assert scene.says() == ("True", "Running"), scene.world.message(SINK)
        assert grants(scene)["theirs/orders.dlq"] == BOTH

    play(scenario)


def permissions(topic: str, *allow: str) -> dict[str, Any]:
    own = {"topic": "orders", "allow": ["ReadTopic"]}
    more = [{"topic": topic, "allow": list(allow)}] if allow else []
    return {"streams": [{"stream": "shop", "topics": [own, *more]}]}


@pytest.mark.parametrize(
    "allowed",
    [
        permissions("orders.dlq", *BOTH),
        permissions("orders.dlq", "ManageTopic"),
        {"global": ["ManageTopics"]},
        {"streams": [{"stream": "shop", "allow": ["SendMessages", "ReadTopics"]}]},
    ],
)
def test_a_user_of_ones_own_that_may_send_will_do(allowed: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        scene.world.give_user("mine", permissions=allowed)
        await scene.given(errors=DEAD, userRef={"name": "mine"})

        assert scene.says() == ("True", "Running"), scene.world.message(SINK)

    play(scenario)


@pytest.mark.parametrize(
    "allowed",
    [
        permissions("orders.dlq"),
        permissions("orders.dlq", "ReadTopic"),
        permissions("orders.dlq", "SendMessages"),
        permissions("another", *BOTH),
        {"global": ["ReadTopics"]},
        {"streams": [{"stream": "other", "allow": ["ManageStream"]}]},
    ],
)
def test_what_a_user_of_ones_own_lacks_is_named_and_never_granted(allowed: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        user = scene.world.give_user("mine", permissions=allowed)
        await scene.given(errors=DEAD, userRef={"name": "mine"})

        assert scene.says() == ("False", "MissingGrants")
        assert scene.says("CredentialsReady") == ("False", "MissingGrants")
        text = scene.world.message(SINK)
        assert "IggyUser mine may not send to shop/orders.dlq" in text
        assert "errors.deadLetter" in text
        assert scene.world.cluster.objects[user]["spec"]["permissions"] == allowed
        assert scene.launchers.applications() == []

        scene.world.cluster.change_spec(user, permissions=permissions("orders.dlq", *BOTH))
        await scene.go(120)
        assert scene.says() == ("True", "Running")

    play(scenario)


def test_a_broker_that_is_down_stops_no_job_with_dead_letters() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given(errors=DEAD)
        before = scene.uid
        scene.world.broker.is_down = True
        await scene.go(300)
        assert scene.uid == before
        assert scene.says() == ("Unknown", "BrokerUnreachable")

    play(scenario)


def test_nothing_is_started_while_the_broker_is_down_before_the_first_start() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.given()
        scene.change(suspend=True)
        await scene.go(60)
        scene.world.broker.is_down = True
        scene.change(suspend=False, errors=DEAD)
        await scene.go(300)
        assert scene.launchers.applications() == []
        assert scene.says() == ("Unknown", "BrokerUnreachable")

        scene.world.broker.is_down = False
        await scene.go(300)
        assert scene.says() == ("True", "Running")

    play(scenario)
