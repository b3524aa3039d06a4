"""An IggyBroker of mode External that is spoken to by TLS."""

import json
from pathlib import Path

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess
from fake_broker import ADDRESS
from iggy_client import Tls
from iggy_operator.cluster import Ref
from iggy_operator.launchers.pods import LOGIN_VOLUME
from operator_world import OperatorWorld, run_in
from real_broker_world import run_with
from sink_scene import Scene, sink_of
from tls_front import authority, tls_front

BROKER = Ref("IggyBroker", "shop", "main")
ADDRESSES = {"tcp": ADDRESS, "http": "https://iggy", "credentialsSecretName": "root"}


def give(world: OperatorWorld, **external: object) -> None:
    world.give_broker(external=ADDRESSES | external)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> str:
    return authority(tmp_path_factory.mktemp("authority"), "iggy.example").pem


def test_streams_live_in_a_real_broker_behind_tls(broker: BrokerProcess, tmp_path: Path) -> None:
    made = authority(tmp_path / "made", "broker.example")

    async def scenario(world: OperatorWorld) -> None:
        with tls_front(broker.address, made) as front:
            world.give_secret("authority", **{"ca.crt": made.pem})
            world.give_secret("root", username=USERNAME, password=PASSWORD)
            tls = {"caSecretName": "authority", "tls": {"serverName": "broker.example"}}
            world.cluster.change_spec(BROKER, external=ADDRESSES | {"tcp": front.address} | tls)
            user = world.give_user()
            await world.resync()
            await world.go(70)

            assert world.says(BROKER) == ("True", "Synced"), world.message(BROKER)
            assert world.says(Ref("IggyStream", "shop", "shop")) == ("True", "Synced")
            assert world.says(user) == ("True", "Synced")
            assert front.connections > 0
            await world.pool.keep_only(())

    run_with(broker, scenario)


def test_plain_text_is_spoken_only_where_nothing_says_tls(pem: str) -> None:
    async def scenario(world: OperatorWorld) -> None:
        give(world)
        await world.resync()
        assert world.broker.tls is None

        world.cluster.change_spec(BROKER, external=ADDRESSES | {"tls": {}})
        await world.go(5)
        assert world.broker.tls == Tls()

        world.give_secret("authority", **{"ca.crt": pem})
        world.cluster.change_spec(BROKER, external=ADDRESSES | {"caSecretName": "authority"})
        await world.go(5)
        assert world.broker.tls == Tls(pem)
        assert world.says(BROKER) == ("True", "Synced")

    run_in(scenario)


@pytest.mark.parametrize(
    ("values", "reason", "words"),
    [
        (None, "SecretNotFound", "authority"),
        ({"other": "x"}, "SecretInvalid", "no key ca.crt"),
        ({"ca.crt": "nonsense"}, "SecretInvalid", "holds no certificate"),
    ],
    ids=["missing", "without the key", "no certificate"],
)
def test_an_authority_that_is_no_use_is_told_and_picked_up_when_it_is_right(
    values: dict[str, str] | None, reason: str, words: str, pem: str
) -> None:
    async def scenario(world: OperatorWorld) -> None:
        if values is not None:
            world.give_secret("authority", **values)
        give(world, caSecretName="authority")
        await world.resync()

        assert world.says(BROKER) == ("False", reason)
        assert words in world.message(BROKER)
        assert world.broker.attempts == 0
        world.give_secret("authority", **{"ca.crt": pem})
        await world.go(130)
        assert world.says(BROKER) == ("True", "Synced")

    run_in(scenario)


def test_a_renewed_authority_is_taken_over_within_two_minutes(pem: str, tmp_path: Path) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_secret("authority", **{"ca.crt": pem})
        give(world, caSecretName="authority")
        user = world.give_user()
        world.give_stream()
        await world.resync()
        renewed = authority(tmp_path, "iggy.example").pem

        world.give_secret("authority", **{"ca.crt": renewed})
        await world.go(120)

        assert world.broker.tls == Tls(renewed)
        assert world.says(user) == ("True", "Synced")
        assert world.secret("fraud-iggy", "ca.crt") == renewed

    run_in(scenario)


def test_programs_find_the_authority_and_the_name_in_their_secret(pem: str) -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_secret("authority", **{"ca.crt": pem})
        give(world, caSecretName="authority", tls={"serverName": "iggy.example"})
        world.give_user()
        await world.resync()
        await world.go(70)

        assert world.secret("fraud-iggy", "ca.crt") == pem
        uri = world.secret("fraud-iggy", "uri")
        assert uri.startswith("iggy://fraud:")
        assert uri.endswith(f"@{ADDRESS}?tls=true&tls_domain=iggy.example")

    run_in(scenario)


def test_a_sink_reads_from_a_broker_that_is_spoken_to_in_plain_text() -> None:
    async def scenario(world: OperatorWorld) -> None:
        scene = Scene(world)
        give(world)
        world.give_stream()
        world.give_topic()
        await world.resync()
        world.cluster.put(sink_of())
        await scene.go(60)

        assert scene.says() == ("True", "Running")
        (name,) = world.cluster.names("ConfigMap")
        job = world.cluster.objects[Ref("ConfigMap", "shop", name)]["data"]["job.json"]
        assert ADDRESS in job

    run_in(scenario)


@pytest.mark.parametrize("has_authority", [True, False], ids=["ours", "the system's"])
def test_a_sink_reads_from_a_broker_over_tls(pem: str, has_authority: bool) -> None:
    async def scenario(world: OperatorWorld) -> None:
        scene = Scene(world)
        world.give_secret("authority", **{"ca.crt": pem})
        tls = {"serverName": "iggy.example"} if has_authority else {}
        give(world, tls=tls, **({"caSecretName": "authority"} if has_authority else {}))
        world.give_stream()
        world.give_topic()
        await world.resync()
        world.cluster.put(sink_of())
        await scene.go(60)

        assert scene.says() == ("True", "Running")
        (name,) = world.cluster.names("ConfigMap")
        job = json.loads(world.cluster.objects[Ref("ConfigMap", "shop", name)]["data"]["job.json"])
        (application,) = scene.launchers.applications()
        volumes = application["spec"]["template"]["spec"]["volumes"]
        (login,) = [one["secret"]["items"] for one in volumes if one["name"] == LOGIN_VOLUME]
        keys = [item["key"] for item in login]
        if has_authority:
            expected = {"caPath": "/etc/iggy/ca.crt", "serverName": "iggy.example"}
            assert (job["broker"]["tls"], keys) == (expected, ["username", "password", "ca.crt"])
        else:
            assert (job["broker"]["tls"], keys) == ({}, ["username", "password"])

    run_in(scenario)
