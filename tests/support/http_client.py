"""A plain HTTP client of the broker: one connection, JSON bodies, a bearer token."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from broker_process import PASSWORD, USERNAME, BrokerProcess

TIMEOUT_S = 20.0
TOPIC = {
    "partitions_count": 1,
    "compression_algorithm": "none",
    "message_expiry": 0,
    "max_topic_size": 0,
}


@dataclass(frozen=True)
class Answer:
    """What came back; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, int]:
        """Status and the id of the error."""
        return self.status, self.json["id"]


class HttpClient:
    """Talks to one shard for as long as its connection lives."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self.port = port
        self.token = token
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request. `body` goes as JSON; `raw` as it is, without a type, and parts in chunks."""
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            raw = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        self._connection.request(method, path, raw, sent)
        response = self._connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer)
        return answer.json

    def post(self, path: str, body: Any) -> Any:
        """The JSON of a POST that must succeed."""
        answer = self.ask("POST", path, body)
        assert answer.status in (200, 201), (path, answer)
        return answer.json if answer.body else None

    def log_in(self, username: str = USERNAME, password: str = PASSWORD) -> HttpClient:
        """Ask with a token of this user from now on."""
        self.token = None
        asked = {"username": username, "password": password}
        self.token = self.post("/users/login", asked)["access_token"]["token"]
        return self

    def send(self, topic: str, *payloads: bytes, partition: int = 0) -> Any:
        """Send to a partition of `/streams/s/topics/t`."""
        return self.post(f"{topic}/messages", sending(*payloads, partition=partition))

    def payloads(self, topic: str, query: str = "") -> list[bytes]:
        """Poll."""
        found = self.get(f"{topic}/messages?{query}")["messages"]
        return [base64.b64decode(one["payload"]) for one in found]

    def close(self) -> None:
        self._connection.close()


def sending(*payloads: bytes, partition: int = 0) -> dict[str, Any]:
    """The body of a send."""
    where = base64.b64encode(partition.to_bytes(4, "little")).decode()
    return {
        "partitioning": {"kind": "partition_id", "value": where},
        "messages": [{"payload": base64.b64encode(one).decode()} for one in payloads],
    }


@contextmanager
def http_client(broker: BrokerProcess, *, log_in: bool = True) -> Iterator[HttpClient]:
    """A connection for the length of a block, by default as root."""
    client = HttpClient(broker.ports["http"])
    try:
        yield client.log_in() if log_in else client
    finally:
        client.close()
