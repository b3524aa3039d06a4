"""What HTTP finds behind a kill, damaged files and a stop under load: what was confirmed, no more.

One broker that is used over HTTP, killed, damaged and started again; then every case looks at what
is its own.
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from broker_process import BrokerProcess
from group_cases import GROUP
from http_client import TOPIC, HttpClient, http_client
from iggy_client import Client
from stored import logs
from waiting import wait_until

SETTINGS = {"IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1000"}
SEGMENT = {"segment_size": str(1 << 20)}
TINY = 1025  # more than the buffers of one gathered write
BATCHES, PER_BATCH = 20, 10
CUT_BYTES = 37
NAMES = [
    "../../../tmp/iggykube-y", "..", ".", "a/b", "a\\b", "CON", "x\0y", "漢" * 84 + "abc", "🚀",
    "Foo", "foo",
]  # fmt: skip
USERNAME_BYTES = range(3, 51)


@dataclass
class Lives:
    """The broker, and what clients were told in its first life."""

    broker: BrokerProcess
    ids: dict[str, int] = field(default_factory=dict)
    confirmed: list[int] = field(default_factory=list)
    outside: set[str] = field(default_factory=set)

    def folder(self, stream: str, topic: int = 0, partition: int = 0) -> Path:
        place = f"streams/{self.ids[stream]}/topics/{topic}/partitions/{partition}"
        return self.broker.data / place


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    folder = tmp_path_factory.mktemp("lives")
    broker = BrokerProcess(folder, settings=SETTINGS, transports=["http"])
    found = Lives(broker)
    try:
        broker.start()
        with http_client(broker) as asked, broker.client() as client:
            first_life(found, asked, client)
        found.outside = {path.name for path in folder.iterdir()}
        broker.kill()
        damage(found)
        broker.start()
        yield found
        assert broker.stop() == 0, broker.text()
        assert "Traceback" not in broker.text()
    finally:
        broker.end()


@pytest.fixture
def asked(lives: Lives) -> Iterator[HttpClient]:
    with http_client(lives.broker) as client:
        yield client


def path(stream: str, topic: str = "t", *more: str) -> str:
    names = ("streams", stream, "topics", topic, *more)
    return "".join(f"/{quote(name, safe='')}" for name in names)


def first_life(found: Lives, asked: HttpClient, client: Client) -> None:
    write_logs(found, asked)
    leave_holes(found, asked)
    fill_segments(found, asked)
    for name in NAMES:
        use_name(found, asked, name)
    make_group_again(found, asked, client)


def make(found: Lives, asked: HttpClient, stream: str, *topics: str, **options: Any) -> None:
    found.ids[stream] = asked.post("/streams", {"name": stream})["id"]
    for topic in topics or ("t",):
        asked.post(f"/streams/{found.ids[stream]}/topics", TOPIC | options | {"name": topic})


def write_logs(found: Lives, asked: HttpClient) -> None:
    for stream in ("torn", "kept", "tiny", "odd", "grouped"):
        make(found, asked, stream)
    for number in range(BATCHES):
        asked.send(path("torn"), *payloads(number))
    found.confirmed += [base_offset(asked.send(path("kept"), b"0/%d" % n)) for n in range(10)]
    for number in range(TINY):
        assert base_offset(asked.send(path("tiny"), b"x")) == number
    asked.send(path("odd"), *payloads(0))
    for consumer in (1, 2, 3):
        store_offset(asked, "odd", consumer, consumer)
    make(found, asked, "removed", "gone", "half", partitions_count=2)
    for topic, partition in (("gone", 0), ("gone", 1), ("half", 0), ("half", 1)):
        asked.send(path("removed", topic), b"m", b"n", partition=partition)


def leave_holes(found: Lives, asked: HttpClient) -> None:
    for stream in "abc":
        make(found, asked, stream, *"xyz")
        for topic in "xyz":
            asked.send(path(stream, topic), f"{stream}/{topic}".encode())
            for group in "xyz":
                asked.post(path(stream, topic, "consumer-groups"), {"name": group})
            assert delete(asked, path(stream, topic, "consumer-groups", "y")) == 204
        assert delete(asked, path(stream, "y")) == 204
    assert delete(asked, "/streams/b") == 204


def fill_segments(found: Lives, asked: HttpClient) -> None:
    """Five that are sealed, and an empty one; the oldest is deleted."""
    make(found, asked, "head", options=SEGMENT)
    for number in range(25):
        assert base_offset(asked.send(path("head"), bytes((1 << 20) // 5))) == number
    store_offset(asked, "head", 1, 5)
    assert delete(asked, path("head", "t", "partitions", "0") + "?segments_count=1") == 204


def use_name(found: Lives, asked: HttpClient, name: str) -> None:
    """For a stream, a topic, a group, a consumer and a user."""
    make(found, asked, name, name)
    asked.post(path(name, name, "consumer-groups"), {"name": name})
    asked.send(path(name, name), name.encode(), b"second")
    body = {"consumer_id": name, "partition_id": 0, "offset": 0}
    assert asked.ask("PUT", path(name, name, "consumer-offsets"), body).status == 204
    user = {"username": name, "password": "secret", "status": "active"}
    answer = asked.ask("POST", "/users", user)
    if len(name.encode()) in USERNAME_BYTES:
        assert answer.status == 200
    else:
        assert answer.error == (400, 43)


def make_group_again(found: Lives, asked: HttpClient, client: Client) -> None:
    """A group has read all, is deleted, and there is another one of its name."""
    groups = path("grouped", "t", "consumer-groups")
    asked.send(path("grouped"), *payloads(0))
    assert asked.post(groups, {"name": "g"})["id"] == 0
    client.join_group("grouped", "t", "g")
    client.store_offset(GROUP, "grouped", "t", 0, 9)
    assert len(list((found.folder("grouped") / "offsets/groups").iterdir())) == 1
    assert delete(asked, f"{groups}/g") == 204
    asked.post(groups, {"name": "g"})


def damage(found: Lives) -> None:
    log = logs(found.folder("torn"))[-1]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - CUT_BYTES)
    offsets = found.folder("odd") / "offsets" / "consumers"
    for name in (".DS_Store", "12.bak", "tmp"):
        (offsets / name).write_bytes(b"\x07" * 16)
    (offsets / "7").mkdir()
    (offsets / "8").touch()
    (offsets / "2").write_bytes((offsets / "2").read_bytes()[:5])
    shutil.rmtree(found.folder("removed").parents[1])
    shutil.rmtree(found.folder("removed", topic=1))


def payloads(number: int) -> list[bytes]:
    return [b"%03d/%d" % (number, place) for place in range(PER_BATCH)]


def base_offset(answer: Any) -> int:
    (one,) = answer["confirmations"]
    return int(one["base_offset"])


def store_offset(asked: HttpClient, stream: str, consumer: int, offset: int) -> None:
    body = {"consumer_id": consumer, "partition_id": 0, "offset": offset}
    assert asked.ask("PUT", path(stream, "t", "consumer-offsets"), body).status == 204


def delete(asked: HttpClient, place: str) -> int:
    return asked.ask("DELETE", place).status


def read_all(asked: HttpClient, stream: str, topic: str = "t", partition: int = 0) -> list[bytes]:
    """The payloads from offset 0 on; offsets must be dense."""
    found: list[bytes] = []
    while True:
        query = f"partition_id={partition}&value={len(found)}&count=1000"
        polled = asked.get(f"{path(stream, topic)}/messages?{query}")["messages"]
        if not polled:
            return found
        offsets = [one["header"]["offset"] for one in polled]
        assert offsets == list(range(len(found), len(found) + len(polled)))
        found += [base64.b64decode(one["payload"]) for one in polled]


def test_a_torn_tail_is_cut_and_its_offsets_are_given_again(asked: HttpClient) -> None:
    found = read_all(asked, "torn")

    assert found == [one for number in range(BATCHES - 1) for one in payloads(number)]
    assert base_offset(asked.send(path("torn"), b"next")) == len(found)
    assert read_all(asked, "torn") == [*found, b"next"]


def test_what_was_confirmed_keeps_its_offset(lives: Lives, asked: HttpClient) -> None:
    assert lives.confirmed == list(range(10))
    assert read_all(asked, "kept") == [b"0/%d" % number for number in range(10)]
    assert base_offset(asked.send(path("kept"), b"1/0")) == 10


def test_a_thousand_tiny_sends_are_there(asked: HttpClient) -> None:
    assert read_all(asked, "tiny") == [b"x"] * TINY
    assert asked.get(path("tiny"))["messages_count"] == TINY


def test_foreign_files_are_no_offsets(asked: HttpClient) -> None:
    place = path("odd", "t", "consumer-offsets")
    answers = {n: asked.ask("GET", f"{place}?consumer_id={n}") for n in (1, 2, 3, 7, 8, 12)}

    stored = {n: one.json["stored_offset"] for n, one in answers.items() if one.status == 200}
    assert stored == {1: 1, 3: 3}
    assert all(answers[number].error == (404, 404) for number in (2, 7, 8, 12))


def test_removed_folders_cost_what_was_in_them(asked: HttpClient) -> None:
    assert read_all(asked, "removed", "half", 1) == [b"m", b"n"]
    assert base_offset(asked.send(path("removed", "half"), b"o", partition=1)) == 2
    for topic, partition in (("gone", 0), ("gone", 1), ("half", 0)):
        assert read_all(asked, "removed", topic, partition) == []
        sent = asked.send(path("removed", topic), b"again", partition=partition)
        assert base_offset(sent) == 0
        assert read_all(asked, "removed", topic, partition) == [b"again"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_names(lives: Lives, asked: HttpClient, name: str) -> None:
    place = path(name, name)
    assert read_all(asked, name, name) == [name.encode(), b"second"]
    assert asked.get(place)["name"] == asked.get(f"/streams/{quote(name, safe='')}")["name"] == name
    query = f"consumer_id={quote(name, safe='')}"
    assert asked.get(f"{place}/consumer-offsets?{query}")["stored_offset"] == 0
    group = asked.get(f"{place}/consumer-groups/{quote(name, safe='')}")
    assert (group["id"], group["name"]) == (0, name)
    if len(name.encode()) in USERNAME_BYTES:
        with http_client(lives.broker, log_in=False) as own:
            own.log_in(name, "secret")
            assert own.get(f"/users/{quote(name, safe='')}")["username"] == name
    assert {path.name for path in lives.broker.folder.iterdir()} == lives.outside
    assert not Path("/tmp/iggykube-y").exists()


@pytest.mark.parametrize("place", ["/streams", path("kept", "t", "consumer-groups"), "/users"])
def test_a_name_that_is_no_text_is_refused(asked: HttpClient, place: str) -> None:
    before = asked.get(place)
    raw = b'{"name":"q\xc3q","username":"q\xc3q","password":"secret","status":"active"}'
    headers = {"Content-Type": "application/json"}

    assert asked.ask("POST", place, raw=raw, headers=headers).status == 400
    assert asked.ask("GET", "/streams/q%C3q").status == 400
    assert asked.get(place) == before


def test_a_group_that_was_made_again_begins_again(lives: Lives, asked: HttpClient) -> None:
    files = list((lives.folder("grouped") / "offsets/groups").iterdir())
    group = asked.get(path("grouped", "t", "consumer-groups", "g"))
    with lives.broker.client() as client:
        client.join_group("grouped", "t", "g")
        polled = client.poll("grouped", "t", 0, consumer=GROUP, count=100)

    assert files == [], "nothing of the old one is left"
    assert (group["id"], group["members_count"]) == (1, 0)
    assert polled.count == PER_BATCH


def test_a_stop_under_load_loses_nothing_and_the_ends_stay(lives: Lives, asked: HttpClient) -> None:
    broker = lives.broker
    assert look_at_head(asked) == (24, 5, 20)
    check_holes(lives, asked)
    lives.ids["d"] = asked.post("/streams", {"name": "d"})["id"]
    asked.post("/streams/d/topics", TOPIC | {"name": "x"})
    asked.send(path("d", "x"), b"d/x")
    taken = list(read_all(asked, "kept"))
    sender = threading.Thread(target=send_until_closed, args=(broker, taken))
    sender.start()
    wait_until(lambda: len(taken) > 50, "some are sent")

    assert broker.stop() == 0, broker.text()
    sender.join(30)
    assert not sender.is_alive(), "its connection was closed"
    with pytest.raises((OSError, http.client.HTTPException)):
        asked.ask("GET", "/ping")  # an idle connection is closed, too

    broker.start()
    with http_client(broker) as again:
        found = read_all(again, "kept")
        assert found[: len(taken)] == taken
        assert len(found) <= len(taken) + 1, "one may have been on its way"
        check_holes(lives, again)
        assert read_all(again, "d", "x") == [b"d/x"]
        assert look_at_head(again) == (24, 5, 20)
        assert base_offset(again.send(path("head"), b"next")) == 25
        store_offset(again, "head", 1, 24)
        assert look_at_head(again) == (25, 24, 21)
        (first,) = again.get(f"{path('head')}/messages?kind=first&count=1")["messages"]
        assert first["header"]["offset"] == 5
        assert again.payloads(path("head"), "kind=next&consumer_id=1") == [b"next"]


def send_until_closed(broker: BrokerProcess, taken: list[bytes]) -> None:
    with http_client(broker) as own, suppress(OSError, http.client.HTTPException, AssertionError):
        while True:
            payload = json.dumps(len(taken)).encode()
            assert base_offset(own.send(path("kept"), payload)) == len(taken)
            taken.append(payload)


def look_at_head(asked: HttpClient) -> tuple[int, int, int]:
    """Current offset, stored offset, messages of the topic."""
    stored = asked.get(path("head", "t", "consumer-offsets") + "?consumer_id=1")
    topic = asked.get(path("head"))
    (partition,) = topic["partitions"]
    assert partition["current_offset"] == stored["current_offset"]
    assert partition["messages_count"] == topic["messages_count"]
    return stored["current_offset"], stored["stored_offset"], topic["messages_count"]


def check_holes(lives: Lives, asked: HttpClient) -> None:
    """Ids and messages stay where something between them is gone."""
    listed = {one["name"]: one["id"] for one in asked.get("/streams")}
    assert {name: listed[name] for name in "ac"} == {name: lives.ids[name] for name in "ac"}
    assert "b" not in listed
    if lives.ids["b"] not in listed.values():
        assert asked.ask("GET", f"/streams/{lives.ids['b']}").error == (404, 404)
    for stream in "ac":
        topics = asked.get(f"/streams/{stream}/topics")
        assert [(one["id"], one["name"]) for one in topics] == [(0, "x"), (2, "z")]
        for topic in "xz":
            groups = asked.get(path(stream, topic, "consumer-groups"))
            assert [(one["id"], one["name"]) for one in groups] == [(0, "x"), (2, "z")]
            assert read_all(asked, stream, topic) == [f"{stream}/{topic}".encode()]
