"""The real disk: descriptors are bounded, writes are whole, small files are replaced at once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from iggy_broker.storage.disk import RealDisk


def test_bytes_are_there_after_write(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    file.write(b"hello", 0)
    file.write(memoryview(b"world"), 5)

    assert (tmp_path / "a").read_bytes() == b"helloworld"
    assert file.read(100, 3) == b"loworld"
    assert file.read(2, 100) == b""
    assert file.size() == 10
    file.truncate(4)
    file.sync()
    assert file.read(10, 0) == b"hell"
    file.close()


def test_open_touches_nothing_until_it_is_used(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open(f"{tmp_path}/missing")

    assert disk.open_files == 0
    with pytest.raises(FileNotFoundError):
        file.read(1, 0)


def test_open_descriptors_are_bounded(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=4)
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(20)]
    for number, file in enumerate(files):
        file.write(bytes([number]), 0)

    assert disk.open_files <= 4
    assert [file.read(1, 0)[0] for file in files] == list(range(20))
    assert disk.open_files <= 4
    for file in files:
        file.close()
    assert disk.open_files == 0


def test_a_held_file_stays_open_even_when_it_is_closed(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=2)
    held = disk.open(f"{tmp_path}/held", create=True)
    held.hold()
    fd = held.fileno()
    others = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(5)]
    held.close()
    for other in others:
        other.size()

    assert held.fileno() == fd
    os.fstat(fd)
    held.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    for other in others:
        other.close()


def test_files_in_use_are_not_the_ones_that_are_closed(tmp_path: Path) -> None:
    disk = RealDisk(open_files_max=3)
    busy = disk.open(f"{tmp_path}/busy", create=True)
    fd = busy.fileno()
    others = []
    for number in range(10):
        others.append(disk.open(f"{tmp_path}/{number}", create=True))
        assert busy.fileno() == fd

    assert disk.open_files <= 3
    for file in (busy, *others):
        file.close()


def test_short_writes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))

    file.write(memoryview(b"0123456789"), 2)

    assert (tmp_path / "a").read_bytes() == b"\0\x000123456789"
    file.close()


def test_a_refused_write_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)

    def refuse(fd: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(OSError, match="no space"):
        file.write(b"x", 0)
    file.close()


@pytest.mark.parametrize("sync", [True, False])
def test_a_small_file_is_replaced_whole(tmp_path: Path, sync: bool) -> None:
    disk = RealDisk()
    path = f"{tmp_path}/small"
    disk.write_file(path, b"first and long", sync=sync)
    disk.write_file(path, b"second", sync=sync)

    assert disk.read_file(path, bytes_max=100) == b"second"
    assert disk.read_file(path, bytes_max=3) == b"sec"
    assert disk.list_folder(str(tmp_path)) == ["small"]


def test_folders(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.make_folders(f"{tmp_path}/a/b/c")
    disk.make_folders(f"{tmp_path}/a/b/c")
    disk.write_file(f"{tmp_path}/a/b/file", b"1", sync=False)

    assert disk.list_folder(f"{tmp_path}/a/b") == ["c", "file"]
    assert disk.list_folder(f"{tmp_path}/nothing") == []
    assert disk.list_folder(f"{tmp_path}/a/b/file") == []
    assert disk.is_folder(f"{tmp_path}/a/b")
    assert not disk.is_folder(f"{tmp_path}/a/b/file")
    disk.rename(f"{tmp_path}/a/b", f"{tmp_path}/a/z")
    disk.sync_folder(f"{tmp_path}/a")
    assert disk.size(f"{tmp_path}/a/z/file") == 1
    disk.remove(f"{tmp_path}/a/z/file")
    disk.remove(f"{tmp_path}/a/z/file")
    disk.remove_tree(f"{tmp_path}/a")
    disk.remove_tree(f"{tmp_path}/a")
    assert not disk.exists(f"{tmp_path}/a")
