"""Starting with a log that was cut off or is damaged: what is served, cut and said."""

from __future__ import annotations

import pytest

from iggy_broker.errors import Reject
from iggy_broker.storage import layout
from iggy_broker.storage.cutting import CUT_SETS_MAX, DecisionKind
from storage_cases import (
    FOLDER,
    LAST,
    disk_of,
    from_offset,
    killed,
    simulated_world,
    three_batches,
)

LOG_0 = layout.log_path(FOLDER, 0)


@pytest.mark.parametrize("keep", [0, 1, 7, 40, 255, 256, 257, 300, 303, 304, 487])
def test_a_torn_last_batch_is_cut_and_kept_aside(keep: int) -> None:
    world, start = three_batches()
    disk = killed(world)
    size = disk.size(LOG_0)
    torn = bytes(disk.entries[LOG_0].data[start : start + keep])
    disk.open(LOG_0).truncate(start + keep)

    partition = world.restart(disk)

    assert partition.next_offset == 5
    assert disk.size(LOG_0) == start < size
    assert world.everything() == world.stored[:5]
    if keep:
        (decision,) = partition.recovery
        assert decision.kind is DecisionKind.TAIL_CUT
        assert (decision.offset, decision.position) == (5, start)
        assert (decision.cut_bytes, decision.kept_bytes) == (keep, keep)
        assert disk.read_file(decision.kept_path, bytes_max=1000) == torn
        assert f"truncated {keep} bytes" in str(decision)
    world.stored = world.stored[:5]
    assert world.append(1) == 5
    assert world.everything() == world.stored


@pytest.mark.parametrize("zeros", [1, 200, 256, 4096, 20_000])
def test_zeros_behind_the_last_batch_are_cut(zeros: int) -> None:
    world, _ = three_batches()
    disk = killed(world)
    size = disk.size(LOG_0)
    disk.open(LOG_0).truncate(size + zeros)

    partition = world.restart(disk)

    assert partition.next_offset == 9
    assert disk.size(LOG_0) == size
    assert [d.cut_bytes for d in partition.recovery] == [zeros]
    assert world.everything() == world.stored


def test_nothing_behind_a_damaged_unsynced_batch_is_believed() -> None:
    world = simulated_world()
    world.append(1)
    world.partition.sync_now()
    start = world.partition.log.size_bytes
    for _ in range(200):
        world.append(1, 3000)  # over several segments
    disk = killed(world)
    disk.open(LOG_0).write(b"\xff", start + 300)

    partition = world.restart(disk)

    assert partition.next_offset == 1
    kinds = [decision.kind for decision in partition.recovery]
    assert kinds[0] is DecisionKind.TAIL_CUT
    assert set(kinds[1:]) == {DecisionKind.SEGMENT_SET_ASIDE}
    assert all(disk.exists(decision.kept_path) for decision in partition.recovery)
    assert disk.list_folder(FOLDER).count("00000000000000000000.log") == 1
    world.stored = world.stored[:1]
    world.append(2)
    assert world.everything() == world.stored


def test_what_recoveries_cut_is_kept_for_a_few_of_them() -> None:
    world, _ = three_batches()
    for _ in range(CUT_SETS_MAX + 3):
        disk = killed(world)
        disk.open(LOG_0).write(b"torn", disk.size(LOG_0))
        world.restart(disk)

    kept = disk_of(world).list_folder(f"{FOLDER}/{layout.CUT_FOLDER}")

    assert len(kept) == CUT_SETS_MAX
    assert world.everything() == world.stored


DAMAGES = {
    "missing": lambda whole: b"",
    "short": lambda whole: whole[:-30],
    "zeros": lambda whole: whole[:-24] + bytes(24),
    "other": lambda whole: whole[:8] + b"\xff" * 8 + whole[16:],
    "long": lambda whole: whole + whole,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_doubtful_index_is_made_anew(damage: str, stop: str) -> None:
    world = simulated_world()
    for _ in range(60):
        world.append(2, 1000)
    world.partition.sync_now()
    segments = len(world.partition.log.segments)
    assert segments > 2
    if stop == "clean":
        world.partition.close()
    disk = killed(world)
    for path in [path for path in disk.entries if path.endswith(".index")]:
        node = disk.entries[path]
        node.data = bytearray(DAMAGES[damage](bytes(node.data)))
        if damage == "missing":
            del disk.entries[path]

    world.restart(disk)

    assert world.everything() == world.stored
    for stored in world.stored[::7]:
        assert world.poll(from_offset(stored.offset), 1) == [stored]
    world.append(5)
    assert world.everything() == world.stored


def test_index_entries_that_point_between_batches_are_noticed() -> None:
    world = simulated_world()
    for _ in range(60):
        world.append(2, 1000)
    world.partition.sync_now()
    disk = killed(world)
    path = layout.index_path(FOLDER, 0)
    entries = disk.entries[path].data
    entries[24 + 16] ^= 4  # the position of the second entry

    world.restart(disk)

    assert world.everything() == world.stored


def test_damage_in_synced_bytes_ends_polls_before_it() -> None:
    world = simulated_world()
    for _ in range(100):
        world.append(1, 2000)
    world.partition.close()
    disk = disk_of(world)
    disk.entries[LOG_0].data[5 * 2304 + 1000] ^= 1

    world.open()

    assert world.everything() == world.stored[:5]
    assert world.poll(from_offset(5), 10) == []
    assert world.poll(from_offset(5), 1) == []
    assert world.poll(from_offset(40), 10) == world.stored[40:50]
    assert len(world.warnings) == 1
    assert "offset 5 on are not served" in world.warnings[0]


def test_damage_is_handed_out_when_nobody_wants_checks() -> None:
    world = simulated_world(validate_checksum=False)
    for _ in range(100):
        world.append(1, 2000)
    world.partition.close()
    disk_of(world).entries[LOG_0].data[5 * 2304 + 1000] ^= 1

    world.open()

    assert len(world.everything()) == 100


def test_a_missing_segment_in_synced_data_fences_the_partition() -> None:
    world = simulated_world()
    for _ in range(100):
        world.append(1, 2000)
    world.partition.sync_now()
    disk = killed(world)
    del disk.entries[world.partition.log.segments[1].path]

    partition = world.restart(disk)

    assert DecisionKind.FENCED in {decision.kind for decision in partition.recovery}
    with pytest.raises(Reject, match="not served"):
        world.append(1)
    with pytest.raises(Reject, match="not served"):
        world.poll(LAST, 1)
    partition.close()
    again = world.open()
    assert again.fenced  # a clean stop does not make the hole any smaller
    again.purge(1)
    world.stored = []
    assert world.append(1) == 0
    assert world.everything() == world.stored
