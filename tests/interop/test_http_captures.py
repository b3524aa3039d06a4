"""The recorded exchanges of the original's HTTP API, replayed in their order on one broker.

With `http.strict_compat`, since that restores what we do otherwise on purpose.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jwt
import pytest

from broker_process import BrokerProcess, running_broker
from http_captures import FOLDER, Capture, differences, recorded
from http_client import TOPIC, Answer, HttpClient, sending
from iggy_client import Client
from iggy_wire.primitives import partition_of_key

PASSWORD = "iggy"  # as recorded
LARGE = json.dumps({"messages": "A" * 2_000_180}).encode()

# Those of encryption need brokers of their own; the others are our choices also in strict mode.
ELSEWHERE = {
    "610_poll_wrong_encryption_key": "below, since it needs a second start",
    "611_poll_encryption_off": "we serve no ciphertext: it is refused like that of another key",
    "612_poll_decrypted": "below",
}
OURS = {
    "431_snapshot_all": ["iggy-view"],  # recorded without its headers
    "484_unknown_query_ignored": ["[0].size", "[0].messages_count"],  # more was sent before it
    # A 0 that was asked for later shows up as the text of an option there, and changes nothing.
    "137_topic_after_server_default": [".options.max_topic_size", ".options.message_expiry"],
    "146_topic_after_partitions": [".options.max_topic_size", ".options.message_expiry"],
    "3811_scoped_get_streams_0": [".topics[0].options.max", ".topics[0].options.message"],
    "3812_scoped_get_streams_orders_topics": ["[0].options.max", "[0].options.message"],
    "3813_scoped_get_streams_orders_topics_events": [".options.max", ".options.message"],
}

needs_captures = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs ../shared/spec/captures/http, which is not here"
)
pytestmark = needs_captures


class Replay:
    """Who asks what, in the order of the recording."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.http = HttpClient(broker.ports["http"])
        self.tokens = {"root": self.token_of("iggy", PASSWORD)}
        self.pats: dict[str, str] = {}
        self.times: dict[str, int] = {}
        self.member: Client | None = None
        self.before: dict[str, Callable[[], None]] = {
            "3700": lambda: self.keep("alice", "secret2"),
            "460": lambda: self.keep("dave", "secret"),
            "470": self.delete_temp,
            "496": lambda: self.free("charset"),
            "500": self.join,
            "504": self.reuse_temp,
            "505": self.stop_dave,
        }

    def ask(self, capture: Capture) -> Answer:
        number = capture.name.split("_")[0]
        if number in self.before:
            self.before[number]()
        headers = dict(capture.headers)
        if number == "032":
            headers["Authorization"] = f"bearer {self.tokens['root']}"
        if headers.get("Authorization") == "Bearer <token>" or self.lacks_its_token(capture):
            headers["Authorization"] = f"Bearer {self.asker(number)}"
        answer = self.http.ask(
            capture.method, self.path(capture), raw=self.body(capture), headers=headers
        )
        if capture.path == "/personal-access-tokens" and answer.status == 200 and capture.body:
            self.pats[json.loads(capture.body)["name"]] = answer.json["token"]
        return answer

    def lacks_its_token(self, capture: Capture) -> bool:
        """Recorded by another program, which left the headers out."""
        return capture.name == "431_snapshot_all"

    def asker(self, number: str) -> str:
        by_number = {"031": "rubbish", "411": self.pats.get("never", "")}
        if number in by_number:
            return by_number[number]
        name = "root"
        if number.startswith(("37", "381")) and len(number) == 4:
            name = "alice"
        elif number in ("460", "461", "505"):
            name = "dave"
        elif number in ("470", "471", "472", "504"):
            name = "temp"
        return self.tokens[name]

    def path(self, capture: Capture) -> str:
        """With times and numbers of this run."""
        if capture.name.startswith(("253", "255")):
            _, _, after = capture.path.partition("value=")
            found = self.root("GET", "/streams/orders/topics/events/messages?partition_id=0").json
            times = [one["header"]["timestamp"] for one in found["messages"]]
            # The recording asks for the time of the message at offset 3, and for a later one.
            time_us = times[3] if capture.name.startswith("253") else times[-1] + 1
            return capture.path.replace(after.partition("&")[0], str(time_us))
        if capture.name.startswith("501"):
            (client,) = self.root("GET", "/clients").json
            return f"/clients/{client['client_id']}"
        return capture.path

    def body(self, capture: Capture) -> bytes | None:
        body = capture.body
        if body is not None and body.endswith(b" bytes>"):
            return LARGE
        if body is None:
            return None
        expired, never = self.pats.get("short", ""), self.pats.get("never", "")
        for placeholder, token in (
            (b'"<jwt>"', self.tokens["root"]), (b'"<pat>"', never), (b'"<expired pat>"', expired),
        ):  # fmt: skip
            body = body.replace(placeholder, json.dumps(token).encode())
        return body

    def root(self, method: str, path: str, body: object = None) -> Answer:
        headers = {"Authorization": f"Bearer {self.tokens['root']}"}
        return self.http.ask(method, path, body, headers=headers)

    def token_of(self, name: str, password: str) -> str:
        answer = self.http.ask("POST", "/users/login", {"username": name, "password": password})
        return str(answer.json["access_token"]["token"])

    def keep(self, name: str, password: str) -> None:
        self.tokens[name] = self.token_of(name, password)

    def delete_temp(self) -> None:
        self.make("temp")
        self.keep("temp", "secret")
        assert self.root("DELETE", "/users/temp").status == 204

    def reuse_temp(self) -> None:
        assert self.make("reused") == self.user_in(self.tokens["temp"])

    def make(self, name: str) -> int:
        user = {"username": name, "password": "secret", "status": "active"}
        return int(self.root("POST", "/users", user).json["id"])

    def user_in(self, token: str) -> int:
        return int(jwt.decode(token, options={"verify_signature": False})["sub"])

    def free(self, stream: str) -> None:
        """The number of a stream, for the next one."""
        assert self.root("DELETE", f"/streams/{stream}").status == 204

    def stop_dave(self) -> None:
        assert self.root("PUT", "/users/dave", {"status": "inactive"}).status == 204

    def join(self) -> None:
        self.member = Client.connect(self.broker.address, "iggy", PASSWORD, timeout_s=20.0)
        self.member.join_group("orders", "events", "workers")


@contextmanager
def replaying(broker: BrokerProcess) -> Iterator[Replay]:
    replay = Replay(broker)
    try:
        yield replay
    finally:
        replay.http.close()
        if replay.member is not None:
            replay.member.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "IGGY_ROOT_PASSWORD": PASSWORD,
        "IGGY_HTTP_STRICT_COMPAT": "true",
        "IGGY_HTTP_WEB_UI": "false",  # the original's default
    }
    folder = tmp_path_factory.mktemp("captures")
    with running_broker(folder, shards=2, transports=["http"], settings=settings) as running:
        yield running


def test_every_recorded_exchange_is_answered_alike(broker: BrokerProcess) -> None:
    found = {}
    captures = [one for one in recorded() if one.name not in ELSEWHERE]
    with replaying(broker) as replay:
        for capture in captures:
            differs = differences(capture, replay.ask(capture))
            known = tuple(OURS.get(capture.name, ()))
            left = [line for line in differs if not (known and line.startswith(known))]
            if left:
                found[capture.name] = left

    assert not found, "\n".join(f"{name}: {lines[:4]}" for name, lines in found.items())
    assert len(captures) > 280, "all of them"


def test_a_token_says_what_was_recorded(broker: BrokerProcess) -> None:
    wanted = json.loads((FOLDER / "011_jwt_decoded.json").read_text())
    with replaying(broker) as replay:
        token = replay.tokens["root"]

    claims = jwt.decode(token, options={"verify_signature": False})

    assert jwt.get_unverified_header(token) == wanted["header"]
    assert claims.keys() == wanted["claims"].keys() | {"uct"}
    assert {name: claims[name] for name in ("iss", "aud", "sub")} == {
        name: wanted["claims"][name] for name in ("iss", "aud", "sub")
    }
    assert claims["exp"] - claims["iat"] == 3600


def test_keys_go_to_the_recorded_partitions(broker: BrokerProcess) -> None:
    http = HttpClient(broker.ports["http"]).log_in("iggy", PASSWORD)
    http.post("/streams", {"name": "keys"})
    for count in (3, 4):
        topic = TOPIC | {"name": f"of-{count}", "partitions_count": count}
        http.post("/streams/keys/topics", topic)
    vectors = json.loads((FOLDER / "600_message_key_vectors.json").read_text())

    for row in vectors["rows"]:
        for count in (3, 4):
            body = {
                "partitioning": {"kind": "messages_key", "value": row["key_base64"]},
                "messages": [{"payload": "eA=="}],
            }
            (sent,) = http.post(f"/streams/keys/topics/of-{count}/messages", body)["confirmations"]
            key = base64.b64decode(row["key_base64"])
            assert sent["partition_id"] == row[f"partition_of_{count}"]
            assert sent["partition_id"] == partition_of_key(key, count)
    http.close()


def test_encrypted_messages_are_answered_as_recorded(tmp_path: Path) -> None:
    by_name = {one.name: one for one in recorded()}
    plain, refused = by_name["612_poll_decrypted"], by_name["610_poll_wrong_encryption_key"]
    (message,) = plain.response["body"]["messages"]
    body = sending(b"")
    body["messages"] = [{name: message[name] for name in ("payload", "user_headers")}]
    settings = {
        "IGGY_ROOT_PASSWORD": PASSWORD,
        "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
        "IGGY_HTTP_STRICT_COMPAT": "true",
    }
    broker = BrokerProcess(tmp_path, shards=1, transports=["http"], settings=settings)
    try:
        for key, wanted in ((b"a", plain), (b"b", refused)):
            broker.settings["IGGY_SYSTEM_ENCRYPTION_KEY"] = base64.b64encode(key * 32).decode()
            broker.start()
            http = HttpClient(broker.ports["http"]).log_in("iggy", PASSWORD)
            if wanted is plain:
                http.post("/streams", {"name": "r"})
                http.post("/streams/r/topics", TOPIC | {"name": "enc"})
                http.post("/streams/r/topics/enc/messages", body)
            answer = http.ask("GET", wanted.path)
            http.close()
            broker.stop()
            bare = replace(wanted, response=wanted.response | {"headers": None})  # not all of them
            assert differences(bare, answer) == []
    finally:
        broker.end()
