"""Requests over HTTP that are wrong, odd, too large or too slow: each is answered, without harm."""

from __future__ import annotations

import base64
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import jwt
import pytest

from broker_process import PASSWORD, BrokerProcess, running_broker
from http_client import TOPIC, HttpClient, http_client, sending
from iggy_broker.config_http import Http
from iggy_broker.net.http.server import routes_of
from process_figures import anonymous_bytes

AS_JSON = {"Accept": "application/json"}
JSON = {"Content-Type": "application/json"}
SECRET = "a-secret-of-the-tests-that-is-long-enough" * 2
LIMIT = 2_000_000
STREAM, TOPIC_PATH = "/streams/s", "/streams/s/topics/t"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"IGGY_HTTP_JWT_ENCODING_SECRET": SECRET}
    folder = tmp_path_factory.mktemp("faults")
    with running_broker(folder, shards=2, transports=["http"], settings=settings) as running:
        with http_client(running) as http:
            http.post("/streams", {"name": "s"})
            http.post(f"{STREAM}/topics", TOPIC | {"name": "t"})
            http.send(TOPIC_PATH, b"first", b"second")
        yield running
        assert "http_failed" not in running.text()


@pytest.fixture
def http(broker: BrokerProcess) -> Iterator[HttpClient]:
    with http_client(broker) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"name":', 400), (b"", 400), (b"[]", 422), (b"null", 422), (b'{"name":5}', 422),
        (b'{"name":"a","name":"b"}', 422), ('{"name":"a"}'.encode("utf-16"), 400),
        (b'{"name":"a"} x', 400), (b'{"name":"\xff"}', 400), (b'{"name":"\\ud800"}', 400),
        (b'{"name":NaN}', 400), (b'{"name":"a","x":' + b"[" * 100_000, 400),
        (b'{"name":"a","x":{"y":1,"y":2}}', 422),
        (b"[" * 5_000_000, 413),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_refused_and_makes_nothing(
    http: HttpClient, body: bytes, status: int
) -> None:
    before = http.get("/streams")

    told = http.ask("POST", "/streams", raw=body, headers=JSON | AS_JSON)
    plain = http.ask("POST", "/streams", raw=body, headers=JSON)

    assert told.status == plain.status == status
    assert told.json["reason"]
    assert told.headers["content-type"] == "application/json"
    assert plain.headers["content-type"] == "text/plain; charset=utf-8"
    assert plain.body.startswith(b"Failed to ")
    assert http.get("/streams") == before


def test_a_password_that_is_no_text_is_refused(broker: BrokerProcess) -> None:
    with http_client(broker, log_in=False) as http:
        raw = b'{"username":"iggy","password":NaN}'

        assert http.ask("POST", "/users/login", raw=raw, headers=JSON | AS_JSON).status == 400


@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonx", "multipart/form-data"])
def test_a_body_must_be_announced_as_json(http: HttpClient, kind: str) -> None:
    raw = b'{"name":"of-another-type"}'

    answer = http.ask("POST", "/streams", raw=raw, headers={"Content-Type": kind} | AS_JSON)

    assert answer.error == (415, 415)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_ends_the_connection_and_costs_no_memory(
    broker: BrokerProcess, http: HttpClient, is_chunked: bool
) -> None:
    large = json.dumps(sending(b"x" * (3 << 20))).encode()
    before = sum(map(anonymous_bytes, broker.shard_pids()))

    for _ in range(5):
        head = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(large)
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(large), large) if is_chunked else large
        answer = raw_request(http, b"POST", f"{TOPIC_PATH}/messages", head, body)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer.lower()

    assert sum(map(anonymous_bytes, broker.shard_pids())) - before < 5 * LIMIT
    parts = (large[at : at + 65_536] for at in range(0, len(large), 65_536))
    raw = parts if is_chunked else large
    told = http.ask("POST", f"{TOPIC_PATH}/messages", raw=raw, headers=JSON)
    assert (told.status, told.headers["connection"]) == (413, "close")
    http.send(TOPIC_PATH, b"after")


@pytest.mark.parametrize(
    ("head", "begin"),
    [
        (b"Content-Length: 4000000", b""),
        (b"Transfer-Encoding: chunked", b"%x\r\n%b" % (4_000_000, bytes(LIMIT + 1))),
    ],
    ids=["announced", "chunked"],
)
def test_a_body_over_the_limit_is_not_waited_for(
    http: HttpClient, head: bytes, begin: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", http.port), timeout=20) as sock:
        request = raw_head(http, b"POST", f"{TOPIC_PATH}/messages", head)
        sock.sendall(request + begin)  # and no more
        assert sock.recv(65536).startswith(b"HTTP/1.1 413")


# One body of each route that takes one.
WHOLE: dict[tuple[str, str], dict[str, object]] = {
    ("POST", "/snapshot"): {"compression": "stored", "snapshot_types": ["test"]},
    ("POST", "/users/login"): {"username": "iggy", "password": PASSWORD},
    ("POST", "/users/refresh-token"): {"token": "t"},
    ("POST", "/personal-access-tokens/login"): {"token": "t"},
    ("POST", "/personal-access-tokens"): {"name": "cut", "expiry": 0},
    ("POST", "/users"): {"username": "cut", "password": "secret", "status": "active"},
    ("PUT", "/users/{user_id}"): {"username": "cut"},
    ("PUT", "/users/{user_id}/password"): {"current_password": PASSWORD, "new_password": "cut"},
    ("PUT", "/users/{user_id}/permissions"): {"permissions": None},
    ("POST", "/streams"): {"name": "cut"},
    ("PUT", "/streams/{stream_id}"): {"name": "cut"},
    ("POST", "/streams/{stream_id}/topics"): TOPIC | {"name": "cut"},
    ("PUT", "/streams/{stream_id}/topics/{topic_id}"): {"name": "cut", "message_expiry": 1},
    ("POST", "/streams/{stream_id}/topics/{topic_id}/partitions"): {"partitions_count": 1},
    ("POST", "/streams/{stream_id}/topics/{topic_id}/messages"): sending(b"cut"),
    ("PUT", "/streams/{stream_id}/topics/{topic_id}/consumer-offsets"): {
        "consumer_id": 1, "partition_id": 0, "offset": 0,
    },
    ("POST", "/streams/{stream_id}/topics/{topic_id}/consumer-groups"): {"name": "cut"},
}  # fmt: skip


def test_every_cut_body_is_refused_and_changes_nothing(
    broker: BrokerProcess, http: HttpClient
) -> None:
    taking = {(route.method, route.path) for route in routes_of(Http()) if route.body is not None}
    assert taking == WHOLE.keys()
    shards, before = broker.shard_pids(), everything(http)

    for (method, template), body in WHOLE.items():
        path = template.format(user_id="iggy", stream_id="s", topic_id="t")
        data = json.dumps(body).encode()
        for length in range(len(data)):
            answer = http.ask(method, path, raw=data[:length], headers=JSON)
            assert answer.status == 400, f"{length} bytes of {path} were taken"

    assert everything(http) == before
    assert broker.shard_pids() == shards
    with http_client(broker) as again:
        again.send(TOPIC_PATH, b"alive")


def everything(http: HttpClient) -> list[object]:
    """What there is."""
    places = ("/users", "/personal-access-tokens", "/streams", STREAM, TOPIC_PATH)
    more = (f"{TOPIC_PATH}/consumer-groups", f"{TOPIC_PATH}/consumer-offsets")
    return [http.get(place) for place in places] + [http.ask("GET", one).body for one in more]


def test_a_client_that_asks_first_is_told_to_go_on(http: HttpClient) -> None:
    body = json.dumps(sending(b"expected")).encode()
    head = b"Expect: 100-continue\r\nContent-Length: %d" % len(body)

    answer = raw_request(http, b"POST", f"{TOPIC_PATH}/messages", head, body)

    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201")


@pytest.mark.parametrize(
    "query",
    [
        "count=-1", "count=1e3", "count=4294967296", "count=", "count=1&count=2", "value=-1",
        "value=18446744073709551616", "kind=bogus", "kind=Offset", "partition_id=-1",
        "auto_commit=maybe", "auto_commit=1", "consumer_id=", "consistency=none", "kind=%FF",
    ],
)  # fmt: skip
def test_a_query_that_cannot_be_read_is_refused(http: HttpClient, query: str) -> None:
    answer = http.ask("GET", f"{TOPIC_PATH}/messages?{query}")

    assert answer.status == 400
    assert answer.body.startswith(b"Failed to deserialize query string: ")
    assert http.ask("GET", f"{TOPIC_PATH}/messages?{query}", headers=AS_JSON).error == (400, 4)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("count=4294967295", 2), ("value=18446744073709551615", 0), ("count=0&auto_commit=true", 0),
        ("value=9007199254740993", 0), ("count=%2B1", 1), ("unknown=1", 2),
    ],
)  # fmt: skip
def test_an_odd_query_is_served(http: HttpClient, query: str, count: int) -> None:
    found = http.get(f"{TOPIC_PATH}/messages?{query}")

    assert found["count"] == len(found["messages"])
    assert found["count"] >= count if count else found["count"] == 0


def test_nothing_is_committed_where_nothing_came(http: HttpClient) -> None:
    http.get(f"{TOPIC_PATH}/messages?count=0&auto_commit=true&consumer_id=nobody")

    assert http.ask("GET", f"{TOPIC_PATH}/consumer-offsets?consumer_id=nobody").status == 404


def signed(**changes: object) -> str:
    now_s = int(time.time())
    claims: dict[str, object] = {
        "jti": "of-a-test", "iss": "iggy.apache.org", "aud": "iggy.apache.org", "sub": "0",
        "iat": now_s, "nbf": now_s, "exp": now_s + 60, **changes,
    }  # fmt: skip
    return jwt.encode(claims, SECRET, algorithm="HS256")


def unsigned() -> str:
    head, claims, _ = signed().split(".")
    none = base64.urlsafe_b64encode(b'{"typ":"JWT","alg":"none"}').decode().rstrip("=")
    assert head != none
    return f"{none}.{claims}."


BAD_HEADERS = {
    "missing": None,
    "empty": "",
    "bare": "Bearer",
    "blank": "Bearer   ",
    "lower case": f"bearer {signed()}",
    "basic": "Basic aWdneTppZ2d5",
    "long": "Bearer " + "x" * 10_000,
    "unsigned": f"Bearer {unsigned()}",
    "another secret": "Bearer " + jwt.encode({"sub": "0"}, "x" * 32, algorithm="HS256"),
    "another algorithm": "Bearer " + jwt.encode({"sub": "0"}, SECRET, algorithm="HS512"),
    "expired": f"Bearer {signed(exp=int(time.time()) - 60)}",
    "expiry as text": f"Bearer {signed(exp='never')}",
    "not yet": f"Bearer {signed(nbf=int(time.time()) + 600)}",
    "another issuer": f"Bearer {signed(iss='somebody')}",
    "another audience": f"Bearer {signed(aud=['somebody'])}",
    "no user": f"Bearer {signed(sub='4711')}",
    "no number": f"Bearer {signed(sub='²')}",
    "another user of that id": f"Bearer {signed(uct=5)}",
    "not ascii": "Bearer \xe4\xf6\xfc",
    "without claims": "Bearer " + jwt.encode({}, SECRET, algorithm="HS256"),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_a_bad_bearer_header_is_a_401_and_is_not_logged(broker: BrokerProcess, name: str) -> None:
    value = BAD_HEADERS[name]
    with http_client(broker, log_in=False) as http:
        answer = http.ask(
            "GET", "/streams", headers={} if value is None else {"Authorization": value}
        )

    assert answer.status == 401
    assert answer.json["id"] in (40, 77)
    secret = (value or "").removeprefix("Bearer ")
    assert len(secret) < 20 or secret not in broker.text()


def test_a_clock_that_differs_a_little_is_allowed_for(broker: BrokerProcess) -> None:
    with http_client(broker, log_in=False) as http:
        for token in (signed(exp=int(time.time()) - 2), signed(nbf=int(time.time()) + 3)):
            http.token = token
            assert http.ask("GET", "/streams").status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404), ("//", 404), ("/streams/", 404), ("/streams//topics", 404),
        ("/streams/../users", 404), ("/streams/%2e%2e/topics", 200), ("/streams/%ff", 400),
        ("/streams/s%00t", 404), ("/%73treams", 404), ("/streams/s/", 404),
        ("/STREAMS", 404), ("/streams/" + "n" * 255, 404), ("/streams/" + "n" * 256, 400),
        ("/streams/s#x", 404), ("/users/login", 405), ("/" + "a/" * 1000, 404),
        ("/streams/+0", 200), ("/streams/00000000000000000000000000000000", 200),
    ],
)  # fmt: skip
def test_paths_are_exact(http: HttpClient, path: str, status: int) -> None:
    assert http.ask("GET", path).status == status


def test_what_is_no_http_gets_an_answer_and_no_more(
    http: HttpClient, broker: BrokerProcess
) -> None:
    for sent in (
        b"\x00" * 300, b"GET / HTTP/9.9\r\n\r\n", b"GET\r\n\r\n", b"NONSENSE" * 2000,
        b"BREW /streams HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /ping HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"POST /streams HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /streams HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ):  # fmt: skip
        with socket.create_connection(("127.0.0.1", http.port), timeout=20) as sock:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda sock=sock: sock.recv(65536), b""))  # type: ignore[misc]
        assert not answer or re.match(rb"HTTP/1\.\d (4|505)", answer), sent[:30]
    assert http.ask("GET", "/ping").body == b"pong"


def test_half_a_request_holds_up_nobody(http: HttpClient) -> None:
    halves = []
    for sent in (b"GET /pi", b"POST /users/login HTTP/1.1\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 100\r\n\r\n{"):  # fmt: skip
        sock = socket.create_connection(("127.0.0.1", http.port), timeout=20)
        sock.sendall(sent)
        halves.append(sock)

    assert http.ask("GET", "/ping").body == b"pong"
    for sock in halves:
        sock.close()


def test_a_client_that_reads_no_answers_gets_no_more_of_them(
    broker: BrokerProcess, http: HttpClient
) -> None:
    http.post(f"{STREAM}/topics", TOPIC | {"name": "large"})
    for _ in range(4):
        http.send(f"{STREAM}/topics/large", b"x" * 1_000_000)
    before = sum(map(anonymous_bytes, broker.shard_pids()))
    head = f"GET {STREAM}/topics/large/messages HTTP/1.1\r\n"
    head += f"Authorization: Bearer {http.token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", http.port), timeout=20) as sock:
        sock.sendall(head.encode() * 30)  # 160 MB of answers
        for _ in range(30):
            assert http.ask("GET", "/ping").status == 200
            http.payloads(f"{STREAM}/topics/large", "count=1")
        grown = sum(map(anonymous_bytes, broker.shard_pids())) - before
    assert grown < 48 << 20, "about three answers and their pieces"


def test_too_many_writes_of_one_token_are_put_off(broker: BrokerProcess) -> None:
    """Password hashes take their time: so many logins' users wait, and the 33rd is refused."""
    with http_client(broker) as http:
        body = json.dumps({"username": "u", "password": PASSWORD, "status": "weird"}).encode()
        assert http.ask("POST", "/users", raw=body, headers=JSON).status == 422
        socks = []
        for number in range(40):
            user = {"username": f"slow-{number}", "password": PASSWORD, "status": "active"}
            body = json.dumps(user).encode()
            sock = socket.create_connection(("127.0.0.1", http.port), timeout=20)
            sock.sendall(
                b"POST /users HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                b"Authorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
                % (str(http.token).encode(), len(body), body)
            )
            socks.append(sock)
        answers = [sock.recv(65536) for sock in socks]
        for sock in socks:
            sock.close()

    kinds = {answer[9:12] for answer in answers}
    assert kinds <= {b"200", b"429"}
    for answer in answers:
        if answer[9:12] == b"429":
            assert b"too_many_in_flight_writes" in answer
            assert b"retry-after: 1" in answer.lower()


def raw_request(http: HttpClient, method: bytes, path: str, head: bytes, body: bytes) -> bytes:
    """All that comes back on a connection of its own, which we end."""
    with socket.create_connection(("127.0.0.1", http.port), timeout=20) as sock:
        sock.sendall(raw_head(http, method, path, head))
        with suppress(BrokenPipeError, ConnectionResetError):  # it has seen enough
            sock.sendall(body)
        found = b""
        with suppress(ConnectionResetError):
            while data := sock.recv(65536):
                found += data
        return found


def raw_head(http: HttpClient, method: bytes, path: str, head: bytes) -> bytes:
    """All of a request but its body."""
    return (
        b"%b %b HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nAuthorization: Bearer %b\r\n%b\r\n\r\n"
        % (method, path.encode(), str(http.token).encode(), head)
    )
