"""A managed broker's volume grows and never shrinks; pods stay while it does."""

from typing import Any

import pytest

from desired_cases import NEXT_RELEASE
from iggy_operator.cluster import DeniedError, Ref
from managed_world import (
    BROKER,
    CLAIM,
    POD,
    STATEFUL_SET,
    ManagedWorld,
    rendered_size,
    run_managed,
    started,
    template_of,
    wish,
)
from page_samples import blocks
from planted_faults import Made


def test_a_volume_grows_under_its_pod() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod, template = world.uid(POD), world.spec(STATEFUL_SET)["template"]
        world.sets.grows_volumes = False

        wish(world, "20Gi")
        await world.go(10)
        assert world.claimed() == rendered_size(world) == "20Gi"
        assert world.says(BROKER, "StorageReady") == ("False", "VolumePending")
        assert "from 10Gi to 20Gi" in world.message(BROKER, "StorageReady")
        assert world.says(BROKER) == ("True", "Synced")
        world.sets.grows_volumes = True
        world.sets._serve(CLAIM)
        await world.go(40)

        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        assert world.status(BROKER)["storage"]["capacity"] == "20Gi"
        assert (world.uid(POD), world.sets.started) == (pod, [pod])
        assert world.spec(STATEFUL_SET)["template"] == template

    run_managed(scenario)


def test_a_stateful_set_that_takes_long_to_go_is_awaited() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.uid(POD)
        world.cluster.objects[STATEFUL_SET]["metadata"]["finalizers"] = ["orphan"]

        wish(world, "20Gi")
        await world.go(30)
        assert "deletionTimestamp" in world.cluster.objects[STATEFUL_SET]["metadata"]
        assert len(world.faults.verbs("delete")) == 1
        assert world.says(BROKER) == ("True", "Synced")
        world.cluster._purge(STATEFUL_SET, orphan=True)
        await world.go(10)

        assert rendered_size(world) == "20Gi"
        assert world.sets.started == [pod]

    run_managed(scenario)


def test_a_volume_that_grows_brings_no_new_release_along() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.uid(POD)
        world.product = NEXT_RELEASE
        world.start()
        wish(world, "20Gi")
        await world.resync()
        await world.go(130)

        assert rendered_size(world) == "20Gi"
        assert (world.uid(POD), world.sets.started) == (pod, [pod])
        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")

    run_managed(scenario)


def test_a_lost_stateful_set_does_not_restart_its_pod() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod = world.uid(POD)
        world.cluster._delete(STATEFUL_SET, orphan=True)
        world.product = NEXT_RELEASE
        world.start()
        await world.resync()
        await world.go(130)

        assert world.uid(POD) == pod
        assert world.says(BROKER, "ConfigApplied") == ("False", "RestartPending")
        world.cluster.annotate(BROKER, "restart-at", "2026-05-01T12:00:00Z")
        await world.go(130)
        assert world.uid(POD) != pod
        assert world.says(BROKER, "ConfigApplied") == ("True", "Synced")
        assert len(world.sets.started) == 2

    run_managed(scenario)


@pytest.mark.parametrize(
    ("free", "state"), [(16, ("True", "Synced")), (15, ("False", "DiskPressure"))]
)
def test_a_volume_that_fills_up_is_told(free: int, state: tuple[str, str]) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.broker.disk = (100, free)
        await started(world)

        assert world.says(BROKER, "StorageReady") == state
        storage = world.status(BROKER)["storage"]
        assert (storage["usedBytes"], storage["usedPercent"]) == (100 - free, 100 - free)

    run_managed(scenario)


def test_a_wish_to_shrink_changes_nothing() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        stateful_set = world.uid(STATEFUL_SET)

        wish(world, "5Gi")
        await world.go(70)

        assert world.says(BROKER, "StorageReady") == ("False", "Unsupported")
        assert "10Gi of claim data-main-0" in world.message(BROKER, "StorageReady")
        assert (world.claimed(), rendered_size(world)) == ("10Gi", "10Gi")
        assert world.uid(STATEFUL_SET) == stateful_set
        world.cluster.change_spec(BROKER, image="other:2")
        await world.go(10)
        assert world.spec(POD)["containers"][0]["image"] == "other:2"

    run_managed(scenario)


def test_a_claim_that_was_enlarged_by_hand_stays_so() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        world.cluster.change_spec(CLAIM, resources={"requests": {"storage": "11Gi"}})
        await world.go(70)
        assert world.says(BROKER, "StorageReady") == ("False", "Unsupported")
        assert "11Gi of claim data-main-0" in world.message(BROKER, "StorageReady")

        wish(world, "5Gi")
        await world.go(70)
        assert "11Gi of claim data-main-0" in world.message(BROKER, "StorageReady")
        assert world.claimed() == "11Gi"
        wish(world, "12Gi")
        await world.go(70)

        assert world.claimed() == rendered_size(world) == "12Gi"
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        assert len(world.sets.started) == 1

    run_managed(scenario)


def no_growth(world: ManagedWorld) -> None:
    world.sets.give_class("standard", grows=False)


def no_class(world: ManagedWorld) -> None:
    spec = world.spec(CLAIM)
    world.cluster.change(CLAIM, spec={k: v for k, v in spec.items() if k != "storageClassName"})


def gone_class(world: ManagedWorld) -> None:
    world.cluster.remove(Ref("StorageClass", "", "standard"))


def unreadable_class(world: ManagedWorld) -> None:
    def fail(call: Made) -> Exception | None:
        return DeniedError("403") if call.what == "standard" else None

    world.faults.fail = fail


def foreign_claim(world: ManagedWorld) -> None:
    metadata = dict(world.cluster.objects[CLAIM]["metadata"]) | {"labels": {}}
    world.cluster.change(CLAIM, metadata=metadata)


@pytest.mark.parametrize(
    "spoil", [no_growth, no_class, gone_class, unreadable_class, foreign_claim]
)
def test_a_volume_that_cannot_grow_is_said_and_the_rest_is_applied(spoil: Any) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        stateful_set = world.uid(STATEFUL_SET)
        spoil(world)

        wish(world, "20Gi")
        world.cluster.change_spec(BROKER, image="other:2")
        await world.go(130)

        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(BROKER, "StorageReady") == ("False", "ExpansionUnsupported")
        assert (world.claimed(), rendered_size(world)) == ("10Gi", "10Gi")
        assert world.uid(STATEFUL_SET) == stateful_set
        assert world.spec(POD)["containers"][0]["image"] == "other:2"
        wish(world, "10Gi")
        await world.go(70)
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")

    run_managed(scenario)


@pytest.mark.parametrize(
    ("field", "value"),
    [("storageClassName", "fast"), ("accessMode", "ReadWriteOncePod"), ("ephemeral", True)],
)
def test_what_cannot_change_is_named_and_the_rest_is_applied(field: str, value: Any) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)

        wish(world, "12Gi", **{field: value})
        world.cluster.change_spec(BROKER, image="other:2")
        await world.go(130)

        assert world.says(BROKER, "StorageReady") == ("False", "ImmutableMismatch")
        assert f"storage.{field}" in world.message(BROKER, "StorageReady")
        assert world.claimed() == rendered_size(world) == "12Gi"
        assert "storageClassName" not in template_of(world)
        assert template_of(world)["accessModes"] == ["ReadWriteOnce"]
        assert world.spec(POD)["containers"][0]["image"] == "other:2"

    run_managed(scenario)


@pytest.mark.parametrize("field", ["serviceName", "podManagementPolicy"])
def test_a_stateful_set_of_another_build_is_made_anew_under_its_pod(field: str) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod, wanted = world.uid(POD), world.spec(STATEFUL_SET)[field]
        world.cluster.change_spec(STATEFUL_SET, **{field: "of-another-time"})

        await world.go(130)

        assert world.spec(STATEFUL_SET)[field] == wanted
        assert world.uid(POD) == pod
        assert world.says(BROKER) == ("True", "Synced")

    run_managed(scenario)


def test_another_selector_is_left_alone_and_named() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        pod, before = world.uid(POD), {"matchLabels": {"app": "of-another-time"}}
        world.cluster.change_spec(STATEFUL_SET, selector=before)

        await world.go(130)

        assert world.says(BROKER, "ConfigApplied") == ("False", "ImmutableMismatch")
        assert "spec.selector" in world.message(BROKER, "ConfigApplied")
        assert world.spec(STATEFUL_SET)["selector"] == before
        assert world.uid(POD) == pod

    run_managed(scenario)


def test_a_volume_goes_back_to_a_snapshot_as_the_documents_say() -> None:
    (claim,) = (
        document
        for block in blocks()
        if block.place.startswith("docs/day-two.md")
        for document in block.documents()
        if document["kind"] == "PersistentVolumeClaim"
    )

    async def scenario(world: ManagedWorld) -> None:
        await started(world, storage={"size": claim["spec"]["resources"]["requests"]["storage"]})
        lost = world.cluster.objects[CLAIM]["metadata"]
        assert claim["metadata"]["labels"] == lost["labels"]

        world.cluster.annotate(BROKER, "paused", "true")
        await world.go(10)
        world.cluster.change(STATEFUL_SET, spec={**world.spec(STATEFUL_SET), "replicas": 0})
        await world.go(130)
        assert world.cluster.names("Pod") == []
        world.cluster.remove(CLAIM)
        put = world.cluster.put({**claim, "status": {}})
        world.volumes[put["metadata"]["uid"]] = world.root()
        world.cluster.annotate(BROKER, "paused", None)
        await world.go(130)

        assert world.says(BROKER) == world.says(BROKER, "StorageReady") == ("True", "Synced")
        assert world.uid(CLAIM) == put["metadata"]["uid"] != lost["uid"]
        assert world.spec(STATEFUL_SET)["replicas"] == 1

    run_managed(scenario)
