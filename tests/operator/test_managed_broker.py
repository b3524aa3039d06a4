"""A managed broker from its first pass on: children, status, who may touch what."""

import pytest

from iggy_operator.cluster import DeniedError, NotFoundError, Ref
from managed_world import BROKER, CLAIM, POD, ROOT, STATEFUL_SET, ManagedWorld, run_managed, started
from planted_faults import Made

NEEDED = ("StatefulSet", "Service", "ConfigMap", "NetworkPolicy", "ServiceAccount", "Secret")


def test_a_broker_is_made_and_says_so() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world, shards={"count": 2})

        assert [kind for kind in NEEDED if not world.cluster.names(kind)] == []
        assert world.cluster.names("PodDisruptionBudget") == []  # would hold a drain up
        status = world.status(BROKER)
        assert status["endpoints"] == {
            "tcp": "main.shop.svc:8090",
            "http": "http://main.shop.svc:3000",
        }
        assert status["version"] == "0.0.1"
        assert status["image"] == "iggykube/broker:1.0.0"
        assert status["shards"] == {"desired": 2, "ready": 2}
        assert status["storage"]["claimName"] == "data-main-0"
        assert (status["storage"]["requested"], status["storage"]["capacity"]) == ("10Gi", "10Gi")
        assert status["credentials"] == {"rootSecretName": "main-root"}
        assert status["restart"] == {"pending": False, "reasons": []}
        assert status["counts"]["streams"] == 0
        assert "configHash" in status
        assert world.says(BROKER, "ArchiveHealthy") == ("True", "ArchiverOff")
        for kind in ("StorageReady", "ConfigApplied", "CredentialsReady"):
            assert world.says(BROKER, kind) == ("True", "Synced"), kind
        assert world.says(BROKER, "Progressing") == ("False", "Synced")

    run_managed(scenario)


def test_nothing_is_written_while_nothing_changes() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        await world.go(60)
        count = len(world.faults.writes)

        await world.go(600)

        assert world.writes()[count:] == []

    run_managed(scenario)


def test_streams_live_in_it() -> None:
    async def scenario(world: ManagedWorld) -> None:
        stream = world.give_stream()
        await started(world)
        await world.go(70)

        assert world.says(stream) == ("True", "Synced")
        assert list(world.broker.streams) == ["shop"]

    run_managed(scenario)


def test_an_object_without_a_broker_gets_the_default_one() -> None:
    async def scenario(world: ManagedWorld) -> None:
        stream = world.give_stream(brokerRef={"name": "iggy"})
        await world.resync()
        await world.go(130)

        assert world.says(stream) == ("True", "Synced")
        world.cluster.remove(stream)
        await world.go(130)
        assert world.cluster.names("IggyBroker") == ["iggy"]

    run_managed(scenario)


@pytest.mark.parametrize("reference", [{"name": "other"}, {"name": "iggy", "namespace": "far"}])
def test_no_other_broker_is_made(reference: dict[str, str]) -> None:
    async def scenario(world: ManagedWorld) -> None:
        stream = world.give_stream(brokerRef=reference)
        await world.resync()
        await world.go(130)

        assert world.says(stream) == ("False", "BrokerNotFound")
        assert world.cluster.names("IggyBroker") == []

    run_managed(scenario)


@pytest.mark.parametrize(
    "ref",
    [STATEFUL_SET, ROOT, Ref("Service", "shop", "main"), Ref("ConfigMap", "shop", "main-config")],
    ids=str,
)
def test_what_somebody_else_has_is_left_alone(ref: Ref) -> None:
    async def scenario(world: ManagedWorld) -> None:
        foreign = {"apiVersion": "v1", "kind": ref.kind, "metadata": {"name": ref.name}}
        before = world.cluster.put({**foreign, "spec": {"replicas": 0}})
        world.give_managed()
        await world.resync()
        await world.go(70)

        assert world.says(BROKER) == ("False", "NameConflict")
        assert str(ref) in world.message(BROKER)
        assert world.cluster.objects[ref] == before
        assert world.cluster.names("Pod") == []
        world.cluster.remove(ref)
        await world.go(130)
        assert world.says(BROKER) == ("True", "Synced")

    run_managed(scenario)


def test_what_cannot_be_had_is_said_and_nothing_is_made() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_managed(shards={"pinCores": True})
        await world.resync()

        assert world.says(BROKER) == ("False", "Unsupported")
        assert "shards.pinCores" in world.message(BROKER)
        assert set(world.writes()) <= {"apply_status", "record"}

    run_managed(scenario)


def test_roots_secret_is_made_once_and_outlives_the_broker_with_its_volume() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        secret, claim = world.cluster.objects[ROOT], world.uid(CLAIM)
        assert not world.cluster.objects[CLAIM]["metadata"].get("ownerReferences")

        world.cluster.remove(BROKER)
        await world.go(70)
        assert world.cluster.names("StatefulSet") == world.cluster.names("Pod") == []
        await started(world, image="other:2")
        await world.go(70)

        assert world.cluster.objects[ROOT] == secret
        assert world.uid(CLAIM) == claim
        assert world.says(BROKER) == ("True", "Synced")

    run_managed(scenario)


def test_a_volume_goes_with_its_broker_if_that_is_wished() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world, storage={"retentionPolicy": "Delete"})

        world.cluster.remove(BROKER)
        await world.go(70)

        assert world.cluster.names("PersistentVolumeClaim") == world.cluster.names("Secret") == []

    run_managed(scenario)


def test_a_named_secret_is_used_and_waited_for() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_managed(rootCredentialsSecretName="ours")
        await world.resync()
        assert world.says(BROKER) == ("False", "SecretNotFound")
        assert world.says(BROKER, "CredentialsReady") == ("False", "SecretNotFound")
        assert world.cluster.names("Pod") == []

        world.give_secret("ours", username="boss", password="secret-of-ours")
        await world.go(130)

        assert world.says(BROKER) == ("True", "Synced")
        assert world.broker.username == "boss"
        assert world.cluster.names("Secret") == ["main-root", "ours"]

    run_managed(scenario)


def test_children_that_are_no_longer_wanted_go() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world, monitoring={"podMonitor": True})
        assert world.cluster.names("PodMonitor") == ["main"]
        labels = world.cluster.objects[STATEFUL_SET]["metadata"]["labels"]
        alike = {"name": "alike", "labels": labels}
        world.cluster.put({"apiVersion": "v1", "kind": "NetworkPolicy", "metadata": alike})

        world.cluster.change_spec(
            BROKER, monitoring={"podMonitor": False, "interval": "30s"},
            networkPolicy={"enabled": False}, podTemplate={"serviceAccountName": "theirs"},
        )  # fmt: skip
        await world.go(70)

        assert world.cluster.names("PodMonitor") == world.cluster.names("ServiceAccount") == []
        assert world.cluster.names("NetworkPolicy") == ["alike"]

    run_managed(scenario)


def test_what_was_changed_by_hand_is_put_back() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        service = Ref("Service", "shop", "main")
        spec = world.spec(service)
        world.cluster.change_spec(service, selector={"app": "stolen"})
        world.cluster.remove(Ref("ConfigMap", "shop", "main-config"))

        await world.go(70)

        assert world.spec(service)["selector"] == spec["selector"] != {"app": "stolen"}
        assert world.cluster.names("ConfigMap") == ["main-config"]

    run_managed(scenario)


def test_a_hibernating_broker_keeps_its_volume_and_comes_back() -> None:
    async def scenario(world: ManagedWorld) -> None:
        stream = world.give_stream()
        await started(world)
        claim = world.uid(CLAIM)

        world.cluster.change_spec(BROKER, hibernate=True)
        await world.go(70)
        assert world.says(BROKER) == ("False", "Hibernated")
        assert world.cluster.names("Pod") == []
        assert world.says(stream) == ("False", "BrokerNotReady")
        assert {"image", "configHash"} & set(world.status(BROKER)) == set()
        assert world.status(BROKER)["shards"] == {"desired": 0, "ready": 0}
        world.cluster.change_spec(BROKER, hibernate=False)
        await world.go(70)

        assert world.says(BROKER) == world.says(stream) == ("True", "Synced")
        assert world.uid(CLAIM) == claim

    run_managed(scenario)


def test_a_paused_broker_is_looked_at_only() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.give_managed()
        world.cluster.annotate(BROKER, "paused", "true")
        await world.resync()
        await world.go(70)

        assert world.says(BROKER, "Paused") == ("True", "Paused")
        assert set(world.writes()) <= {"apply_status", "record"}

    run_managed(scenario)


def test_waiting_for_a_volume_is_no_error_and_holds_nothing_up() -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.sets.binds_claims = False
        world.give_managed()
        await world.resync()
        await world.go(600)
        assert world.says(BROKER) == ("False", "VolumePending")
        assert world.says(BROKER, "StorageReady") == ("False", "VolumePending")
        assert world.says(BROKER, "Progressing") == ("True", "RollingOut")
        assert world.cluster.events == []

        world.cluster.change_spec(BROKER, image="other:2")
        await world.go(1)
        assert world.spec(POD)["containers"][0]["image"] == "other:2"
        world.sets.bind()
        await world.go(10)

        assert world.says(BROKER) == ("True", "Synced")

    run_managed(scenario)


def test_a_broker_that_does_not_answer_is_not_ready() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        world.broker.is_down = True
        await world.go(200)

        assert world.says(BROKER) == ("Unknown", "BrokerUnreachable")
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        world.broker.is_down = False
        await world.go(400)
        assert world.says(BROKER) == ("True", "Synced")

    run_managed(scenario)


def test_what_lives_in_a_broker_that_starts_for_long_is_there_as_soon_as_it_serves() -> None:
    async def scenario(world: ManagedWorld) -> None:
        stream = world.give_stream()
        world.sets.binds_claims = False
        world.give_managed()
        await world.resync()
        await world.go(900)
        assert world.says(stream)[0] != "True"

        world.sets.bind()
        await world.go(10)

        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(stream) == ("True", "Synced")

    run_managed(scenario)


def test_a_missing_right_to_list_optional_kinds_stops_nothing() -> None:
    async def scenario(world: ManagedWorld) -> None:
        def fail(call: Made) -> Exception | None:
            return DeniedError("403") if call.verb == "list" and call.what == "PodMonitor" else None

        world.faults.fail = fail
        await started(world)
        assert world.says(BROKER, "Ready")[0] == "True"

    run_managed(scenario)


def test_a_monitor_that_the_cluster_does_not_know_holds_nothing_up() -> None:
    async def scenario(world: ManagedWorld) -> None:
        def fail(call: Made) -> Exception | None:
            is_monitor = "PodMonitor" in call.what
            return NotFoundError("no such kind") if is_monitor else None

        world.faults.fail = fail
        await started(world, monitoring={"podMonitor": True})
        assert world.says(BROKER, "ConfigApplied") == ("False", "Unsupported")
        assert "monitoring.podMonitor" in world.message(BROKER, "ConfigApplied")

        world.faults.fail = lambda call: None
        await world.go(70)

        assert world.cluster.names("PodMonitor") == ["main"]
        assert world.says(BROKER, "ConfigApplied") == ("True", "Synced")

    run_managed(scenario)


def test_a_pod_that_cannot_start_is_told_in_kubernetes_own_words() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s"}
        world.cluster.change(
            POD,
            status={
                "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [{"state": {"waiting": waiting}}],
            },
        )
        await world.go(70)

        assert world.says(BROKER) == ("False", "BrokerNotReady")
        assert "CrashLoopBackOff back-off 40s" in world.message(BROKER)
        assert world.status(BROKER)["shards"] == {"desired": 1, "ready": 0}

    run_managed(scenario)
