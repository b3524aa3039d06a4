"""Whatever single write of a managed broker's life the process ends after, it heals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desired_cases import NEXT_RELEASE
from iggy_operator import units
from iggy_operator.cluster import Ref
from managed_world import (
    BROKER,
    CLAIM,
    POD,
    STATEFUL_SET,
    ManagedWorld,
    rendered_size,
    run_managed,
    started,
    wish,
)
from planted_faults import CLUSTER_FAULTS, Made
from troubled_lives import Lives, concerns, live

ARCHIVE_CLAIM = Ref("PersistentVolumeClaim", "shop", "archive-main-0")
ARCHIVER = {"kind": "Disk", "disk": {}}
OFF = {"kind": "None"}
CONFIG = Ref("ConfigMap", "shop", "main-config")
EVERY = 4  # all calls take long, and say the same


async def life(world: ManagedWorld) -> None:
    """Make, use, change, grow, restart, hibernate, thin out."""
    stream = world.give_stream()
    world.give_managed(monitoring={"podMonitor": True})
    await live(world)
    assert world.says(stream) == ("True", "Synced")
    password = world.secret("main-root", "password")
    world.cluster.change_spec(BROKER, config={"heartbeat.interval": "40 s"})
    await live(world)
    assert world.cluster.objects[CONFIG]["data"]
    pod = world.uid(POD)
    wish(world, "20Gi")
    await live(world)
    assert world.claimed() == rendered_size(world) == "20Gi"
    assert world.uid(POD) == pod
    world.cluster.annotate(BROKER, "restart-at", "2026-05-01T12:00:00Z")
    await live(world)
    assert world.uid(POD) != pod
    world.cluster.change_spec(BROKER, hibernate=True, networkPolicy={"enabled": False})
    await live(world)
    assert world.says(BROKER) == ("False", "Hibernated")
    assert world.cluster.names("NetworkPolicy") == world.cluster.names("Pod") == []
    world.cluster.change_spec(BROKER, hibernate=False)
    await live(world)
    assert world.says(BROKER) == ("True", "Synced")
    assert world.says(stream) == ("True", "Synced")
    assert world.secret("main-root", "password") == password
    assert len(world.sets.started) == 4
    assert "resourceVersion" in world.cluster.objects[STATEFUL_SET]["metadata"]
    world.cluster.remove(BROKER)
    await live(world)
    assert world.cluster.names("StatefulSet") == []
    assert world.cluster.names("PersistentVolumeClaim") == [CLAIM.name]


async def archived_life(world: ManagedWorld) -> None:
    """Get an archive of its own, let it grow, do without."""
    world.metrics = ["iggy_archiver_failing 0"]
    world.give_managed()
    await live(world)
    world.cluster.change_spec(BROKER, archiver=ARCHIVER, restoreFrom={})
    await live(world)
    assert world.says(BROKER, "ArchiveHealthy") == ("True", "Synced")
    pod = world.uid(POD)
    world.cluster.change_spec(BROKER, archiver=ARCHIVER | {"disk": {"size": "40Gi"}})
    await live(world)
    templates = world.spec(STATEFUL_SET)["volumeClaimTemplates"]
    sizes = [one["spec"]["resources"]["requests"]["storage"] for one in templates]
    assert sizes == ["10Gi", "40Gi"]
    assert world.spec(ARCHIVE_CLAIM)["resources"]["requests"]["storage"] == "40Gi"
    assert world.uid(POD) == pod
    world.cluster.change_spec(BROKER, archiver=OFF, restoreFrom=None)
    await live(world)
    assert world.says(BROKER, "ArchiveHealthy") == ("True", "ArchiverOff")
    claims = world.cluster.names("PersistentVolumeClaim")
    assert claims == [ARCHIVE_CLAIM.name, CLAIM.name]
    assert len(world.sets.started) == 3


LIVES = Lives(run_managed, life)
ARCHIVED_LIVES = Lives(run_managed, archived_life)


def test_a_kill_after_every_single_write_heals() -> None:
    LIVES.check_kills(more_than=20)
    ARCHIVED_LIVES.check_kills(more_than=10)


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("fault", CLUSTER_FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_at_any_write_heals(fault: Exception, lost: bool) -> None:
    def may_hit(call: Made) -> bool:
        return concerns(fault, call) and call.is_write

    LIVES.check_faults(fault, may_hit, lost=lost, every=EVERY, more_than=20)


EDITS = st.lists(
    st.sampled_from(
        ["image", "grow", "shrink", "hibernate", "wake", "lose set", "lose set and pod", "lose pod",
         "lose config", "restart", "release", "wait", "sleep", "work", "no growth", "restart-at",
         "rotate-password-at", "pause", "go on"]
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(EDITS)
def test_whatever_happens_in_between_the_end_is_as_the_spec_says(edits: list[str]) -> None:
    async def scenario(world: ManagedWorld) -> None:
        await started(world)
        claim = world.uid(CLAIM)
        size_max = 10
        for number, edit in enumerate(edits):
            await happen(world, edit, number)
            size = units.quantity_bytes(world.claimed()) >> 30
            assert size >= size_max, "a volume never shrinks"
            size_max = size
        for edit in ("work", "wake", "go on"):
            await happen(world, edit, 0)
        world.sets.give_class("standard", grows=True)
        wish(world, "99Gi")
        world.cluster.change_spec(BROKER, image="last:1")
        await world.go(700)

        assert world.says(BROKER) == ("True", "Synced")
        assert world.says(BROKER, "StorageReady") == ("True", "Synced")
        assert world.says(BROKER, "Progressing") == ("False", "Synced")
        assert world.claimed() == rendered_size(world) == "99Gi"
        assert world.status(BROKER)["image"] == "last:1"
        assert world.root() == ("iggy", world.secret("main-root", "password"))
        assert (world.uid(CLAIM), world.cluster.names("ConfigMap")) == (claim, ["main-config"])

    run_managed(scenario)


async def happen(world: ManagedWorld, edit: str, number: int) -> None:  # noqa: C901 -- a table
    objects = world.cluster.objects
    match edit:
        case "image":
            world.cluster.change_spec(BROKER, image=f"other:{number}")
        case "grow" | "shrink":
            wish(world, f"{11 + number if edit == 'grow' else 5}Gi")
        case "hibernate" | "wake":
            world.cluster.change_spec(BROKER, hibernate=edit == "hibernate")
        case "lose set" | "lose set and pod" if STATEFUL_SET in objects:
            world.cluster._delete(STATEFUL_SET, orphan=edit == "lose set")
        case "lose pod" | "lose config" if (
            ref := POD if edit == "lose pod" else CONFIG
        ) in objects:
            world.cluster.remove(ref)
        case "restart" | "release":
            world.product = NEXT_RELEASE if edit == "release" else world.product
            world.start()
        case "sleep":
            world.sets.is_asleep = True
        case "work":
            world.sets.work()
        case "no growth":
            world.sets.give_class("standard", grows=False)
        case "restart-at" | "rotate-password-at":
            world.cluster.annotate(BROKER, edit, f"2026-05-{number + 1:02}T12:00:00Z")
        case "pause" | "go on":
            world.cluster.annotate(BROKER, "paused", "true" if edit == "pause" else None)
        case "wait":
            await world.go(70)
