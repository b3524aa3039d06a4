"""Tokens of another issuer, whose keys the broker fetches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_process import BrokerProcess, running_broker
from http_client import HttpClient, http_client
from token_issuer import AUDIENCE, ISSUER, KeyServer, TokenIssuer

USER = {"username": "somebody", "password": "secret", "status": "active"}


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    made = TokenIssuer()
    made.ec("one")
    return made


@pytest.fixture(scope="module")
def keys(issuer: TokenIssuer) -> Iterator[KeyServer]:
    with KeyServer(issuer) as serving:
        yield serving


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, keys: KeyServer) -> Iterator[BrokerProcess]:
    trusted = {"ISSUER": ISSUER, "AUDIENCE": AUDIENCE, "JWKS_URL": keys.url, "USER_ID": "1"}
    settings = {f"IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_{name}": text for name, text in trusted.items()}
    folder = tmp_path_factory.mktemp("issuers")
    with running_broker(folder, settings=settings, transports=["http"]) as running:
        yield running


def status(broker: BrokerProcess, token: str) -> int:
    """What it may see with this token, on a new connection."""
    client = HttpClient(broker.ports["http"], token)
    try:
        return client.ask("GET", "/users/1").status
    finally:
        client.close()


def test_its_tokens_act_as_the_user_until_they_are_logged_out(
    broker: BrokerProcess, issuer: TokenIssuer, keys: KeyServer
) -> None:
    token, another = issuer.token("one", jti="1"), issuer.token("one", jti="1", more="x")
    with http_client(broker) as root:
        assert status(broker, token) == 401, "the user is not there yet"
        assert root.ask("POST", "/users", USER).json["id"] == 1
        assert status(broker, token) == 200
        assert status(broker, issuer.token("one", aud="another")) == 401
        stranger = TokenIssuer()
        stranger.ec("two")
        assert {status(broker, stranger.token("two")) for _ in range(8)} == {401}
        assert keys.asked <= broker.shards, "no more than once each"

        refresh = {"token": token}
        assert root.ask("POST", "/users/refresh-token", refresh).error == (401, 78)
        somebody = HttpClient(broker.ports["http"], token)
        assert somebody.ask("POST", "/streams", {"name": "mine"}).status == 403
        assert somebody.ask("DELETE", "/users/logout").status == 204
        somebody.close()
        assert {status(broker, token) for _ in range(8)} == {401}
        assert status(broker, another) == 200

        assert root.ask("PUT", "/users/1", {"status": "inactive"}).status == 204
        assert status(broker, another) == 401
    assert token not in broker.text()
    assert token.rpartition(".")[2] not in broker.text()
