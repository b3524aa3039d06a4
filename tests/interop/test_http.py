"""What HTTP answers, beside what the binary protocol answers, on a broker with two shards."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import msgspec
import pytest

from broker_process import BrokerProcess, running_broker
from http_client import TOPIC, HttpClient, http_client, sending
from iggy_broker.config_http import Http
from iggy_broker.net.http import bodies
from iggy_broker.net.http.openapi import document
from iggy_broker.net.http.server import routes_of
from iggy_client import Client
from iggy_wire.batch import Message, build, messages
from iggy_wire.codes import Command
from permission_matrix import GRANTS, is_enough, permissions_of

NEVER = (1 << 64) - 1
LIMIT = 1_000_000
ORIGIN = "https://shop.example.com"
SETTINGS = {
    "IGGY_HTTP_CORS_ALLOWED_ORIGINS": ORIGIN,
    "IGGY_HTTP_CORS_ALLOW_CREDENTIALS": "true",
    "IGGY_HTTP_MAX_REQUEST_SIZE": "1 MB",
}
GLOBAL_FLAGS = bodies.GlobalFlags.__struct_fields__
HEADERS = [
    {"key": {"kind": kind, "value": "Yg=="}, "value": {"kind": "raw", "value": "AA=="}}
    for kind in ("string", "raw")
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("http")
    with running_broker(folder, shards=2, transports=["http"], settings=SETTINGS) as running:
        yield running
        assert "http_failed" not in running.text()


@pytest.fixture
def http(broker: BrokerProcess) -> Iterator[HttpClient]:
    with http_client(broker) as client:
        yield client


@pytest.fixture
def tcp(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture
def topic(http: HttpClient, request: pytest.FixtureRequest) -> str:
    """The path of a fresh topic of four partitions, of which both shards own some."""
    name = request.node.name[:200]
    stream = http.post("/streams", {"name": name})["id"]
    http.post(f"/streams/{stream}/topics", TOPIC | {"name": "t", "partitions_count": 4})
    return f"/streams/{stream}/topics/t"


def test_what_is_sent_one_way_is_read_the_other(http: HttpClient, tcp: Client, topic: str) -> None:
    stream = int(topic.split("/")[2])
    for partition in range(4):
        http.send(topic, b"over http", partition=partition)
        tcp.send_batch(
            stream, "t", partition, build([Message(b"over tcp", id=7)], origin_timestamp_us=5)
        )

    for partition in range(4):
        assert http.payloads(topic, f"partition_id={partition}") == [b"over http", b"over tcp"]
        found = list(messages(tcp.poll(stream, "t", partition, count=10).region))
        shown = http.get(f"{topic}/messages?partition_id={partition}")["messages"]
        for message, one in zip(found, shown, strict=True):
            head = one["header"]
            assert (head["id"], head["offset"]) == (message.id, message.offset)
            assert head["timestamp"] == message.timestamp_us
            assert head["origin_timestamp"] == message.origin_timestamp_us
            assert base64.b64decode(one["payload"]) == message.payload
        assert found[0].id >> 76 & 0xF == 4, "a random UUID of version 4"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (0, None), ("0", None), (None, None), (NEVER, NEVER), (str(1 << 64), 1 << 64),
        (str((1 << 128) - 1), (1 << 128) - 1),
        ("01020304-0506-0708-090a-0b0c0d0e0f11", 1339673755198158349044581307228491537),
        ("0102030405060708090a0b0c0d0e0f1a", 0x0102030405060708090A0B0C0D0E0F1A),
    ],
)  # fmt: skip
def test_ids_are_kept_digit_for_digit(
    http: HttpClient, tcp: Client, topic: str, given: object, stored: int | None
) -> None:
    body = sending(b"x")
    body["messages"][0]["id"] = given
    http.post(f"{topic}/messages", body)

    (found,) = http.get(f"{topic}/messages")["messages"]
    (same,) = messages(tcp.poll(int(topic.split("/")[2]), "t", 0, count=10).region)
    assert same.id == found["header"]["id"]
    assert found["header"]["id"] == stored if stored is not None else found["header"]["id"] > 0


@pytest.mark.parametrize("given", [NEVER + 1, -1, 1.5, True, str(1 << 128), "x", ""])
def test_other_ids_are_refused(http: HttpClient, topic: str, given: object) -> None:
    body = sending(b"x")
    body["messages"][0]["id"] = given

    assert http.ask("POST", f"{topic}/messages", body).status == 422
    assert http.get(f"{topic}/messages")["count"] == 0


@pytest.mark.parametrize(("expiry", "status"), [
    (0, 200), (1, 200), (NEVER, 200), (NEVER + 1, 422), (-1, 422), (1.5, 422), ("never", 422),
])  # fmt: skip
def test_an_expiry_comes_back_digit_for_digit(
    http: HttpClient, tcp: Client, topic: str, expiry: object, status: int
) -> None:
    stream = topic.removesuffix("/topics/t")
    body = TOPIC | {"name": "of-an-age", "message_expiry": expiry}

    answer = http.ask("POST", f"{stream}/topics", body)

    assert answer.status == status
    if status == 200:
        assert answer.json["message_expiry"] == (expiry or NEVER)
        found = tcp.get_topic(int(stream.split("/")[2]), "of-an-age")
        assert found is not None
        assert found.topic.message_expiry_us == answer.json["message_expiry"]


def test_user_headers_are_checked_and_sorted(http: HttpClient, topic: str) -> None:
    body = sending(b"x")
    body["messages"][0]["user_headers"] = HEADERS
    http.post(f"{topic}/messages", body)
    (found,) = http.get(f"{topic}/messages")["messages"]
    assert [one["key"]["kind"] for one in found["user_headers"]] == ["raw", "string"]

    for length, code in ((0, 4018), (256, 4018), (1, 0), (255, 0)):
        key = {"kind": "raw", "value": base64.b64encode(b"k" * length).decode()}
        one = {"key": key, "value": {"kind": "raw", "value": "AA=="}}
        body["messages"][0]["user_headers"] = [one]
        answer = http.ask("POST", f"{topic}/messages", body)
        if code:
            assert answer.error == (400, code)
        else:
            assert answer.status == 201
            (found,) = http.get(f"{topic}/messages?kind=last&count=1")["messages"]
            assert found["user_headers"] == [one]
    body["messages"][0]["user_headers"] = [HEADERS[0], HEADERS[0]]
    assert http.ask("POST", f"{topic}/messages", body).error == (400, 4018)
    for length, status in ((100_000, 201), (100_001, 400)):
        block = base64.b64encode(b"o" * length).decode()
        body["messages"][0]["user_headers"] = block
        answer = http.ask("POST", f"{topic}/messages", body)
        assert answer.status == status
        assert status == 201 or answer.error == (400, 4017)
    (found,) = http.get(f"{topic}/messages?kind=last&count=1")["messages"]
    assert found["user_headers"] == base64.b64encode(b"o" * 100_000).decode()


def test_a_payload_has_a_byte_at_least_and_a_body_its_limit(http: HttpClient, topic: str) -> None:
    assert http.ask("POST", f"{topic}/messages", sending(b"")).status == 422
    http.send(topic, b"x")
    bare_bytes = len(json.dumps(sending(b"")))
    largest = bytes(range(256)) * ((LIMIT - bare_bytes) * 3 // 4 // 256)
    whole = json.dumps(sending(largest)).encode().ljust(LIMIT)
    headers = {"Content-Type": "application/json"}
    assert http.ask("POST", f"{topic}/messages", raw=whole, headers=headers).status == 201
    assert http.ask("POST", f"{topic}/messages", raw=whole + b" ", headers=headers).status == 413
    assert http.payloads(topic) == [b"x", largest]


def test_a_user_sees_himself_and_no_other(http: HttpClient, broker: BrokerProcess) -> None:
    made = http.post("/users", {"username": "self", "password": "secret", "status": "active"})
    with http_client(broker, log_in=False) as own:
        own.log_in("self", "secret")
        for path in ("/users/self", f"/users/{made['id']}", "/users/me"):
            assert own.get(path)["username"] == "self"
        for path in ("/users/0", "/users", "/stats", "/streams"):
            assert own.ask("GET", path).error == (403, 41)
        change = {"current_password": "secret", "new_password": "other"}
        assert own.ask("PUT", "/users/0/password", change).error == (403, 41)
        assert own.ask("PUT", "/users/self/password", change).status == 204
    everything = dict.fromkeys(GLOBAL_FLAGS, True)
    rights = {"permissions": {"global": everything, "streams": None}}
    assert http.ask("PUT", "/users/self/permissions", rights).status == 204
    with http_client(broker, log_in=False) as manager:
        manager.log_in("self", "other")
        assert manager.get("/users/0")["username"] == "iggy"
        for asked in (http, manager):
            for root in ("/users/0", "/users/iggy"):
                assert asked.ask("DELETE", root).error == (400, 48)
                strip = asked.ask("PUT", f"{root}/permissions", {"permissions": None})
                assert strip.error == (400, 49)


PERMITTED = {
    "GET /stats": "GET_STATS", "GET /clients": "GET_CLIENTS", "GET /users": "GET_USERS",
    "GET /users/0": "GET_USER", "GET /streams": "GET_STREAMS", "GET {s}": "GET_STREAM",
    "GET {s}/topics": "GET_TOPICS", "GET {t}": "GET_TOPIC", "GET {t}/messages": "POLL_MESSAGES",
    "GET {t}/consumer-groups": "GET_CONSUMER_GROUPS",
    "GET {t}/consumer-offsets": "GET_CONSUMER_OFFSET",
    "DELETE {t}/consumer-offsets/1?partition_id=0": "DELETE_CONSUMER_OFFSET",
    "DELETE {t}/partitions/0?segments_count=0": "DELETE_SEGMENTS",
    "DELETE {t}/partitions?partitions_count=99": "DELETE_PARTITIONS",
    "DELETE {t}/consumer-groups/none": "DELETE_CONSUMER_GROUP",
    "DELETE {t}/purge": "PURGE_TOPIC", "DELETE {s}/purge": "PURGE_STREAM",
    "DELETE /users/0": "DELETE_USER",
}  # fmt: skip


def test_permissions_are_those_of_the_binary_protocol(
    http: HttpClient, broker: BrokerProcess, topic: str
) -> None:
    stream_id = int(topic.split("/")[2])
    user = http.post("/users", {"username": "bits", "password": "secret", "status": "active"})
    wrong = []
    with broker.client() as admin, http_client(broker, log_in=False) as own:
        own.log_in("bits", "secret")
        for grant in GRANTS:
            admin.update_permissions(user["id"], permissions_of(grant, stream_id, 0))
            for line, command in PERMITTED.items():
                method, path = line.format(s=f"/streams/{stream_id}", t=topic).split(" ")
                may = own.ask(method, path).status != 403
                if may != is_enough(Command[command], grant):
                    wrong.append((grant, line, may))
    assert wrong == []


def test_scripts_of_listed_origins_only_are_let_in(http: HttpClient) -> None:
    for origin, allowed in ((ORIGIN, ORIGIN), ("https://other.example.com", None), (None, None)):
        sent = {} if origin is None else {"Origin": origin}
        for method, path in (("GET", "/streams"), ("OPTIONS", "/streams"), ("GET", "/none")):
            headers = http.ask(method, path, headers=sent).headers
            assert headers.get("access-control-allow-origin") == allowed
            assert headers["vary"] == "origin"
            assert headers["access-control-allow-credentials"] == "true"


def test_the_description_is_that_of_the_routes(http: HttpClient) -> None:
    served = msgspec.json.decode(http.ask("GET", "/openapi.json").body)
    routes = routes_of(Http())

    assert served == msgspec.json.decode(msgspec.json.encode(document(routes)))
    for path, operations in served["paths"].items():
        for method, operation in operations.items():
            known = {route.path for route in routes if route.method == method.upper()}
            assert path in known
            # Nobody who is not logged in gets past this, and what is public says so.
            filled = path.replace("{", "").replace("}", "")
            token, http.token = http.token, None
            status = http.ask(method.upper(), filled).status
            http.token = token
            assert (status == 401) == bool(operation["security"]), path
    references = set(str(served).split("'$ref': '#/components/schemas/")[1:])
    assert {one.split("'")[0] for one in references} <= served["components"]["schemas"].keys()


def test_answers_have_the_shapes_of_the_description(http: HttpClient, topic: str) -> None:
    """What is served decodes strictly to the shape that the description is made of."""
    http.send(topic, b"x")
    body = {"consumer_id": 1, "partition_id": 0, "offset": 0}
    assert http.ask("PUT", f"{topic}/consumer-offsets", body).status == 204
    stream, topic_id = topic.split("/")[2], "t"
    filled = {"{stream_id}": stream, "{topic_id}": topic_id, "{user_id}": "0", "{scope}": "topic"}
    checked = 0
    for route in routes_of(Http()):
        path = route.path
        for parameter, value in filled.items():
            path = path.replace(parameter, value)
        if route.method == "GET" and "{" not in path and route.success.shape is not None:
            answer = http.ask("GET", path)
            assert answer.status == route.success.status, path
            value = msgspec.json.decode(answer.body, type=route.success.shape)
            again = msgspec.json.decode(msgspec.json.encode(value))
            if not path.endswith("/messages"):  # its ids are larger than what is encoded here
                assert again.keys() == answer.json.keys() if isinstance(again, dict) else True
            checked += 1
    assert checked >= 15


def test_clients_up_to_08_find_the_replication_factor_of_a_topic(
    http: HttpClient, topic: str
) -> None:
    stream = topic.removesuffix("/topics/t")

    assert http.get(topic)["replication_factor"] == 1
    assert http.get(f"{stream}/topics")[0]["replication_factor"] == 1
    assert http.get(stream)["topics"][0]["replication_factor"] == 1


def test_requests_are_counted_over_all_shards(broker: BrokerProcess, http: HttpClient) -> None:
    def asked() -> int:
        text = http.ask("GET", "/metrics").body.decode()
        assert text.endswith("# EOF\n")
        (line,) = [line for line in text.splitlines() if line.startswith("http_requests_total ")]
        assert "iggy_http_api_connections{" in text
        return int(line.split()[1])

    before = asked()
    for _ in range(8):
        with http_client(broker, log_in=False) as other:
            assert other.ask("GET", "/ping").status == 200
    assert asked() == before + 9
