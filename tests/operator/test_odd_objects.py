"""Objects at the edge of what Kubernetes takes: huge, oddly named, changed in many places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from iggy_operator.cluster import InvalidError, Ref
from managed_world import (
    BROKER,
    CLAIM,
    POD,
    STATEFUL_SET,
    ManagedWorld,
    run_managed,
    started,
    template_of,
    wish,
)
from operator_world import OperatorWorld, run_in
from resource_documents import LAKE
from sink_scene import Scene, play

ANNOTATIONS_BYTES_MAX = 262_144  # of all annotations of an object (Kubernetes)
# Kubernetes: what a label may hold, and what a name may be.
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
PLAIN = "__Orders.V1_ünï"
LONGEST = "ü" * 127 + "x"  # 255 bytes


def refuse_large(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    annotations = new["metadata"].get("annotations", {})
    if sum(len(name) + len(text) for name, text in annotations.items()) > ANNOTATIONS_BYTES_MAX:
        raise InvalidError("metadata.annotations: Too long: may not be more than 262144 bytes")


def test_a_topic_with_huge_annotations_and_sinks_is_changed_and_deleted() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.cluster.admission.append(refuse_large)
        schema = "id BIGINT, " * 5_000
        each = {**LAKE, "files": {"path": "s3a://lake/x"}, "spark": {"launcher": "Native"},
                "payload": {"format": "Json", "schema": schema}}  # fmt: skip
        sinks = [{**each, "name": f"sink-{number}"} for number in range(16)]
        world.give_broker()
        world.give_stream()
        topic = world.give_topic(sinks=sinks, deletionPolicy="Delete")
        metadata = world.cluster.objects[topic]["metadata"]
        metadata["annotations"] = {"theirs/notes": "n" * (200 << 10)}
        await world.resync()
        await world.go(130)

        world.cluster.change_spec(topic, partitions=3)
        await world.go(5)

        assert world.broker.topics["shop", "orders"].partitions_count == 3
        assert world.says(topic, "Synced") == ("True", "Synced")
        own = {ref: value["metadata"].get("annotations", {})
               for ref, value in world.cluster.objects.items()}  # fmt: skip
        assert set(own[topic]) == {"theirs/notes"}
        assert not [ref for ref, item in own.items() if ref != topic and "theirs/notes" in item]
        assert len(world.cluster.names("IggySink")) == 16
        assert not [event for event in world.cluster.events if event.is_warning]
        world.cluster.remove(topic)
        await world.go(130)
        assert world.broker.topics == {}
        assert topic not in world.cluster.objects

    run_in(scenario)


@pytest.mark.parametrize("name", [PLAIN, LONGEST], ids=["odd", "long"])
def test_a_topic_has_exactly_its_name_in_the_broker_and_no_label_is_made_of_it(name: str) -> None:
    async def scenario(scene: Scene) -> None:
        world = scene.world
        world.give_broker()
        world.give_stream(streamName="S " + name[:100])
        sinks = [{"name": "lake", "type": "Console", "spark": {"launcher": "Native"}}]
        topic = world.give_topic("orders-v1", topicName=name, sinks=sinks)
        await world.resync()
        await scene.go(120)

        assert [key[1] for key in world.broker.topics] == [name]
        assert world.status(topic)["topicName"] == name
        assert world.says(topic) == ("True", "Synced")
        for ref, value in world.cluster.objects.items():
            assert NAME.fullmatch(ref.name), ref
            assert len(ref.name) <= 63, ref
            for text in value["metadata"].get("labels", {}).values():
                assert LABEL.fullmatch(text), (ref, text)
                assert len(text) <= 63, (ref, text)
        assert scene.launchers.started

    play(scenario)


def test_only_the_field_that_was_changed_is_changed() -> None:
    async def scenario(world: OperatorWorld) -> None:
        world.give_broker()
        world.give_stream()
        topic = world.give_topic(
            partitions=4, retention={"messageExpiry": "1h", "maxSize": "2Gi"}, compression="Gzip"
        )
        await world.resync()

        def kept() -> tuple[int, int, int, int]:
            header = world.broker.topics["shop", "orders"]
            return (header.message_expiry_us, header.max_topic_size_bytes, header.compression,
                    header.partitions_count)  # fmt: skip

        hour_us, size, gzip = 3_600_000_000, 2 << 30, 2
        number = world.broker.topics["shop", "orders"].id
        assert kept() == (hour_us, size, gzip, 4)

        world.cluster.change_spec(topic, retention={"messageExpiry": "2h", "maxSize": "2Gi"})
        await world.go(5)
        assert kept() == (2 * hour_us, size, gzip, 4)

        world.cluster.change_spec(topic, retention={"messageExpiry": "2h", "maxSize": "3Gi"})
        await world.go(5)
        assert kept() == (2 * hour_us, 3 << 30, gzip, 4)

        # What is taken out of the spec goes to its documented default: never.
        world.cluster.change_spec(topic, retention={"messageExpiry": "never", "maxSize": "3Gi"})
        await world.go(5)
        assert kept() == ((1 << 64) - 1, 3 << 30, gzip, 4)

        world.cluster.change_spec(topic, partitions=2)  # the API server refuses that; if it did not
        await world.go(5)
        assert kept()[3] == 4
        assert world.says(topic, "Synced") == ("False", "MorePartitions")
        assert world.broker.topics["shop", "orders"].id == number

    run_in(scenario)


def test_many_changes_in_one_edit_are_applied_as_far_as_they_can_be() -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        claim, count = world.uid(CLAIM), len(world.sets.started)
        wish(world, "20Gi", storageClassName="fast", accessMode="ReadWriteOncePod")
        world.cluster.change_spec(BROKER, image="other:2")
        world.cluster.change_spec(
            STATEFUL_SET, serviceName="of-another-time", podManagementPolicy="OrderedReady"
        )
        await world.go(130)

        assert world.spec(POD)["containers"][0]["image"] == "other:2"
        assert (world.claimed(), world.uid(CLAIM)) == ("20Gi", claim)
        assert world.spec(STATEFUL_SET)["serviceName"] == "main-headless"
        assert template_of(world)["accessModes"] == ["ReadWriteOnce"]
        assert world.says(BROKER, "StorageReady") == ("False", "ImmutableMismatch")
        for field in ("storage.storageClassName", "storage.accessMode"):
            assert field in world.message(BROKER, "StorageReady")
        assert len(world.sets.started) <= count + 2
        writes = len(world.faults.verbs("apply", "create", "delete"))
        await world.go(600)
        assert len(world.faults.verbs("apply", "create", "delete")) == writes, "no trying for ever"

    run_managed(scenario)


def test_a_wait_of_ten_minutes_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: ManagedWorld) -> None:
        world.sets.binds_claims = False
        world.give_managed()
        world.give_stream()
        await world.resync()
        await world.go(600)
        assert world.says(BROKER) == ("False", "VolumePending")

    with caplog.at_level("INFO", logger="iggy_operator"):
        run_managed(scenario)

    assert [record for record in caplog.records if record.levelname != "INFO"] == []
    assert len(caplog.records) <= 10, "at most one a minute"


def test_a_claim_of_a_deleted_broker_is_never_somebody_elses() -> None:
    """What outlives its broker is found by the next one of its name, and by no other."""

    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        claim = world.uid(CLAIM)
        world.cluster.remove(BROKER)
        await world.go(70)
        world.give_managed("other")
        await world.go(70)

        assert world.uid(CLAIM) == claim
        assert world.uid(Ref("PersistentVolumeClaim", "shop", "data-other-0")) != claim
        assert world.secret("main-root", "password") != world.secret("other-root", "password")

    run_managed(scenario)
