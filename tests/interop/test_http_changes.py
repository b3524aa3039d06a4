"""Changes over HTTP, and what TCP and HTTP say of them, on the broker of all these tests."""

from __future__ import annotations

import uuid
from contextlib import ExitStack

import pytest

from broker_process import BrokerProcess
from http_client import TOPIC, HttpClient
from iggy_client import Client, ClientError

NEVER = (1 << 64) - 1


@pytest.fixture
def topic(http: HttpClient) -> str:
    """The path of a fresh topic of four partitions, of which both shards own some."""
    stream = http.post("/streams", {"name": f"http-{uuid.uuid4().hex[:8]}"})["id"]
    http.post(f"/streams/{stream}/topics", TOPIC | {"name": "t", "partitions_count": 4})
    return f"/streams/{stream}/topics/t"


def test_missing_things_have_their_own_answers(http: HttpClient, admin: Client, topic: str) -> None:
    missing = {
        f"{topic}/messages?partition_id=7": (404, 3007),
        f"{topic}/consumer-offsets?partition_id=7": (404, 404),
        f"{topic}/consumer-offsets?consumer_id=fresh": (404, 404),
        "/streams/none/topics/t/messages": (404, 404),
        f"{topic}-not/messages": (404, 404),
        f"{topic}/consumer-groups/none": (404, 404),
        "/streams/none/topics/t/consumer-groups": (404, 1009),
    }
    for path, error in missing.items():
        assert http.ask("GET", path).error == error, path

    stream = int(topic.split("/")[2])
    for missing_one in ("none", "4000"):
        groups = {
            f"/streams/{missing_one}/topics/t/consumer-groups/g": 1009,
            f"/streams/{stream}/topics/{missing_one}/consumer-groups/g": 2010,
            f"{topic}/consumer-groups/{missing_one}": 5000,
        }
        for path, code in groups.items():
            assert http.ask("DELETE", path).error == (404, code), path
    for target, code in (
        ((stream, "t", 7), 3007),
        (("none", "t", 0), 1009),
        ((stream, "x", 0), 2010),
    ):
        with pytest.raises(ClientError) as refused:
            admin.poll(*target, count=1)
        assert refused.value.code == code


def test_offsets_beyond_the_end_are_refused(http: HttpClient, topic: str) -> None:
    offsets = f"{topic}/consumer-offsets"

    def store(offset: int, partition: int = 1) -> tuple[int, int]:
        body = {"consumer_id": "me", "partition_id": partition, "offset": offset}
        answer = http.ask("PUT", offsets, body)
        return (answer.status, 0) if answer.status == 204 else answer.error

    def stored() -> int | None:
        answer = http.ask("GET", f"{offsets}?consumer_id=me&partition_id=1")
        return answer.json["stored_offset"] if answer.status == 200 else None

    for offset in (0, 1):
        assert (store(offset), stored()) == ((400, 4100), None)
    http.send(topic, *[b"x"] * 5, partition=1)
    for offset in (2, 4):
        assert (store(offset), stored()) == ((204, 0), offset)
    for beyond in (5, 1 << 63, NEVER):
        assert (store(beyond), stored()) == ((400, 4100), 4)


def test_members_of_a_group_are_shown_and_go_with_it(
    http: HttpClient, broker: BrokerProcess, topic: str
) -> None:
    stream, groups = int(topic.split("/")[2]), f"{topic}/consumer-groups"
    assert http.post(groups, {"name": "g"})["id"] == 0
    with ExitStack() as stack:
        members = [stack.enter_context(broker.client()) for _ in range(5)]
        for count, member in enumerate(members, 1):
            member.join_group(stream, "t", "g")
            found = http.get(f"{groups}/g")
            shares = [one["partitions_count"] for one in found["members"]]
            assert (found["members_count"], sum(shares)) == (count, 4)
        assert sorted(shares) == [0, 1, 1, 1, 1]
        members[0].leave_group(stream, "t", "g")
        assert http.get(groups)[0]["members_count"] == 4

        assert http.ask("DELETE", f"{groups}/g").status == 204

        assert members[1].get_me().groups == ()
        assert http.post(groups, {"name": "g"})["members_count"] == 0


def test_an_update_changes_what_it_names(http: HttpClient, topic: str) -> None:
    stream = topic.removesuffix("/topics/t")
    hour_us, gib = 3_600_000_000, 1 << 30
    made = http.get(topic)
    http.send(topic, b"kept", partition=3)
    for change, expected in (
        ({"message_expiry": hour_us, "max_topic_size": 2 * gib}, (hour_us, 2 * gib)),
        ({"message_expiry": 2 * hour_us}, (2 * hour_us, 2 * gib)),
        ({"max_topic_size": 3 * gib}, (2 * hour_us, 3 * gib)),
        ({"name": "u"}, (2 * hour_us, 3 * gib)),
    ):
        place = f"{stream}/topics/{made['id']}"
        assert http.ask("PUT", place, {"name": "t", **change}).status == 204
        found = http.get(place)
        assert (found["message_expiry"], found["max_topic_size"]) == expected
        assert (found["partitions_count"], found["messages_count"]) == (4, 1)
    assert found["name"] == "u"
    assert http.ask("PUT", stream, {"name": "renamed"}).status == 204
    assert http.payloads("/streams/renamed/topics/u", "partition_id=3") == [b"kept"]


def test_next_is_what_is_left_whatever_became_of_the_topic(http: HttpClient, topic: str) -> None:
    offsets, following = f"{topic}/consumer-offsets?consumer_id=me", "kind=next&consumer_id=me"
    body = {"consumer_id": "me", "partition_id": 0, "offset": 2}
    http.send(topic, *(b"%d" % number for number in range(5)))
    assert http.ask("PUT", f"{topic}/consumer-offsets", body).status == 204
    assert http.payloads(topic, f"{following}&auto_commit=true") == [b"3", b"4"]
    assert http.payloads(topic, following) == []

    def is_as_new() -> None:
        assert http.ask("GET", offsets).error == (404, 404)
        assert http.payloads(topic, following) == []
        assert http.ask("PUT", f"{topic}/consumer-offsets", body).error == (400, 4100)
        http.send(topic, b"new")
        assert http.payloads(topic, following) == [b"new"]

    assert http.ask("DELETE", f"{topic}/purge").status == 204
    is_as_new()
    label = f'stream="{http.get(topic.removesuffix("/topics/t"))["name"]}",topic="t"'
    assert label in http.ask("GET", "/metrics").body.decode()
    assert http.ask("DELETE", topic).status == 204
    assert label not in http.ask("GET", "/metrics").body.decode(), "series go with the topic"
    http.post(topic.removesuffix("/t"), TOPIC | {"name": "t"})
    is_as_new()
