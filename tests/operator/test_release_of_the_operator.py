"""What the operator's installation brings along: default broker, pulling, restarts on upgrade."""

from dataclasses import replace

import pytest

from desired_cases import NEXT_RELEASE, RELEASE, broker_of, children_of
from iggy_operator.cluster import InvalidError, Ref
from managed_world import BROKER, POD, ManagedWorld, run_managed, started
from planted_faults import Killed, Made

HASTY = replace(NEXT_RELEASE, restart_on_upgrade=True)
NAMES = ("main", "other", "third")


def upgrade(world: ManagedWorld, **fields: object) -> None:
    world.product = replace(HASTY, **fields)  # type: ignore[arg-type]
    world.start()


def image_of(world: ManagedWorld, name: str) -> str:
    spec = world.spec(Ref("Pod", "shop", f"{name}-0"))
    return str(spec["containers"][0]["image"])


def test_images_are_pulled_as_the_installation_says_unless_the_broker_says_otherwise() -> None:
    release = replace(RELEASE, image_pull_policy="Always", image_pull_secrets=("mirror", "own"))
    own = {"imagePullSecrets": [{"name": "own"}]}

    plain = children_of(broker_of(), release)["StatefulSet"]["spec"]["template"]["spec"]
    special = broker_of(imagePullPolicy="Never", podTemplate=own)
    given = children_of(special, release)["StatefulSet"]["spec"]["template"]["spec"]

    assert plain["containers"][0]["imagePullPolicy"] == "Always"
    assert plain["imagePullSecrets"] == [{"name": "mirror"}, {"name": "own"}]
    assert given["containers"][0]["imagePullPolicy"] == "Never"
    assert given["imagePullSecrets"] == [{"name": "own"}, {"name": "mirror"}]


def test_the_default_broker_is_as_the_installation_says() -> None:
    async def scenario(world: ManagedWorld) -> None:
        wanted = {"storage": {"size": "3Gi"}, "shards": {"count": 2}}
        world.product = replace(RELEASE, default_broker=wanted)
        world.start()
        stream = world.give_stream(brokerRef={"name": "iggy"})
        await world.resync()
        await world.go(130)

        assert world.says(stream) == ("True", "Synced")
        spec = world.spec(Ref("IggyBroker", "shop", "iggy"))
        assert (spec["storage"]["size"], spec["shards"]["count"]) == ("3Gi", 2)

    run_managed(scenario)


def test_a_default_broker_that_somebody_deletes_stays_away() -> None:
    async def scenario(world: ManagedWorld) -> None:
        broker = Ref("IggyBroker", "shop", "iggy")
        world.start()
        stream = world.give_stream(brokerRef={"name": "iggy"})
        await world.resync()
        await world.go(130)
        assert world.says(stream) == ("True", "Synced")

        world.cluster.remove(broker)
        await world.go(130)

        assert world.cluster.names("IggyBroker") == []
        assert world.says(stream) == ("False", "BrokerNotFound")
        other = world.give_stream("blog", brokerRef={"name": "iggy"})
        await world.resync()
        await world.go(130)
        assert world.says(other) == ("True", "Synced"), "who has never been in one gets one"

    run_managed(scenario)


def test_a_default_broker_that_the_api_server_refuses_is_said() -> None:
    async def scenario(world: ManagedWorld) -> None:
        def refuse(call: Made) -> Exception | None:
            is_broker = call.verb == "create" and "IggyBroker" in call.what
            return InvalidError("spec.storage: must be an object") if is_broker else None

        world.faults.fail = refuse
        stream = world.give_stream(brokerRef={"name": "iggy"})
        await world.resync()

        assert world.says(stream) == ("False", "Unsupported")
        assert "default broker" in world.message(stream)
        assert "spec.storage" in world.message(stream)
        world.faults.fail = lambda call: None
        await world.go(130)
        assert world.says(stream) == ("True", "Synced")

    run_managed(scenario)


async def three(world: ManagedWorld) -> None:
    for name in NAMES:
        world.give_managed(name)
    await world.resync()
    await world.go(10)
    assert [image_of(world, name) for name in NAMES] == ["iggykube/broker:1.0.0"] * 3


def test_a_new_release_may_restart_brokers_one_after_the_other() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await three(world)
        world.sets.binds_claims = True
        upgrade(world)
        world.sets.is_asleep = True  # nobody comes back yet
        await world.resync()
        await world.go(70)

        templates = [world.spec(Ref("StatefulSet", "shop", name))["template"] for name in NAMES]
        new = [name for name, item in zip(NAMES, templates, strict=True)
               if item["spec"]["containers"][0]["image"] == "iggykube/broker:1.1.0"]  # fmt: skip
        assert len(new) == 1
        waiting = next(name for name in NAMES if name not in new)
        reasons = world.status(Ref("IggyBroker", "shop", waiting))["restart"]["reasons"]
        assert f"IggyBroker shop/{new[0]} is restarted first" in reasons

        world.sets.work()
        for _ in range(10):
            await world.go(30)
        assert [image_of(world, name) for name in NAMES] == ["iggykube/broker:1.1.0"] * 3
        for name in NAMES:
            broker = Ref("IggyBroker", "shop", name)
            assert world.says(broker, "ConfigApplied") == ("True", "Synced")
            assert "lastRestartTime" in world.status(broker)["restart"]

    run_managed(scenario)


def test_an_operator_that_dies_between_two_restarts_still_takes_them_one_by_one() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await three(world)
        upgrade(world)
        world.sets.is_asleep = True
        await world.resync()
        await world.go(30)
        upgrade(world)
        await world.resync()
        await world.go(30)

        images = [world.spec(Ref("StatefulSet", "shop", name))["template"]["spec"]["containers"]
                  [0]["image"] for name in NAMES]  # fmt: skip
        assert images.count("iggykube/broker:1.1.0") == 1

    run_managed(scenario)


@pytest.mark.parametrize("kill_after", range(1, 6))
def test_a_kill_while_a_release_is_taken_over_heals(kill_after: int) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.uid(POD)
        upgrade(world)
        world.faults.kill_after_write = len(world.faults.writes) + kill_after
        try:
            await world.resync()
            await world.go(130)
        except Killed:
            world.faults.kill_after_write = None
            upgrade(world)
        await world.resync()
        await world.go(130)

        assert world.uid(POD) != pod
        assert len(world.sets.started) == 2, "one restart"
        assert image_of(world, "main") == "iggykube/broker:1.1.0"
        assert world.says(BROKER) == ("True", "Synced")
        assert world.status(BROKER)["restart"]["reasons"] == []

    run_managed(scenario)


def test_a_release_never_restarts_a_broker_that_waits_for_a_person() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world, updateStrategy="OnDelete")
        pod = world.uid(POD)
        upgrade(world)
        await world.resync()
        await world.go(130)

        assert world.uid(POD) == pod
        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")

    run_managed(scenario)
