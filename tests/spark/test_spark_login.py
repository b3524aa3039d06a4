"""How the source logs in: by token, over TLS, and under which name."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iggy_client import Client
from iggy_spark import connections, options
from iggy_spark.connections import Connection
from iggy_spark.errors import BrokerRefused, BrokerUnavailable
from iggy_wire.replies import LoginReply
from tls_front import authority, tls_front

if TYPE_CHECKING:
    from conftest import Topic


def connection(topic: "Topic", **more: str) -> Connection:
    given = {k: v for k, v in topic.options().items() if k not in ("username", "password")}
    return Connection(options.parse({**given, **more}, mode="batch"))


def test_a_token_is_enough_and_may_be_exchanged(topic: "Topic", tmp_path: Path) -> None:
    token = topic.client.create_access_token(f"spark-{topic.stream.replace('/', '-')}")
    state = connection(topic, token=token).topic_state()

    (tmp_path / "token").write_text("not-a-token")
    from_file = connection(topic, credentialsPath=str(tmp_path))
    with pytest.raises(
        BrokerRefused, match="refuses the login: check username and password, or the token"
    ):
        from_file.topic_state()
    (tmp_path / "token").write_text(f"{token}\n")

    assert from_file.topic_state() == state


def test_tls_checks_who_the_broker_is(topic: "Topic", tmp_path: Path) -> None:
    made = authority(tmp_path / "ours", "iggy.internal")
    foreign = authority(tmp_path / "foreign", "iggy.internal")
    with tls_front(topic.address, made) as front:

        def over_tls(**more: str) -> Connection:
            given = {"servers": front.address, "retryTimeoutMs": "10ms", "tls.enabled": "true"}
            login = {k: topic.options()[k] for k in ("username", "password")}
            return connection(topic, **given, **login, **more)

        name = {"tls.serverName": "iggy.internal"}
        good = over_tls(**{"tls.caPath": str(made.certificate)}, **name)
        assert good.topic_state().ends == {0: 0, 1: 0}
        for wrong in (
            {"tls.caPath": str(made.certificate)},
            {"tls.caPath": str(foreign.certificate), **name},
            name,
        ):
            with pytest.raises(BrokerUnavailable, match=r"certificate of .* is not accepted"):
                over_tls(**wrong).topic_state()
        connections.close_all()


def test_the_broker_is_told_who_calls(topic: "Topic", monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def login(self: Client, username: str, password: str, *, context: str) -> LoginReply:
        told.append(context)
        return plain(self, username, password, context=context)

    plain = Client.login
    monkeypatch.setattr(Client, "login", login)
    secret = {k: topic.options()[k] for k in ("username", "password")}

    connection(topic, **secret, clientName="nightly report").topic_state()

    assert told == ["nightly report"]
