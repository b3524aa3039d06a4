"""A small file system of a test's own, in a private mount namespace, and a broker on it.

The namespace lives as long as a holder process, so that the disk outlives the broker. Brokers enter
it; the test itself sees it below `/proc/{holder}/root`. Without the right to mount, a test is
skipped.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_process import START_S, BrokerProcess

BLOCK_BYTES = 4096
NAMES_MAX = 2000  # files and folders of a small disk

_NAMESPACE = ["-m"] if os.geteuid() == 0 else ["-U", "-r", "-m"]
_ENTER = ["-m"] if os.geteuid() == 0 else ["-U", "-m", "--preserve-credentials"]


class SmallDisk:
    """A mounted file system. `inside` is its path for whoever `enter`s, `outside` for the test."""

    def __init__(self, holder: subprocess.Popen[bytes], inside: Path) -> None:
        self._holder = holder
        self.inside = inside
        self.outside = Path(f"/proc/{holder.pid}/root{inside}")
        self.enter = ["nsenter", f"--target={holder.pid}", *_ENTER, "--"]
        self._ballast = self.outside / "ballast"
        self._names = self.outside / "names"

    def run(self, *command: str) -> None:
        """Run a command that sees it. OSError, with what it says, if it fails."""
        ended = subprocess.run([*self.enter, *command], capture_output=True, text=True)
        if ended.returncode:
            raise OSError(f"{' '.join(command)}: {ended.stderr.strip()}")

    def below(self, name: str) -> SmallDisk:
        """A folder on it, on which something else may be mounted."""
        (self.outside / name).mkdir()
        return SmallDisk(self._holder, self.inside / name)

    def forbid_writes(self, name: str) -> None:
        """From now on whoever opens something in this folder finds it read-only."""
        path = str(self.inside / name)
        self.run("mount", "--bind", path, path)
        self.run("mount", "-o", "remount,bind,ro", path)

    def allow_writes(self, name: str) -> None:
        """Take `forbid_writes` back."""
        self.run("umount", str(self.inside / name))

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.outside)
        return status.f_bavail * status.f_frsize

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take all room but so much."""
        with self._ballast.open("ab") as file:
            step_bytes = BLOCK_BYTES << 10
            while self.free_bytes - leave_bytes >= BLOCK_BYTES:
                step_bytes = max(min(step_bytes, self.free_bytes - leave_bytes), BLOCK_BYTES)
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), step_bytes)
                except OSError as error:  # the broker was quicker
                    assert error.errno == errno.ENOSPC
                    step_bytes //= 2

    def fill_names(self, *, leave: int = 0) -> None:
        """Make files until only so many more can be made: there is room then, but not for them."""
        self._names.mkdir()
        try:
            for number in range(NAMES_MAX):
                (self._names / str(number)).touch()
        except OSError as error:
            assert error.errno == errno.ENOSPC
        for file in sorted(self._names.iterdir())[:leave]:
            file.unlink()

    def free(self) -> None:
        """Give back what was taken."""
        self._ballast.unlink(missing_ok=True)
        shutil.rmtree(self._names, ignore_errors=True)


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A tmpfs of 64 MiB at `folder`/disk, or a skipped test."""
    with mounted(folder, f"mount -t tmpfs -o size=64m,nr_inodes={NAMES_MAX} none") as disk:
        yield disk


@contextmanager
def small_ext4(folder: Path) -> Iterator[SmallDisk]:
    """An ext4 of 48 MiB in a file, at `folder`/disk, or a skipped test."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(48 << 20)
    make_ext4(image)
    with mounted(folder, f"mount -t ext4 -o loop {image}") as disk:
        yield disk


def make_ext4(image: Path) -> None:
    """Make the file a file system that keeps no room for root, or skip the test."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4 here")
    options = ["-q", "-m", "0", "-N", str(NAMES_MAX)]
    subprocess.run(["mkfs.ext4", *options, str(image)], check=True, capture_output=True)


@contextmanager
def mounted(folder: Path, mount: str) -> Iterator[SmallDisk]:
    """Whatever the command `mount` puts at the path that is given behind it, or a skipped test."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("there is no unshare or no nsenter here")
    inside = folder / "disk"
    inside.mkdir()
    script = f'{mount} "$0" && echo mounted && read wait'
    holder = subprocess.Popen(
        ["unshare", *_NAMESPACE, "--propagation=private", "sh", "-c", script, str(inside)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stderr is not None
    try:
        if holder.stdout.readline() != b"mounted\n":
            why = holder.stderr.read().decode().strip()
            pytest.skip(f"mounting is not permitted here: {why}")
        yield SmallDisk(holder, inside)
    finally:
        holder.communicate()  # its input ends, and so does it


class BrokerOnSmallDisk(BrokerProcess):
    """A broker whose data directory is on a small disk."""

    def __init__(
        self,
        folder: Path,
        disk: SmallDisk,
        *,
        shards: int = 2,
        settings: Mapping[str, str] | None = None,
        transports: Collection[str] = (),
    ) -> None:
        data = {"IGGY_SYSTEM_PATH": str(disk.inside / "data")} | dict(settings or {})
        super().__init__(folder, shards=shards, settings=data, transports=transports)
        self.data = disk.outside / "data"
        self.wrapper = disk.enter

    def start(self) -> BrokerProcess:
        """Start, and return when the log says that it is ready: a full disk has no room to."""
        before = len(self.records())
        self.launch()
        ready: list[dict[str, object]] = []

        def is_ready() -> bool:
            assert self.is_running, f"the broker ended at start:\n{self.text()}"
            ready[:] = [r for r in self.records()[before:] if r["message"] == "= ready"]
            return bool(ready)

        wait_until(is_ready, START_S, self.text)
        self.tcp_port = int(str(ready[0]["tcp"]).rpartition(":")[2])
        self.monitoring_port = int(str(ready[0].get("monitoring", ":0")).rpartition(":")[2])
        for name in self.ports:
            self.ports[name] = int(str(ready[0][name]).rpartition(":")[2])
        return self


def wait_until(
    condition: Callable[[], bool], timeout_s: float = 20.0, say: Callable[[], str] = str
) -> None:
    """Return when the condition holds; fail, with what `say` says, if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, say()
        time.sleep(0.01)
