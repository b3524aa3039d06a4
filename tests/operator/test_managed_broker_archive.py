"""The archive of a managed broker: its place, its volume, how it is doing."""

import json
from typing import Any

import pytest

from iggy_operator.cluster import Ref
from iggy_operator.desired.staging import is_stuck
from managed_world import BROKER, POD, STATEFUL_SET, ManagedWorld, run_managed, started
from operator_world import NAMESPACE

ARCHIVE_CLAIM = Ref("PersistentVolumeClaim", NAMESPACE, "archive-main-0")
DISK = {"kind": "Disk", "disk": {}}
BUCKET: dict[str, Any] = {"kind": "S3", "s3": {"bucket": "abc", "credentialsSecretName": "keys"}}
WELL = {"failing": 0, "pending_segments": 2, "failures_total": 1, "behind_seconds": 3}
COPIED_S = 1_799_999_990


def metrics(**figures: float) -> list[str]:
    """As a broker of two shards shows them, the second one at rest."""
    values = {**WELL, "last_copy_seconds": COPIED_S, **figures}
    rows = [(f"iggy_archiver_{name}", value) for name, value in values.items()]
    lines = [f'{name}{{shard="0"}} {value}' for name, value in rows]
    return ["iggy_ready 1", *lines, *(f'{name}{{shard="1"}} 0' for name, _ in rows)]


async def archiving(world: ManagedWorld, archiver: dict[str, Any], **spec: Any) -> None:
    world.give_secret("keys", accessKeyId="id", secretAccessKey="very secret")
    world.metrics = metrics()
    await started(world, archiver=archiver, **spec)


def archive(world: ManagedWorld) -> tuple[str, str]:
    return world.says(BROKER, "ArchiveHealthy")


def wish(world: ManagedWorld, **archiver: Any) -> None:
    world.cluster.change_spec(BROKER, archiver=world.spec(BROKER)["archiver"] | archiver)


def variables(world: ManagedWorld) -> dict[str, Any]:
    found = world.spec(POD)["containers"][0]["env"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in found}


def test_an_archive_in_a_bucket_is_set_up_and_says_how_it_is_doing() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await archiving(world, BUCKET)

        assert archive(world) == ("True", "Synced")
        assert world.status(BROKER)["archive"] == {
            "pendingSegments": 2,
            "failures": 1,
            "behindSeconds": 3,
            "lastArchiveTime": "2027-01-15T07:59:50Z",
        }
        assert "s3://abc/shop/main/" in world.message(BROKER, "ArchiveHealthy")
        found = variables(world)
        assert found["IGGY_DATA_MAINTENANCE_ARCHIVER_S3_KEY_PREFIX"] == "shop/main/"
        assert found["IGGY_DATA_MAINTENANCE_ARCHIVER_S3_SECRET_ACCESS_KEY"] == {
            "secretKeyRef": {"name": "keys", "key": "secretAccessKey"}
        }
        assert "very secret" not in str(world.spec(STATEFUL_SET))
        assert world.cluster.names("PersistentVolumeClaim") == ["data-main-0"]

    run_managed(scenario)


def test_an_archive_that_fails_is_told_and_heals() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await archiving(world, BUCKET)
        pod = world.uid(POD)

        world.metrics = metrics(failing=1, failures_total=9)
        await world.go(40)
        assert archive(world) == ("False", "ArchiveFailing")
        assert "s3://abc/shop/main/" in world.message(BROKER, "ArchiveHealthy")
        assert world.status(BROKER)["archive"]["failures"] == 9
        assert world.says(BROKER) == ("True", "Synced")
        world.metrics = metrics(behind_seconds=500)
        await world.go(40)
        assert archive(world) == ("False", "ArchiveFailing")
        assert "500 s" in world.message(BROKER, "ArchiveHealthy")
        world.metrics = None
        await world.go(40)
        assert archive(world) == ("Unknown", "BrokerUnreachable")
        world.metrics = metrics()
        await world.go(40)

        assert archive(world) == ("True", "Synced")
        assert world.uid(POD) == pod
        told = {event.reason for event in world.cluster.events}
        assert "ArchiveFailing" in told

    run_managed(scenario)


def test_an_older_release_of_the_broker_is_no_healthy_archive() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await archiving(world, BUCKET)
        world.metrics = ["iggy_ready 1"]
        await world.go(40)

        assert archive(world) == ("Unknown", "BrokerUnreachable")
        assert "older release" in world.message(BROKER, "ArchiveHealthy")

    run_managed(scenario)


def test_a_missing_secret_of_the_bucket_is_named() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.metrics = metrics()
        await started(
            world, archiver={**BUCKET, "s3": {**BUCKET["s3"], "caSecretName": "authority"}}
        )
        assert archive(world) == ("False", "SecretNotFound")

        world.give_secret("keys", accessKeyId="id")
        await world.go(40)
        assert archive(world) == ("False", "SecretInvalid")
        assert "secretAccessKey" in world.message(BROKER, "ArchiveHealthy")
        world.give_secret("keys", accessKeyId="id", secretAccessKey="x")
        await world.go(40)
        assert archive(world) == ("False", "SecretNotFound")
        assert "Secret authority" in world.message(BROKER, "ArchiveHealthy")
        world.give_secret("authority", **{"ca.crt": "x"})
        await world.go(40)

        assert archive(world) == ("True", "Synced")

    run_managed(scenario)


def test_a_secret_without_which_the_pod_cannot_start_is_named() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.sets.binds_claims = False  # no pod starts without its Secrets either
        world.give_managed(encryption={"secretName": "seals", "oldKeys": ["2025"]})
        await world.resync()
        assert world.says(BROKER) == ("False", "SecretNotFound")
        assert "Secret seals" in world.message(BROKER)

        world.give_secret("seals", key="x")
        await world.go(40)
        assert world.says(BROKER) == ("False", "SecretInvalid")
        assert "has no key 2025" in world.message(BROKER)
        world.give_secret("seals", **{"key": "x", "2025": "y"})
        world.sets.bind()
        await world.go(40)

        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(BROKER, "ArchiveHealthy") == ("True", "ArchiverOff")

    run_managed(scenario)


def test_a_broker_that_hibernates_archives_nothing() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await archiving(world, BUCKET)

        world.cluster.change_spec(BROKER, hibernate=True)
        await world.go(70)

        assert archive(world) == ("Unknown", "Hibernated")
        assert world.status(BROKER)["archive"]["pendingSegments"] == 2

    run_managed(scenario)


def test_an_archiver_restarts_the_broker_once_and_its_volume_grows_without() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.metrics = metrics()
        await started(world)
        first = world.uid(POD)
        wish(world, **DISK)
        await world.go(70)
        second = world.uid(POD)
        assert second != first
        assert archive(world) == ("True", "Synced")
        assert world.cluster.names("PersistentVolumeClaim") == ["archive-main-0", "data-main-0"]
        assert len(world.spec(STATEFUL_SET)["volumeClaimTemplates"]) == 2

        wish(world, disk={"size": "40Gi"})
        await world.go(70)
        assert world.spec(ARCHIVE_CLAIM)["resources"]["requests"]["storage"] == "40Gi"
        assert (world.uid(POD), archive(world)) == (second, ("True", "Synced"))
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        wish(world, kind="None", disk=None)
        await world.go(70)

        assert archive(world) == ("True", "ArchiverOff")
        assert "archive" not in world.status(BROKER)
        assert world.cluster.names("PersistentVolumeClaim") == ["archive-main-0", "data-main-0"]
        assert len(world.sets.started) == 3

    run_managed(scenario)


def test_an_archive_volume_that_cannot_grow_says_so_and_stays() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.sets.give_class("stiff", grows=False)
        await archiving(world, DISK | {"disk": {"storageClassName": "stiff"}})
        pod = world.uid(POD)

        wish(world, disk={"size": "40Gi", "storageClassName": "stiff"})
        await world.go(70)

        assert archive(world) == ("False", "ExpansionUnsupported")
        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        assert world.uid(POD) == pod

    run_managed(scenario)


def test_the_data_may_live_and_die_with_the_pod_beside_an_archive() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await archiving(world, DISK, storage={"ephemeral": True}, restoreFrom={})
        await world.go(70)

        assert world.cluster.names("PersistentVolumeClaim") == ["archive-main-0"]
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        assert len(world.sets.started) == 1

    run_managed(scenario)


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ({}, {}, False),
        ({"prefix": "prod"}, {"prefix": "prod/main/"}, True),
        ({"prefix": ""}, {}, True),
        ({"prefix": "a"}, {"prefix": "ab"}, False),
        ({"prefix": "a", "endpoint": "http://one"}, {"prefix": "a"}, False),
        ({"prefix": "a", "endpoint": "http://one/"}, {"prefix": "a", "endpoint": "http://one"},
         True),
    ],
)  # fmt: skip
def test_two_brokers_never_have_one_archive(
    one: dict[str, Any], other: dict[str, Any], is_one: bool
) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.metrics = metrics()
        await started(world, archiver={"kind": "S3", "s3": {"bucket": "abc", **one}})
        world.clock.seconds += 1
        late = world.give_managed("late", archiver={"kind": "S3", "s3": {"bucket": "abc", **other}})
        await world.go(70)

        assert world.says(BROKER) == ("True", "Synced")
        expected = ("False", "Conflict") if is_one else ("True", "Synced")
        assert world.says(late) == expected
        assert ("IggyBroker shop/main" in world.message(late)) == is_one

    run_managed(scenario)


def test_an_archive_is_never_on_the_data_of_another_broker() -> None:
    async def scenario(world: ManagedWorld) -> None:
        claim = {"kind": "Disk", "disk": {"existingClaim": "data-late-0"}}
        world.give_managed(archiver=claim)
        world.clock.seconds += 1
        world.give_managed("late")
        await world.resync()
        await world.go(70)

        assert world.says(BROKER) == ("False", "Conflict")
        assert "data of IggyBroker shop/late" in world.message(BROKER)

    run_managed(scenario)


def test_what_came_back_is_told_once() -> None:
    counts = {"streams": 2, "topics": 3, "users": 1, "messages": 12_000, "took_ms": 1_400}
    summary = {"archive": "s3://abc/shop/main", **counts, "left_out_count": 1}

    async def scenario(world: ManagedWorld) -> None:
        world.sets.restores = json.dumps({"restored": summary})
        await archiving(world, BUCKET, restoreFrom={})
        await world.go(130)

        told = [event for event in world.cluster.events if event.reason == "Restored"]
        found = world.status(BROKER)["restore"]
        assert [(event.is_warning, event.message) for event in told] == [(True, found["message"])]
        assert found["message"].startswith(
            "2 streams, 3 topics, 1 users and 12,000 messages came back from s3://abc/shop/main in "
            "1.4 s; not all is as it was"
        )
        assert (found["complete"], found["from"]) == (False, "s3://abc/shop/main")
        assert "shop/main" in str(world.spec(POD)["initContainers"][0]["command"])

    run_managed(scenario)


@pytest.mark.parametrize("message", ["", "no json", "[1]", '{"restored": {"streams": 0}}'])
def test_where_nothing_came_back_nothing_is_told(message: str) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.sets.restores = message
        await archiving(world, BUCKET, restoreFrom={})

        assert "restore" not in world.status(BROKER)
        assert "Restored" not in {event.reason for event in world.cluster.events}

    run_managed(scenario)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"state": {"terminated": {"exitCode": 1, "message": "x\n! none: no bucket"}}},
         "code 1): ! none: no bucket"),
        ({"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
          "lastState": {"terminated": {"exitCode": 1, "message": "no bucket"}}}, "no bucket"),
        ({"state": {"waiting": {"reason": "ErrImagePull", "message": "not there"}}},
         "ErrImagePull not there"),
        ({"state": {"running": {}}}, "is filled from the archive"),
    ],
)  # fmt: skip
def test_a_restore_that_is_under_way_or_fails_is_told(row: dict[str, Any], words: str) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await archiving(world, BUCKET, restoreFrom={})
        waits = {"name": "broker", "state": {"waiting": {"reason": "PodInitializing"}}}
        status = {
            "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [waits],
            "initContainerStatuses": [{"name": "restore", **row}],
        }
        world.cluster.change(POD, status=status)
        await world.go(70)

        assert world.says(BROKER) == ("False", "BrokerNotReady")
        assert words in world.message(BROKER)
        assert is_stuck(world.cluster.objects[POD], "broker") == ("ErrImagePull" in words)

    run_managed(scenario)


def test_a_pod_that_waits_for_its_restart_does_not_archive_yet() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.metrics = metrics()
        await started(world, updateStrategy="OnDelete")
        wish(world, **BUCKET)
        world.give_secret("keys", accessKeyId="id", secretAccessKey="x")
        await world.go(70)
        assert archive(world) == ("False", "RestartPending")

        world.cluster.annotate(BROKER, "restart-at", "now")
        await world.go(70)

        assert archive(world) == ("True", "Synced")

    run_managed(scenario)
