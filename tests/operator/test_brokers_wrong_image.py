"""A broker whose image is not there, as the installation names it: set right, it heals."""

from dataclasses import replace
from typing import Any

import pytest

from desired_cases import NEXT_RELEASE, RELEASE, broker_of, children_of
from iggy_operator.decide.brokers import decide_rollout
from iggy_operator.desired.metadata import Manifest
from iggy_operator.desired.release import Release
from iggy_operator.desired.staging import is_stuck
from managed_world import BROKER, POD, STATEFUL_SET, ManagedWorld, run_managed, started
from troubled_lives import Lives, live

WRONG = replace(RELEASE, broker_image="iggykube/broker:wrong", spark_image="iggykube/spark:wrong")
NO_IMAGE = {"state": {"waiting": {"reason": "ImagePullBackOff"}}}
DIED = {"terminated": {"exitCode": 1}}


def pod_of(manifest: Manifest, status: dict[str, Any]) -> dict[str, Any]:
    """The pod of a broker's StatefulSet."""
    row = {"name": "broker", "restartCount": 0, **status}
    return {**manifest["spec"]["template"], "status": {"containerStatuses": [row]}}


def image_of(value: Any) -> str:
    spec = value["spec"]["template"]["spec"] if "template" in value["spec"] else value["spec"]
    return str(spec["containers"][0]["image"])


def broker(release: Release, **spec: Any) -> Manifest:
    return children_of(broker_of(**spec), release)["StatefulSet"]


RAN: list[dict[str, Any]] = [
    {"state": {"running": {}}},
    {"state": DIED},
    {**NO_IMAGE, "lastState": DIED},
    {**NO_IMAGE, "restartCount": 1},
    {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": DIED, "restartCount": 3},
]
COMES: list[dict[str, Any]] = [
    {"state": {"waiting": {"reason": "ContainerCreating"}}},
    {"state": {"waiting": {"reason": "PodInitializing"}}},
    {"state": {"waiting": {}}},
    {},
]
STUCK: list[dict[str, Any]] = [
    {"state": {"waiting": {"reason": reason}}, "lastState": {}}
    for reason in (
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
    )
]


@pytest.mark.parametrize("status", STUCK)
def test_a_container_that_never_ran_and_cannot_is_stuck(status: dict[str, Any]) -> None:
    pod = pod_of(broker(WRONG), status)

    assert is_stuck(pod, "broker")
    assert not is_stuck(pod, "another")


@pytest.mark.parametrize("status", RAN + COMES)
def test_one_that_ran_or_is_on_its_way_is_not(status: dict[str, Any]) -> None:
    assert not is_stuck(pod_of(broker(WRONG), status), "broker")


@pytest.mark.parametrize("value", [{}, {"status": None}, {"status": {"phase": "Pending"}}])
def test_a_pod_without_a_node_is_not_stuck(value: dict[str, Any]) -> None:
    assert not is_stuck(value, "broker")


@pytest.mark.parametrize("status", STUCK)
def test_a_stuck_pod_takes_over_a_release(status: dict[str, Any]) -> None:
    running = broker(WRONG)

    found = decide_rollout(running, pod_of(running, status), broker(NEXT_RELEASE))

    assert found.manifest == broker(NEXT_RELEASE)
    assert (found.waiting, found.is_release) == ((), False)
    assert found.restarts
    assert not found.restart, "its StatefulSet does that"


@pytest.mark.parametrize("status", RAN + COMES)
def test_any_other_pod_keeps_what_it_has(status: dict[str, Any]) -> None:
    running = broker(WRONG)

    found = decide_rollout(running, pod_of(running, status), broker(NEXT_RELEASE))

    assert image_of(found.manifest) == WRONG.broker_image
    assert found.waiting
    assert found.is_release


@pytest.mark.parametrize("spec", [{}, {"image": "right:1"}], ids=["release", "user"])
@pytest.mark.parametrize("is_written", [False, True])
def test_a_stuck_pod_is_deleted_where_its_stateful_set_waits_for_that(
    spec: dict[str, Any], is_written: bool
) -> None:
    running = broker(WRONG, updateStrategy="OnDelete")
    wanted = broker(NEXT_RELEASE, updateStrategy="OnDelete", **spec)
    pod = pod_of(running, NO_IMAGE)

    found = decide_rollout(wanted if is_written else running, pod, wanted)

    assert found.restart
    assert found.waiting == ()
    assert found.manifest == wanted
    assert not decide_rollout(wanted, pod_of(wanted, NO_IMAGE), wanted).restart


def test_a_secret_for_pulling_is_taken_over_too() -> None:
    running = broker(WRONG)
    wanted = broker(replace(WRONG, image_pull_secrets=("mirror",), image_pull_policy="Always"))

    assert decide_rollout(running, pod_of(running, NO_IMAGE), wanted).manifest == wanted


def test_a_stuck_pod_whose_stateful_set_was_lost_is_replaced() -> None:
    found = decide_rollout(None, pod_of(broker(WRONG), NO_IMAGE), broker(RELEASE))

    assert found.manifest == broker(RELEASE)
    assert found.waiting == ()


def install(world: Any, release: Release) -> None:
    """A new process of the operator, with what the chart says now."""
    world.product = release
    world.start()


async def stuck(world: ManagedWorld, **spec: Any) -> None:
    world.sets.missing_images = {WRONG.broker_image}
    install(world, WRONG)
    world.give_managed(**spec)
    await live(world)
    assert world.says(BROKER) == ("False", "BrokerNotReady")
    assert "ImagePullBackOff" in world.message(BROKER)
    assert WRONG.broker_image in world.message(BROKER)


async def healed(world: ManagedWorld, release: Release = RELEASE) -> None:
    await live(world)
    assert image_of(world.cluster.objects[POD]) == release.broker_image
    assert world.says(BROKER) == ("True", "Synced")
    assert world.says(BROKER, "ConfigApplied") == ("True", "Synced")
    assert world.status(BROKER)["restart"]["reasons"] == []


@pytest.mark.parametrize("strategy", ["Automatic", "OnDelete"])
@pytest.mark.parametrize("is_hasty", [False, True])
def test_a_broker_heals_when_the_installation_is_corrected(strategy: str, is_hasty: bool) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await stuck(world, updateStrategy=strategy)
        install(world, replace(RELEASE, restart_on_upgrade=is_hasty))
        await healed(world)
        assert len(world.sets.started) == 2
        count = len(world.faults.writes)
        await world.go(300)
        assert world.writes()[count:] == []

    run_managed(scenario)


def test_a_broker_that_never_got_a_pod_heals() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.sets.refused_images = {WRONG.broker_image}
        install(world, WRONG)
        world.give_managed()
        await live(world)
        assert world.cluster.names("Pod") == []

        install(world, RELEASE)
        await healed(world)

    run_managed(scenario)


def test_an_image_that_comes_later_is_taken() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await stuck(world)
        world.sets.missing_images.clear()
        world.sets.work()
        await healed(world, WRONG)
        assert len(world.sets.started) == 1

    run_managed(scenario)


def test_a_broker_that_ran_is_not_restarted_by_a_release_whatever_it_waits_for() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.uid(POD)
        # Its container dies, and by now its image is gone from node and registry.
        row = {"name": "broker", "restartCount": 1, "lastState": DIED, **NO_IMAGE}
        status = {"conditions": [{"type": "Ready", "status": "False"}]}
        world.cluster.change(POD, status={**status, "containerStatuses": [row]})
        install(world, NEXT_RELEASE)
        await live(world)
        await world.go(600)

        assert world.uid(POD) == pod
        assert image_of(world.cluster.objects[STATEFUL_SET]) == RELEASE.broker_image
        assert world.says(BROKER) == ("False", "BrokerNotReady")
        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")

    run_managed(scenario)


def test_a_wrong_release_is_left_where_a_change_of_the_user_has_brought_it() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        world.sets.missing_images = {WRONG.broker_image}
        install(world, WRONG)
        await live(world)
        assert world.says(BROKER) == ("True", "Synced")
        world.cluster.change_spec(BROKER, config={"heartbeat.interval": "40 s"})
        await live(world)
        assert world.says(BROKER) == ("False", "BrokerNotReady")

        install(world, NEXT_RELEASE)
        await healed(world, NEXT_RELEASE)

    run_managed(scenario)


@pytest.mark.parametrize("strategy", ["Automatic", "OnDelete"])
def test_killed_after_any_write_a_broker_heals(strategy: str) -> None:
    async def life(world: ManagedWorld) -> None:
        await stuck(world, updateStrategy=strategy)
        install(world, RELEASE)
        await healed(world)
        assert len(world.sets.started) == 2

    Lives(run_managed, life).check_kills(more_than=8)
