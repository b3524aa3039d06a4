"""Stored offsets on disk: exact bytes, odd files, limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from iggy_broker.errors import Reject
from iggy_broker.storage import consumer_offsets
from iggy_broker.storage.consumer_offsets import ConsumerKey, ConsumerOffsets
from iggy_broker.storage.disk import RealDisk
from iggy_wire.kernel import xxh3_64

ONE, GROUP = ConsumerKey(1, 7), ConsumerKey(2, 7)


def load(tmp_path: Path, next_offset: int = 1000) -> tuple[ConsumerOffsets, list[str]]:
    warnings: list[str] = []
    return ConsumerOffsets.load(RealDisk(), str(tmp_path), next_offset, warnings.append), warnings


def test_a_file_holds_the_offset_and_its_checksum(tmp_path: Path) -> None:
    offsets, _ = load(tmp_path)
    offsets.store(ONE, 41)
    offsets.store(ONE, 42)
    offsets.store(GROUP, 5)
    offsets.close()

    value = (42).to_bytes(8, "little")
    expected = value + xxh3_64(value).to_bytes(8, "little")
    assert (tmp_path / "offsets/consumers/7").read_bytes() == expected
    assert (tmp_path / "offsets/groups/7").exists()
    again, warnings = load(tmp_path)
    assert (again.get(ONE), again.get(GROUP), again.get(ConsumerKey(1, 8))) == (42, 5, None)
    assert again.lowest() == 5
    assert warnings == []


def test_odd_files_are_warned_about_and_left_alone(tmp_path: Path) -> None:
    offsets, _ = load(tmp_path)
    offsets.store(ONE, 42)
    offsets.close()
    folder = tmp_path / "offsets/consumers"
    for name in (".DS_Store", "12.bak", "tmp", "007", "-1", "4294967296", "٣"):
        (folder / name).write_bytes(b"something")
    (folder / "70").mkdir()
    (folder / "8").write_bytes(b"")
    (folder / "9").write_bytes((folder / "7").read_bytes()[:5])
    (folder / "10").write_bytes(bytes(8) + b"wrong   ")
    (folder / "11").write_bytes((folder / "7").read_bytes() + b"x")
    before = sorted(folder.iterdir())

    again, warnings = load(tmp_path)

    assert len(again) == 1
    assert again.get(ONE) == 42
    assert len(warnings) == 12
    assert sorted(folder.iterdir()) == before
    again.store(ConsumerKey(1, 11), 3)
    again.store(ConsumerKey(1, 9), 4)
    again.close()
    third, warnings = load(tmp_path)
    assert (third.get(ConsumerKey(1, 11)), third.get(ConsumerKey(1, 9))) == (3, 4)


def test_eight_bytes_of_an_older_server_are_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "offsets/consumers"
    folder.mkdir(parents=True)
    (folder / "7").write_bytes((3).to_bytes(8, "little"))

    offsets, warnings = load(tmp_path)

    assert offsets.get(ONE) == 3
    assert warnings == []
    offsets.store(ONE, 4)
    offsets.close()
    assert len((folder / "7").read_bytes()) == 16


def test_offsets_ahead_of_the_data_are_drawn_back(tmp_path: Path) -> None:
    offsets, _ = load(tmp_path)
    offsets.store(ONE, 500)
    offsets.store(GROUP, 9)
    offsets.close()

    again, warnings = load(tmp_path, next_offset=10)
    assert (again.get(ONE), again.get(GROUP)) == (9, 9)
    assert len(warnings) == 1
    empty, _ = load(tmp_path, next_offset=0)
    assert empty.get(ONE) is None


def test_delete_forgets_and_says_when_there_is_nothing(tmp_path: Path) -> None:
    offsets, _ = load(tmp_path)
    offsets.store(ONE, 1)
    offsets.delete(ONE)

    assert offsets.get(ONE) is None
    assert not (tmp_path / "offsets/consumers/7").exists()
    with pytest.raises(Reject, match="CONSUMER_OFFSET_NOT_FOUND"):
        offsets.delete(ONE)
    offsets.delete_if_stored(ONE)
    offsets.store(ONE, 2)
    assert load(tmp_path)[0].get(ONE) == 2
    offsets.close()


def test_their_number_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_offsets, "CONSUMER_OFFSETS_MAX", 3)
    offsets, _ = load(tmp_path)
    for number in range(3):
        offsets.store(ConsumerKey(1, number), 0)

    with pytest.raises(Reject, match="TOO_MANY_CONSUMER_OFFSETS"):
        offsets.store(ConsumerKey(2, 0), 0)

    offsets.store(ConsumerKey(1, 1), 5)
    offsets.delete(ConsumerKey(1, 2))
    offsets.store(ConsumerKey(2, 0), 0)
    offsets.close()


def test_a_disk_that_refuses_leaves_the_old_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets, _ = load(tmp_path)
    offsets.store(ONE, 1)
    (tmp_path / "offsets/groups").write_bytes(b"a file where the folder belongs")

    with pytest.raises(Reject, match="CANNOT_OPEN_CONSUMER_OFFSETS_FILE"):
        offsets.store(GROUP, 1)

    assert offsets.get(GROUP) is None
    assert offsets.get(ONE) == 1
    offsets.close()
