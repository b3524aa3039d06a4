"""When a managed broker's pod is replaced, and what is said until then."""

from desired_cases import NEXT_RELEASE
from managed_world import BROKER, POD, ManagedWorld, run_managed, started


def test_a_new_release_restarts_nothing_until_asked() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.uid(POD)
        world.product = NEXT_RELEASE
        world.start()
        await world.resync()
        await world.go(130)

        assert world.uid(POD) == pod
        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")
        count = len(world.faults.writes)
        await world.go(300)
        assert world.writes()[count:] == []
        waiting = ["image: iggykube/broker:1.0.0 → iggykube/broker:1.1.0"]
        assert world.status(BROKER)["restart"] == {"pending": True, "reasons": waiting}
        assert world.status(BROKER)["image"] == "iggykube/broker:1.0.0"

        world.cluster.annotate(BROKER, "restart-at", "2026-05-01T12:00:00Z")
        await world.go(70)

        assert world.uid(POD) != pod
        assert world.says(BROKER, "ConfigApplied") == ("True", "Synced")
        assert world.status(BROKER)["image"] == "iggykube/broker:1.1.0"
        assert world.status(BROKER)["restart"]["pending"] is False
        assert "lastRestartTime" in world.status(BROKER)["restart"]

    run_managed(scenario)


def test_a_broker_is_not_ready_while_its_pod_is_about_to_be_replaced() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        world.sets.is_asleep = True

        world.cluster.change_spec(BROKER, image="other:2")
        await world.go(10)
        assert world.says(BROKER) == ("False", "RollingOut")
        assert world.says(BROKER, "Progressing") == ("True", "RollingOut")
        assert world.says(BROKER, "ConfigApplied") == ("False", "RollingOut")
        assert world.status(BROKER)["image"] == "iggykube/broker:1.0.0"
        world.sets.work()
        await world.go(10)

        assert world.says(BROKER) == world.says(BROKER, "ConfigApplied") == ("True", "Synced")
        assert world.says(BROKER, "Progressing") == ("False", "Synced")
        assert world.status(BROKER)["image"] == "other:2"

    run_managed(scenario)


def test_on_delete_a_change_waits_for_a_person() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world, updateStrategy="OnDelete")
        pod = world.uid(POD)
        world.cluster.change_spec(BROKER, config={"heartbeat.interval": "40 s"})
        await world.go(130)
        assert world.uid(POD) == pod
        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")

        world.cluster.annotate(BROKER, "restart-at", "2026-05-01T12:00:00Z")
        await world.go(130)

        assert world.uid(POD) != pod
        assert len(world.sets.started) == 2
        assert world.says(BROKER, "ConfigApplied") == ("True", "Synced")

    run_managed(scenario)
