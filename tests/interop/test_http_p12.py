"""HTTP in the shapes of clients of protocol 0.12, on the broker of all these tests."""

from __future__ import annotations

import base64
import json
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest

from broker_process import BrokerProcess
from http_client import Answer, HttpClient, http_client, sending
from scraped import scrape_until

NEVER = (1 << 64) - 1
PARTITIONS = range(4)  # of which both shards own some
NOTHING = {"wait_us": 0, "min_count": 1, "max_bytes": 1 << 20, "request_timeout_us": 1_000_000}


@pytest.fixture
def stream(http: HttpClient) -> Iterator[str]:
    name = f"p12-{uuid.uuid4().hex[:8]}"
    http.post("/streams", {"name": name})
    yield f"/streams/{name}"
    http.ask("DELETE", f"/streams/{name}")


@pytest.fixture
def topic(http: HttpClient, stream: str) -> str:
    http.post(f"{stream}/topics", {"partitions_count": len(PARTITIONS), "name": "t"})
    return f"{stream}/topics/t"


def deferred(http: HttpClient, topic: str, method: str = "GET", **asked: Any) -> Answer:
    query = {"consumer_kind": "consumer", "consumer_id": "me", "kind": "offset", "value": 0}
    given = query | {"count": 10, "auto_commit": "false"} | NOTHING | asked
    return http.ask(method, f"{topic}/messages/deferred?{urlencode(given)}")


def payloads(answer: Answer) -> list[bytes]:
    assert answer.status == 200, answer
    return [base64.b64decode(one["payload"]) for one in answer.json["messages"]]


def test_topics_are_made_and_changed_by_options(http: HttpClient, stream: str) -> None:
    options = {"message_expiry": str(NEVER), "max_topic_size": 1 << 31, "durability": "persisted"}
    made = http.post(f"{stream}/topics", {"partitions_count": 1, "name": "o", "options": options})
    assert (made["message_expiry"], made["max_topic_size"]) == (NEVER, 1 << 31)
    kinds = {key: one["kind"] for key, one in made["options"].items()}
    assert (kinds["message_expiry"], kinds["durability"]) == ("uint64", "string")
    path = f"{stream}/topics/o"

    def change(patch: dict[str, Any]) -> int:
        return http.ask("PUT", path, patch).status

    def now() -> tuple[int, int]:
        found = http.get(path)
        return found["message_expiry"], found["max_topic_size"]

    assert (change({"message_expiry": 60_000_000}), now()) == (204, (60_000_000, 1 << 31))
    assert change({"message_expiry": str(NEVER - 1), "reset": ["max_topic_size"]}) == 204
    assert now() == (NEVER - 1, NEVER)
    assert (change({"reset": ["message_expiry"], "name": "o2"}), change({"name": "o"})) == (
        204,
        404,
    )
    path = f"{stream}/topics/o2"
    assert now() == (NEVER, NEVER)
    for patch, code in (({}, 3), ({"reset": ["name"]}, 0), ({"message_expiry": 0}, 3)):
        answer = http.ask("PUT", path, patch)
        assert answer.status == 400, patch
        assert answer.json["id"] == code or not code, answer


def test_a_send_is_for_one_life_of_a_partition(http: HttpClient, topic: str) -> None:
    contexts = {one["id"]: one["context"] for one in http.get(topic)["partitions"]}
    assert [contexts[one]["owner_generation"] for one in PARTITIONS] == [0] * len(PARTITIONS)
    for partition in PARTITIONS:
        sent = sending(b"a", partition=partition) | {"context": contexts[partition]}
        assert http.ask("POST", f"{topic}/messages", sent).status == 201
    http.post(f"{topic}/messages", sending(b"b") | {"context": None})

    http.ask("DELETE", f"{topic}/partitions?partitions_count=1")
    http.post(f"{topic}/partitions", {"partitions_count": 1})
    last, before = PARTITIONS[-1], contexts[PARTITIONS[-1]]
    old = http.ask(
        "POST", f"{topic}/messages", sending(b"late", partition=last) | {"context": before}
    )
    assert old.error == (400, 87)
    stored = {"partition_id": last, "offset": 0, "consumer_id": "me", "context": before}
    assert http.ask("PUT", f"{topic}/consumer-offsets", stored).error == (400, 87)
    fenced = deferred(http, topic, partition_id=last, context=json.dumps(before))
    assert fenced.error == (400, 87)
    twice = json.dumps(sending(b"c"))[:-1] + ', "context": null, "context": null}'
    typed = {"Content-Type": "application/json"}
    answer = http.ask("POST", f"{topic}/messages", raw=twice.encode(), headers=typed)
    assert answer.status == 422


def test_polls_wait_for_messages_of_any_shard(
    http: HttpClient, broker: BrokerProcess, topic: str
) -> None:
    def waiting(partition: int) -> Answer:
        with http_client(broker) as mine:
            asked = {"partition_id": partition, "min_count": 2, "kind": "next", "value": 0}
            asked |= {"wait_us": 60_000_000, "request_timeout_us": 61_000_000}
            return deferred(mine, topic, "POST", auto_commit="true", **asked)

    with ThreadPoolExecutor(len(PARTITIONS)) as pool:
        answers = [pool.submit(waiting, partition) for partition in PARTITIONS]
        for partition in PARTITIONS:
            http.post(f"{topic}/messages", sending(b"a", partition=partition))
            http.post(f"{topic}/messages", sending(b"b", partition=partition))
        for partition, future in zip(PARTITIONS, answers, strict=True):
            answer = future.result()
            assert payloads(answer) == [b"a", b"b"], partition
            context = http.get(topic)["partitions"][partition]["context"]
            assert answer.json["context"]["incarnation"] == context["incarnation"]
            path = f"{topic}/consumer-offsets?consumer_id=me&partition_id={partition}"
            assert http.get(path)["stored_offset"] == 1
            small = deferred(http, topic, partition_id=partition, max_bytes=344)
            assert payloads(small)[:1] == [b"a"]
    none = deferred(http, topic, kind="next", wait_us=1000, request_timeout_us=2_000_000)
    assert payloads(none) == []


def test_a_wait_ends_with_its_client(http: HttpClient, broker: BrokerProcess, topic: str) -> None:
    asked = {"kind": "next", "wait_us": 600_000_000, "auto_commit": "true"}
    head = f"POST {topic}/messages/deferred?{urlencode(asked)} HTTP/1.1\r\nHost: h\r\n"
    head += f"Content-Length: 0\r\nAuthorization: Bearer {http.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", broker.ports["http"])) as gone:
        gone.sendall(head.encode())
        scrape_until(broker, lambda found: found.sum("iggy_polls_waiting") == 1, "a poll waits")
    scrape_until(broker, lambda found: not found.sum("iggy_polls_waiting"), "no poll waits")
    http.post(f"{topic}/messages", sending(b"a"))
    path = f"{topic}/consumer-offsets?partition_id=0"
    assert http.ask("GET", path).status == 404


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"min_count": 11}, 0),
        ({"max_bytes": 343}, 0),
        ({"wait_us": 600_000_001, "request_timeout_us": 630_000_000}, 0),
        ({"wait_us": 1_000_000, "request_timeout_us": 1_999_999}, 0),
        ({"partition_id": 9}, 3007),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)
def test_waits_have_limits(http: HttpClient, topic: str, asked: dict[str, Any], code: int) -> None:
    answer = deferred(http, topic, **asked)
    assert answer.status in (400, 404), answer
    assert answer.json["id"] == code or not code, answer


def test_what_cannot_be_read_says_so(http: HttpClient, topic: str) -> None:
    assert b"consumer_kind" in deferred(http, topic, consumer_kind="consumer_group").body
    assert b"context" in deferred(http, topic, context="{}").body
    assert payloads(http.ask("GET", f"{topic}/messages/deferred")) == []


def test_nodes_have_ids_and_streams_no_key(http: HttpClient) -> None:
    assert [one["replica_id"] for one in http.get("/cluster/metadata")["nodes"]] == [0]
    key = base64.b64encode(bytes(32)).decode()
    answer = http.ask("POST", "/streams", {"name": "k", "options": {"encryption_key": key}})
    assert answer.status == 400
    assert key not in answer.body.decode()
