"""An archive that was taken over, and the former owner, who does not know it yet and goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cleaned_topic import READER
from iggy_broker.archive import ownership
from iggy_broker.archive.fences import read_fences
from iggy_broker.archive.owner import claim, read_note
from iggy_broker.archive.ownership import Ours, Ownership
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.metadata import changes
from iggy_broker.restore.survey import survey
from iggy_broker.storage.disk import Disk
from iggy_wire.archive import OWNER_KEY
from iggy_wire.batch import Message, build
from two_owners import OwnedTopic, first_owner, restored, spark_reads

STEPS = 5
"""Of copying, from one try to the next: no multiple of what one object takes."""
FULL = pytest.mark.parametrize("is_full", [False, True], ids=["lazy", "full"])


def read_by_all(owner: OwnedTopic, folder: Path, *, is_full: bool) -> None:
    """A listing, Spark, and who restores from the archive find what the owner has sent."""
    expected = owner.sent
    store, end = owner.shared, len(expected)
    (held,) = survey(store, is_all=True, fences=read_fences(store))
    spans = [(one.start_offset, one.next_offset) for one in held.listing.segments]
    assert [spans[0][0], *(stop for _, stop in spans)] == [*(start for start, _ in spans), end]
    assert (held.next_offset, held.listing.gaps, held.problems) == (end, (), ())
    found = spark_reads(store, folder / "spark")
    assert found == [(message.offset, message.payload) for message in expected]
    heir = restored(owner, "heir", folder / "heir", is_full=is_full, take_over=False)
    assert heir.read_on() == expected
    assert heir.partition().next_offset == end


def taken_over_at(step: int, folder: Path, *, is_full: bool) -> tuple[bool, OwnedTopic]:
    """The archive changes hands before a step of the former owner's copying, who then goes on.

    Whether there was such a step, and the new owner.
    """
    former = first_owner()
    former.grow(20)
    former.copy()
    former.grow(16)
    new: list[OwnedTopic] = []

    def meanwhile() -> None:
        new.append(restored(former, "new", folder / "new", is_full=is_full))
        new[0].grow(18)
        new[0].copy()

    store = former.shared
    store.meanwhile, store.meanwhile_at = meanwhile, store.steps + step
    former.copy()
    store.meanwhile_at, is_reached = -1, bool(new)
    if not is_reached:
        meanwhile()
    former.grow(30)
    former.copy()
    return is_reached, new[0]


@FULL
@pytest.mark.usefixtures("never_again")
def test_whatever_the_former_owner_copies_the_new_ones_messages_are_read(
    is_full: bool, tmp_path: Path
) -> None:
    step, is_reached = 0, True
    while is_reached:
        folder = tmp_path / str(step)
        folder.mkdir()
        is_reached, owner = taken_over_at(step, folder, is_full=is_full)
        owner.grow(4)
        owner.copy()
        owner.forget()
        assert owner.read_on() == owner.sent
        read_by_all(owner, folder, is_full=step % 2 == 0)
        step += STEPS
    assert step > 20


def taken_over(folder: Path, *, is_full: bool = False) -> tuple[OwnedTopic, OwnedTopic]:
    """The former owner, with messages that it has not copied, and the new one, which has none."""
    former = first_owner()
    former.grow(20)
    former.partition().store_offset(READER, 3)
    former.copy()
    former.grow(40)
    return former, restored(former, "new", folder / "new", is_full=is_full)


@pytest.fixture
def never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has looked whose archive it is does not look again."""
    look = Ownership.now

    def now(self: Ownership, store: ArchiveStore, disk: Disk) -> Ours:
        return look(self, store, disk) if self._seen_us is None else self._ours

    monkeypatch.setattr(Ownership, "now", now)
    monkeypatch.setattr(ownership, "FRESH_US", 1 << 60)


@FULL
@pytest.mark.usefixtures("never_again")
def test_what_is_copied_behind_the_take_over_does_not_come_back(
    is_full: bool, tmp_path: Path
) -> None:
    former, owner = taken_over(tmp_path, is_full=is_full)
    before = len(former.shared.objects)
    former.copy()
    assert len(former.shared.objects) > before, "it does not know"
    read_by_all(owner, tmp_path, is_full=is_full)


@pytest.mark.usefixtures("never_again")
def test_a_former_owner_writes_over_nothing(tmp_path: Path) -> None:
    former, owner = taken_over(tmp_path)
    owner.grow(3)
    owner.partition().store_offset(READER, 7)
    owner.copy()
    there = dict(owner.shared.objects)
    by_owner = {key for key in there if "-2" in key}
    assert {key.rpartition("/")[2] for key in by_owner} >= {"snapshot-2", "offsets-2.json"}

    former.partition().store_offset(READER, 1)
    former.change(changes.DeleteTopic("s", "t"))
    asyncio.run(former.archiver.state_pass())
    heir = restored(owner, "heir", tmp_path / "heir", is_full=False)
    assert {key: owner.shared.objects[key] for key in by_owner} == {
        key: there[key] for key in by_owner
    }
    assert heir.partition().offsets.get(READER) == 7
    assert heir.read_on() == owner.sent


@pytest.mark.usefixtures("never_again")
def test_lives_that_a_former_owner_begins_are_nobodys(tmp_path: Path) -> None:
    former, owner = taken_over(tmp_path)
    host = former.host

    def go_on() -> set[str]:
        batch = build([Message(b"of nobody")], origin_timestamp_us=1)
        former.partition().append(memoryview(batch))
        former.copy()
        return {key.split("/")[3] for key in former.shared.objects if key.startswith("streams/")}

    former.change(changes.PurgeTopic("s", "t"))
    asyncio.run(host.purge_partitions(former.state, list(former.state.placed())))
    assert len(go_on()) == 2, "emptied"
    placed = list(former.state.placed())
    former.change(changes.DeleteTopic("s", "t"))
    asyncio.run(host.remove_partitions(former.state, placed))
    former.change(changes.CreateTopic("s", "t", 1))
    asyncio.run(host.open_partitions(former.state, list(former.state.placed())))
    assert len(go_on()) == 3, "made anew"
    read_by_all(owner, tmp_path, is_full=False)


def test_a_former_owner_that_was_stopped_looks_before_its_next_manifest(tmp_path: Path) -> None:
    former, owner = taken_over(tmp_path)
    there = dict(owner.shared.objects)
    former.clock.pass_s(2)
    former.copy()
    changed = {key for key, data in former.shared.objects.items() if there.get(key) != data}
    assert {key.rpartition(".")[2] for key in changed} <= {"log", "index", "part"}
    assert former.counters_of.archiver_failing == 1


def test_pieces_of_the_former_owner_go_when_the_new_one_has_them_sealed(tmp_path: Path) -> None:
    _, owner = taken_over(tmp_path, is_full=True)
    first = owner.partition().log.segments[-1].first_offset
    tail = f"{first:020d}."
    assert any(f"/{tail}" in key for key in owner.shared.objects)
    owner.grow(60)
    owner.copy()
    assert not any(f"/{tail}" in key for key in owner.shared.objects)
    read_by_all(owner, tmp_path, is_full=True)


def test_each_owner_has_its_own_fence(tmp_path: Path) -> None:
    former, owner = taken_over(tmp_path)
    owner.grow(5)
    owner.copy()
    owner.grow(30)
    third = restored(owner, "third", tmp_path / "third", is_full=False)
    third.grow(5)
    third.copy()
    for stopped in (owner, former):
        stopped.archiver._ownership.check = lambda store, owner_id: None  # type: ignore[method-assign]
        stopped.copy()
    read_by_all(third, tmp_path, is_full=True)


def test_a_directory_that_is_given_an_archive_comes_behind_all_owners(tmp_path: Path) -> None:
    """As one from a backup: what it has on its disk counts from there on."""
    former, owner = taken_over(tmp_path)
    owner.grow(5)
    owner.copy()
    del former.shared.objects[OWNER_KEY]
    note = read_note(former.disk, "/data")
    assert note is not None
    claim(former.store, former.disk, "/data", now_us=1, abandoned=note.id)
    former.restart()
    former.grow(2)
    former.copy()
    assert former.sent != owner.sent
    read_by_all(former, tmp_path, is_full=True)


def test_fences_that_somebody_has_removed_are_put_again(tmp_path: Path) -> None:
    former, owner = taken_over(tmp_path)
    key = read_fences(former.shared).key
    noted = former.shared.objects.pop(key)
    owner.restart()
    owner.grow(2)
    owner.copy()
    assert former.shared.objects[key] == noted
    read_by_all(owner, tmp_path, is_full=False)
