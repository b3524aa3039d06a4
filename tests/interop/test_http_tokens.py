"""Tokens over HTTP: on every shard, after a logout, a restart, another password; and HTTPS."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from http_client import HttpClient, http_client
from iggy_client import Client, ClientError
from iggy_wire.errors import ErrorCode

CONNECTIONS = 20  # the kernel spreads them over the shards: that all are on one is unlikely
LOGINS = 50  # at the same time
USER = {"username": "somebody", "password": "secret", "status": "active"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("tokens")
    with running_broker(folder, shards=2, transports=["http"]) as running:
        yield running


def statuses(broker: BrokerProcess, token: str) -> set[int]:
    """What many connections are answered with this token."""
    with contextlib.ExitStack() as stack:
        found = set()
        for _ in range(CONNECTIONS):
            client = HttpClient(broker.ports["http"], token)
            stack.callback(client.close)
            found.add(client.ask("GET", "/users/me").status)
        return found


def test_a_login_counts_on_every_shard_and_so_does_its_end(broker: BrokerProcess) -> None:
    with http_client(broker) as one, http_client(broker) as other:
        assert one.token is not None
        assert statuses(broker, one.token) == {200}

        assert one.ask("DELETE", "/users/logout").status == 204

        assert statuses(broker, one.token) == {401}
        assert other.ask("GET", "/users/me").status == 200, "another login of the same user"
        assert one.ask("POST", "/users/refresh-token", {"token": one.token}).error == (401, 40)


def test_tokens_and_logouts_outlive_a_restart(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, shards=2, transports=["http"]).start()
    try:
        with http_client(broker) as kept, http_client(broker) as ended:
            good, bad = str(kept.token), str(ended.token)
            assert ended.ask("DELETE", "/users/logout").status == 204
        for end in (broker.stop, broker.kill):
            end()
            broker.start()
            assert statuses(broker, good) == {200}
            assert statuses(broker, bad) == {401}
        for name in ("jwt.key", "revoked_tokens"):
            mode = os.stat(broker.data / "runtime" / name).st_mode
            assert stat.S_IMODE(mode) == 0o600
    finally:
        broker.end()


def test_in_strict_mode_tokens_die_with_the_broker_and_no_logout_counts(
    tmp_path: Path,
) -> None:
    settings = {"IGGY_HTTP_STRICT_COMPAT": "true"}
    broker = BrokerProcess(tmp_path, shards=2, transports=["http"], settings=settings).start()
    try:
        with http_client(broker) as client:
            token = str(client.token)
            assert client.ask("DELETE", "/users/logout").status == 204
            assert statuses(broker, token) == {200}
        broker.stop()
        broker.start()
        assert statuses(broker, token) == {401}
    finally:
        broker.end()


def test_a_personal_token_works_everywhere_until_it_is_deleted(
    broker: BrokerProcess,
) -> None:
    def logs_in(token: str) -> bool:
        try:
            with Client(broker.address, timeout_s=20.0) as client:
                client.login_with_token(token)
                return True
        except ClientError as refused:
            assert refused.code == ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN
            return False

    with (
        http_client(broker) as root,
        http_client(broker, log_in=False) as stranger,
        ThreadPoolExecutor(LOGINS) as pool,
    ):
        made = root.post("/personal-access-tokens", {"name": "everywhere", "expiry": 0})["token"]
        assert list(pool.map(logs_in, [made] * LOGINS)) == [True] * LOGINS
        assert statuses(broker, made) == {200}
        by_token = stranger.post("/personal-access-tokens/login", {"token": made})
        assert by_token["user_id"] == 0
        assert root.ask("POST", "/users/refresh-token", {"token": made}).error == (401, 40)

        with broker.client() as admin:
            admin.delete_access_token("everywhere")

        assert list(pool.map(logs_in, [made] * LOGINS)) == [False] * LOGINS
        assert statuses(broker, made) == {401}
        assert statuses(broker, by_token["access_token"]["token"]) == {200}, "a login of its own"


def test_a_token_is_good_for_the_user_that_it_was_given_to_only(broker: BrokerProcess) -> None:
    with http_client(broker) as root, http_client(broker, log_in=False) as own:
        user_id = root.post("/users", USER)["id"]
        own.log_in("somebody", "secret")
        assert own.ask("GET", "/users/me").status == 200

        assert root.ask("PUT", "/users/somebody", {"status": "inactive"}).status == 204
        assert own.ask("GET", "/users/me").error == (401, 40)
        assert root.ask("PUT", "/users/somebody", {"status": "active"}).status == 204
        assert own.ask("GET", "/users/me").status == 200

        assert root.ask("DELETE", "/users/somebody").status == 204
        assert own.ask("GET", "/users/me").error == (401, 40)
        assert root.post("/users", USER | {"username": "another"})["id"] == user_id
        assert own.ask("GET", "/users/me").error == (401, 40)
        assert root.ask("DELETE", "/users/another").status == 204


def test_a_failed_login_tells_nothing(broker: BrokerProcess) -> None:
    with http_client(broker, log_in=False) as http:
        answers = [
            http.ask("POST", "/users/login", {"username": name, "password": password})
            for name, password in (
                (USERNAME, "wrong"), ("nobody", PASSWORD), ("a", PASSWORD), (USERNAME, ""),
                (USERNAME, "x" * 200), ("x" * 300, "y"),
            )
        ]  # fmt: skip

    assert {answer.body for answer in answers} == {answers[0].body}
    assert answers[0].error == (400, 42)
    assert "wrong" not in broker.text()


def test_https_speaks_tls_only(tmp_path: Path) -> None:
    settings = {"IGGY_HTTP_TLS_ENABLED": "true"}
    with running_broker(tmp_path, shards=1, transports=["http"], settings=settings) as broker:
        port = broker.ports["http"]
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        secure = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        body = json.dumps({"username": USERNAME, "password": PASSWORD})
        secure.request("POST", "/users/login", body, {"Content-Type": "application/json"})
        assert secure.getresponse().status == 200
        secure.close()

        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.request("GET", "/ping")
            plain.getresponse()
        plain.close()
