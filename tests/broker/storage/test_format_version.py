"""A data directory says for which brokers it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.format_version import (
    ENCRYPTED_FORMAT,
    FORMAT_VERSION,
    PLAIN_FORMAT,
    FormatVersionError,
    check_format,
    empty_directory,
)


def test_a_new_directory_is_marked(tmp_path: Path) -> None:
    check_format(RealDisk(), str(tmp_path))
    check_format(RealDisk(), str(tmp_path))

    assert (tmp_path / "format_version").read_text() == f"{PLAIN_FORMAT}\n"


def test_a_mark_rises_and_never_falls(tmp_path: Path) -> None:
    for least in (PLAIN_FORMAT, ENCRYPTED_FORMAT, PLAIN_FORMAT):
        check_format(RealDisk(), str(tmp_path), least=least)
    assert (tmp_path / "format_version").read_text() == f"{ENCRYPTED_FORMAT}\n"
    (tmp_path / "new").mkdir()
    check_format(RealDisk(), str(tmp_path / "new"), least=ENCRYPTED_FORMAT)
    assert (tmp_path / "new" / "format_version").read_text() == f"{ENCRYPTED_FORMAT}\n"


def test_a_newer_one_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "format_version").write_text(f"{FORMAT_VERSION + 1}\n")

    with pytest.raises(FormatVersionError, match=r"newer broker.*start that version again"):
        check_format(RealDisk(), str(tmp_path))


@pytest.mark.parametrize("text", ["", "0", "one", "1.5", "-1", "\xff"])
def test_nonsense_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "format_version").write_text(text, encoding="latin-1")

    with pytest.raises(FormatVersionError, match="where a version number belongs"):
        check_format(RealDisk(), str(tmp_path))


def test_only_a_data_directory_is_emptied(tmp_path: Path) -> None:
    disk, root = RealDisk(), str(tmp_path)
    empty_directory(disk, root)
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FormatVersionError, match="no data directory"):
        empty_directory(disk, root)
    assert (tmp_path / "thesis.txt").exists()

    check_format(disk, root)
    (tmp_path / "streams" / "0").mkdir(parents=True)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "lock").touch()
    empty_directory(disk, root)

    assert disk.list_folder(root) == ["lock", "lost+found"]
