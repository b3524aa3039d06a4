"""The metadata on a disk that refuses any one change, or all from then on."""

from __future__ import annotations

import errno

import pytest

from iggy_broker.metadata import changes, journal
from iggy_broker.metadata.journal import Journal, JournalFull
from metadata_cases import accepted_entries, replayed
from refusing_disk import RefusingDisk

ROOT = "/mnt/data"
HISTORY = accepted_entries([changes.CreateStream(f"s{number}") for number in range(12)])


def append(log: Journal, done: int) -> int:
    """Append the next entry; how many of them are there now."""
    try:
        log.append_now(replayed(HISTORY[: done + 1]), HISTORY[done : done + 1])
    except JournalFull:
        return done
    return done + 1


def made(refuse_at: int, refusals: int, code: int) -> tuple[RefusingDisk, Journal]:
    disk = RefusingDisk(0, 0, code)
    disk.make_folders(ROOT)
    disk.settle()
    log = journal.load(ROOT, disk=disk, entries_max=3).journal
    disk.refuse_at, disk.refusals = disk.changes + refuse_at, refusals
    return disk, log


@pytest.mark.parametrize("refusals", [1, 4, 1_000_000])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_refusal_at_any_change_is_only_that(code: int, refusals: int) -> None:
    for refuse_at in range(60):
        disk, log = made(refuse_at, refusals, code)
        done = 0
        for _ in range(8):
            done = append(log, done)
        survived = journal.load(ROOT, disk=disk.crash(power_cut=False), entries_max=3)
        assert survived.state == replayed(HISTORY[:done])

        disk.refusals = 0  # there is room again
        while done < len(HISTORY):
            done = append(log, done)
        log.close()

        after = journal.load(ROOT, disk=disk.crash(power_cut=True), entries_max=3)
        assert after.state == replayed(HISTORY)
        assert after.notes == ()


@pytest.mark.parametrize("tail_bytes", [1, 40])
def test_a_torn_tail_does_not_keep_a_full_disk_from_starting(tail_bytes: int) -> None:
    disk, log = made(0, 0, errno.ENOSPC)
    assert append(log, 0) == 1
    path = f"{ROOT}/{journal.FOLDER}/{journal.JOURNAL_FILE}"
    disk.open(path).write(b"x" * tail_bytes, disk.size(path))
    disk.capacity_bytes = disk.used_bytes()

    recovered = journal.load(ROOT, disk=disk, entries_max=3)

    assert recovered.state == replayed(HISTORY[:1])
    assert f"cut a torn tail of {tail_bytes} bytes" in recovered.notes[0]
    assert "kept nowhere" in recovered.notes[0]


def test_a_torn_tail_is_not_thrown_away_because_the_disk_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, log = made(0, 0, errno.ENOSPC)
    assert append(log, 0) == 1
    path = f"{ROOT}/{journal.FOLDER}/{journal.JOURNAL_FILE}"
    disk.open(path).write(b"torn", disk.size(path))
    size_bytes = disk.size(path)

    def fails(*args: object, **settings: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(disk, "write_file", fails)
    with pytest.raises(OSError, match="input/output error"):
        journal.load(ROOT, disk=disk, entries_max=3)
    assert disk.size(path) == size_bytes
    monkeypatch.undo()

    recovered = journal.load(ROOT, disk=disk, entries_max=3)
    assert f"kept in {journal.CUT_FILE}" in recovered.notes[0]
