"""A managed broker with `listeners.tls`: its Secret, what waits for it, who trusts what."""

import datetime
from typing import Any

import pytest

from iggy_client import Tls
from iggy_operator.cluster import Ref
from managed_world import BROKER, POD, STATEFUL_SET, ManagedWorld, run_managed, started
from server_certificates import authority, server_secret

HOST = "main.shop.svc"
SERVICE = Ref("Service", "shop", "main")
PLAIN: dict[str, Any] = {"serviceType": "ClusterIP", "tcpPort": 8090, "httpPort": 3000}
TLS: dict[str, Any] = PLAIN | {"tls": {"secretName": "main-tls"}}
START = datetime.datetime.fromtimestamp(1_800_000_000, datetime.UTC)  # where the clock stands


def secret(*names: str, **wishes: Any) -> dict[str, str]:
    return server_secret(*(names or (HOST,)), now=START, **wishes)


def certificate(world: ManagedWorld) -> tuple[str, str]:
    return world.says(BROKER, "CertificateReady")


def test_a_broker_serves_a_certificate_and_the_operator_trusts_its_authority() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("main-tls", **secret())
        listeners = TLS | {"websocketPort": 8092, "quicPort": 18080}
        await started(world, listeners=listeners)
        user = world.give_user()
        await world.go(70)

        assert world.broker.tls == Tls(authority().pem)
        assert certificate(world) == ("True", "Synced")
        status = world.status(BROKER)
        assert status["endpoints"] == {
            "tcp": f"{HOST}:8090",
            "http": f"https://{HOST}:3000",
            "websocket": f"{HOST}:8092",
            "quic": f"{HOST}:18080",
        }
        assert status["certificate"] == {
            "secretName": "main-tls",
            "names": [HOST],
            "notAfter": "2027-01-17T08:00:00Z",
        }
        assert world.says(user) == ("True", "Synced")
        assert world.secret("fraud-iggy", "uri").endswith(f"@{HOST}:8090?tls=true")
        assert world.secret("fraud-iggy", "ca.crt") == authority().pem

    run_managed(scenario)


@pytest.mark.parametrize(
    ("values", "reason", "words"),
    [
        (None, "SecretNotFound", "no Secret main-tls in namespace shop: make it"),
        (secret() | {"tls.key": ""}, "SecretInvalid", "Secret main-tls: it has no key tls.key"),
        (secret(hours=-2), "SecretInvalid", "Secret main-tls: tls.crt ended at"),
    ],
    ids=["missing", "without a key", "ended"],
)
def test_no_pod_starts_and_none_is_restarted_before_the_certificate_is_right(
    values: dict[str, str] | None, reason: str, words: str
) -> None:
    async def scenario(world: ManagedWorld) -> None:
        if values is not None:
            world.give_secret("main-tls", **values)
        world.give_managed(listeners=TLS)
        await world.resync()
        assert world.says(BROKER) == certificate(world) == ("False", reason)
        assert words in world.message(BROKER)
        assert world.sets.started == []

        world.cluster.change_spec(BROKER, listeners=PLAIN)
        await world.go(70)
        assert world.says(BROKER) == ("True", "Synced")
        assert world.message(BROKER, "CertificateReady").startswith("listeners.tls is not set")
        pod = world.uid(POD)

        world.cluster.change_spec(BROKER, listeners=TLS, image="other:1")
        await world.go(70)
        assert world.uid(POD) == pod
        assert world.says(BROKER) == ("True", "Synced"), "it serves on, in plain text"
        assert world.broker.tls is None
        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")
        assert certificate(world) == ("False", reason)
        assert words in world.message(BROKER, "ConfigApplied")

        world.give_secret("main-tls", **secret())
        await world.go(70)
        assert world.uid(POD) != pod
        assert world.says(BROKER) == certificate(world) == ("True", "Synced")
        assert world.status(BROKER)["restart"]["pending"] is False
        assert world.broker.tls == Tls(authority().pem)

    run_managed(scenario)


def test_a_renewed_certificate_needs_no_restart_and_a_bad_one_keeps_the_former() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("main-tls", **secret())
        await started(world, listeners=TLS)
        pod = world.uid(POD)

        world.give_secret("main-tls", **secret() | {"tls.key": "nonsense"})
        await world.go(130)
        assert certificate(world) == ("False", "SecretInvalid")
        assert world.says(BROKER) == ("True", "Synced"), "the broker keeps what it has read"
        assert world.broker.tls == Tls(authority().pem)
        # Hibernating it is no start, and waking it up is one.
        world.cluster.change_spec(BROKER, hibernate=True)
        await world.go(10)
        assert POD not in world.cluster.objects
        world.cluster.change_spec(BROKER, hibernate=False)
        await world.go(70)
        assert POD not in world.cluster.objects
        assert world.says(BROKER) == ("False", "SecretInvalid")

        world.give_secret("main-tls", **secret("iggy.example", by="renewed"))
        await world.go(130)
        assert certificate(world) == world.says(BROKER) == ("True", "Synced")
        assert world.broker.tls == Tls(authority("renewed").pem, "iggy.example")
        assert len(world.sets.started) == 2
        assert world.uid(POD) != pod

    run_managed(scenario)


def test_a_renewed_authority_is_trusted_without_a_restart() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("main-tls", **secret(by=""))
        await started(world, listeners=TLS)
        pod = world.uid(POD)
        renewed = secret(by="")

        world.give_secret("main-tls", **renewed)
        await world.go(130)

        assert world.broker.tls == Tls(renewed["tls.crt"])
        assert world.uid(POD) == pod

    run_managed(scenario)


def test_another_secret_may_hold_the_authority() -> None:
    async def scenario(world: ManagedWorld) -> None:
        values = secret(by="elsewhere")
        del values["ca.crt"]
        world.give_secret("main-tls", **values)
        tls = TLS["tls"] | {"caSecretName": "trusted"}
        world.give_managed(listeners=PLAIN | {"tls": tls})
        await world.resync()
        await world.go(10)
        assert world.says(BROKER) == ("False", "SecretNotFound")
        assert "Secret trusted" in world.message(BROKER)

        world.give_secret("trusted", **{"ca.crt": authority("elsewhere").pem})
        await world.go(130)
        assert world.says(BROKER) == ("True", "Synced")
        assert world.broker.tls == Tls(authority("elsewhere").pem)

    run_managed(scenario)


def test_what_waits_for_a_restart_is_not_asked_for_yet() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_secret("main-tls", **secret())
        await started(world, updateStrategy="OnDelete")
        world.cluster.change_spec(BROKER, listeners=TLS)
        await world.go(130)
        assert world.broker.tls is None
        assert world.says(BROKER) == ("True", "Synced")
        assert world.status(BROKER)["endpoints"]["http"] == f"http://{HOST}:3000"

        world.cluster.annotate(BROKER, "restart-at", "2026-05-01T12:00:00Z")
        await world.go(130)

        assert world.broker.tls is not None
        assert world.status(BROKER)["endpoints"]["http"] == f"https://{HOST}:3000"

    run_managed(scenario)


def test_a_transport_comes_with_a_restart_and_another_number_without() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.uid(POD)
        world.cluster.change_spec(BROKER, listeners=PLAIN | {"websocketPort": 8092})
        await world.go(70)
        moved = world.uid(POD)
        assert moved != pod

        world.cluster.change_spec(BROKER, listeners=PLAIN | {"websocketPort": 18092})
        await world.go(70)

        ports = {item["name"]: item["port"] for item in world.spec(SERVICE)["ports"]}
        assert ports == {"tcp": 8090, "http": 3000, "websocket": 18092}
        assert world.uid(POD) == moved
        assert STATEFUL_SET in world.cluster.objects
        assert world.status(BROKER)["endpoints"]["websocket"] == f"{HOST}:18092"

    run_managed(scenario)
