"""The journal: what was appended comes back, whole or as a prefix, or the broker does not start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iggy_broker.metadata import changes, journal
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import AnyChange, Entry
from iggy_broker.metadata.journal import Journal, JournalFull, MetadataDamaged, Recovered
from iggy_broker.metadata.model import State
from iggy_broker.storage.disk import StorageFailed
from metadata_cases import HISTORIES, QuickDisk, accepted_entries, replayed

MADE = [changes.CreateStream(name) for name in "abcdefgh"]


def load(root: Path, *, entries_max: int = 1000) -> Recovered:
    return journal.load(str(root), disk=QuickDisk(), entries_max=entries_max)


def write(root: Path, entries: list[Entry], *, group: int = 1, entries_max: int = 1000) -> State:
    """Append in records of `group` entries; the state after them."""
    recovered = load(root, entries_max=entries_max)
    state = recovered.state
    for at in range(0, len(entries), group):
        part = entries[at : at + group]
        state = replayed(part, state)
        recovered.journal.append_now(state, part)
    recovered.journal.close()
    return state


def journal_path(root: Path) -> Path:
    return root / journal.FOLDER / journal.JOURNAL_FILE


@given(HISTORIES, st.integers(1, 9), st.integers(1, 30))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_snapshot_and_tail_are_the_replay_of_all_changes(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[AnyChange],
    group: int,
    entries_max: int,
) -> None:
    root = tmp_path_factory.mktemp("data")
    entries = accepted_entries(history)

    write(root, entries, group=group, entries_max=entries_max)

    assert load(root).state == replayed(entries)
    assert (root / "metadata" / "snapshot.bin").exists() == (len(entries) >= entries_max)


def test_a_journal_cut_at_any_byte_keeps_a_prefix(tmp_path: Path) -> None:
    entries = accepted_entries(MADE)
    write(tmp_path, entries)
    whole = journal_path(tmp_path).read_bytes()
    prefixes = {replayed(entries[:count]).op: replayed(entries[:count]) for count in range(9)}

    seen = []
    for length in range(len(whole) + 1):
        journal_path(tmp_path).write_bytes(whole[:length])
        recovered = load(tmp_path)
        assert recovered.state == prefixes[recovered.state.op]
        seen.append(recovered.state.op)
        # What is appended next must be found behind what was kept, and nothing else.
        entry = Entry(recovered.state.op + 1, 5, 0, changes.CreateStream("next"))
        recovered.journal.append_now(apply(recovered.state, entry).state, [entry])
        recovered.journal.close()
        assert load(tmp_path).state == apply(recovered.state, entry).state

    assert seen == sorted(seen)
    assert set(seen) == set(range(9))


def test_a_torn_tail_is_kept_aside_and_reported(tmp_path: Path) -> None:
    write(tmp_path, accepted_entries(MADE))
    whole = journal_path(tmp_path).read_bytes()
    journal_path(tmp_path).write_bytes(whole[:-3])

    recovered = load(tmp_path)

    assert recovered.state.op == 7
    cut = (tmp_path / "metadata" / "journal.cut").read_bytes()
    assert journal_path(tmp_path).read_bytes() + cut == whole[:-3]
    assert f"torn tail of {len(cut)} bytes" in recovered.notes[0]
    assert load(tmp_path).notes == ()


@pytest.mark.parametrize("tail", [bytes(1), bytes(5000), b"\xff" * 64, b"RIGK" * 9])
def test_a_tail_without_a_record_is_cut(tmp_path: Path, tail: bytes) -> None:
    write(tmp_path, accepted_entries(MADE))
    with journal_path(tmp_path).open("ab") as file:
        file.write(tail)

    recovered = load(tmp_path)

    assert recovered.state == replayed(accepted_entries(MADE))
    assert recovered.notes


def test_rot_before_the_end_stops_the_start(tmp_path: Path) -> None:
    write(tmp_path, accepted_entries(MADE))
    whole = journal_path(tmp_path).read_bytes()
    last_record = whole.rindex(b"RIGK") - 4

    for at in range(16, last_record):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        journal_path(tmp_path).write_bytes(damaged)
        with pytest.raises(MetadataDamaged, match="damaged and others follow"):
            load(tmp_path)


def test_a_damaged_snapshot_stops_the_start(tmp_path: Path) -> None:
    write(tmp_path, accepted_entries(MADE), entries_max=8)
    path = tmp_path / "metadata" / "snapshot.bin"
    whole = path.read_bytes()

    for damaged in (whole[:-1], whole[:40] + b"\x00" + whole[41:], b""):
        path.write_bytes(damaged)
        with pytest.raises(MetadataDamaged, match=r"snapshot\.bin"):
            load(tmp_path)


def test_a_missing_snapshot_stops_the_start(tmp_path: Path) -> None:
    entries = accepted_entries(MADE)
    write(tmp_path, entries, entries_max=5)
    (tmp_path / "metadata" / "snapshot.bin").unlink()

    with pytest.raises(MetadataDamaged, match="change 1 is missing"):
        load(tmp_path)


def test_a_crash_between_snapshot_and_new_journal_changes_nothing(tmp_path: Path) -> None:
    entries = accepted_entries(MADE)
    write(tmp_path, entries[:5])
    old = journal_path(tmp_path).read_bytes()
    state = write(tmp_path, entries[5:6], entries_max=6)
    assert len(journal_path(tmp_path).read_bytes()) < len(old)
    journal_path(tmp_path).write_bytes(old)  # as if the second step never happened

    assert load(tmp_path).state == state
    assert write(tmp_path, entries[6:]) == replayed(entries) == load(tmp_path).state


def test_files_of_others_and_of_newer_brokers_are_refused(tmp_path: Path) -> None:
    write(tmp_path, accepted_entries(MADE))
    whole = journal_path(tmp_path).read_bytes()

    journal_path(tmp_path).write_bytes(bytes(256))
    with pytest.raises(MetadataDamaged, match=r"not IggyKube metadata; point system\.path"):
        load(tmp_path)
    journal_path(tmp_path).write_bytes(whole[:8] + b"\x04" + whole[9:])
    with pytest.raises(MetadataDamaged, match="format 4 is newer"):
        load(tmp_path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_journal_of_an_older_format_is_of_this_one_before_it_grows(
    tmp_path: Path, version: int
) -> None:
    entries = accepted_entries(MADE)
    write(tmp_path, entries[:3])
    whole = journal_path(tmp_path).read_bytes()
    journal_path(tmp_path).write_bytes(whole[:8] + bytes([version]) + whole[9:])

    assert load(tmp_path).state == replayed(entries[:3])

    assert journal_path(tmp_path).read_bytes() == whole
    assert write(tmp_path, entries[3:]) == replayed(entries) == load(tmp_path).state


def test_the_journal_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BYTES_MAX", 300)
    entries = accepted_entries([changes.CreateStream(f"stream-{n}") for n in range(50)])

    write(tmp_path, entries)

    assert journal_path(tmp_path).stat().st_size < 600
    assert load(tmp_path).state == replayed(entries)


async def append_all(open_journal: Journal, entries: list[Entry]) -> State:
    state = State()
    for entry in entries:
        state = apply(state, entry).state
        await open_journal.append(state, [entry])
    return state


def test_appending_off_the_loop_is_the_same(tmp_path: Path) -> None:
    recovered = load(tmp_path, entries_max=3)

    state = asyncio.run(append_all(recovered.journal, accepted_entries(MADE)))
    recovered.journal.close()

    assert load(tmp_path).state == state


class FailingDisk(QuickDisk):
    """A disk that can fail where it is told to."""

    __slots__ = ("failing",)

    def __init__(self) -> None:
        super().__init__()
        self.failing = False

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        if self.failing:
            raise OSError(28, "No space left on device")
        super().write_file(path, data, sync=sync)


def test_without_room_for_a_snapshot_the_journal_goes_on(tmp_path: Path) -> None:
    disk, warnings = FailingDisk(), list[str]()
    recovered = journal.load(str(tmp_path), disk=disk, entries_max=2, warn=warnings.append)
    disk.failing = True

    state = asyncio.run(append_all(recovered.journal, accepted_entries(MADE)))
    recovered.journal.close()

    assert len(warnings) == 4, "it tries again every other change, not with each"
    assert "No space left" in warnings[0]
    assert load(tmp_path).state == state


def test_a_failed_write_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = accepted_entries(MADE)
    recovered = load(tmp_path)
    recovered.journal.append_now(replayed(entries[:1]), entries[:1])

    def half(self: object, data: bytes, position: int) -> None:
        with journal_path(tmp_path).open("r+b") as file:
            file.seek(position)
            file.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("metadata_cases.QuickFile.write", half)
        with pytest.raises(JournalFull, match="No space left"):
            recovered.journal.append_now(replayed(entries[:2]), entries[1:2])
    recovered.journal.append_now(replayed(entries[:2]), entries[1:2])
    recovered.journal.close()

    again = load(tmp_path)
    assert again.state == replayed(entries[:2])
    assert again.notes == ()


def test_a_failed_sync_is_fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = accepted_entries(MADE)
    recovered = load(tmp_path)

    def broken(self: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("metadata_cases.QuickFile.sync", broken)
    with pytest.raises(StorageFailed, match="sync failed"):
        asyncio.run(append_all(recovered.journal, entries))
    recovered.journal.close()


def test_a_journal_that_cannot_be_folded_stops_growing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BYTES_HARD_MAX", 100)
    entries = accepted_entries(MADE)
    recovered = load(tmp_path)

    with pytest.raises(JournalFull, match="cannot be folded"):
        asyncio.run(append_all(recovered.journal, entries))
    recovered.journal.close()

    assert load(tmp_path).state.op == 1
