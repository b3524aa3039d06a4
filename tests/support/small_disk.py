"""A small file system of a test's own, in a private mount namespace, and a broker on it.

The namespace lives as long as a holder process, so that the disk outlives the broker. Brokers enter
it; the test itself sees it below `/proc/{holder}/root`. Without the right to mount, a test is
skipped.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_process import START_S, BrokerProcess

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
        self._open: int | None = None

    def run(self, *command: str) -> None:
        subprocess.run([*self.enter, *command], check=True, capture_output=True)

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.outside)
        return status.f_bavail * status.f_frsize

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Take all room but so much."""
        with self._ballast.open("ab") as file:
            size_bytes = file.tell() + self.free_bytes - leave_bytes
            os.posix_fallocate(file.fileno(), 0, max(size_bytes, 1))

    def free(self) -> None:
        """Give back what `fill` took."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, *, size: str = "64m", options: str = "") -> Iterator[SmallDisk]:
    """A tmpfs of that size at `folder`/disk, or a skipped test."""
    mount = f"mount -t tmpfs -o size={size}{options} none"
    with mounted(folder, mount) as disk:
        yield disk


@contextmanager
def mounted(folder: Path, mount: str) -> Iterator[SmallDisk]:
    """Whatever the command `mount` puts at the path that is given behind it, or a skipped test."""
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
    ) -> None:
        data = {"IGGY_SYSTEM_PATH": str(disk.inside / "data")}
        super().__init__(folder, shards=shards, settings=data | dict(settings or {}))
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
        return self


def wait_until(
    condition: Callable[[], bool], timeout_s: float = 20.0, say: Callable[[], str] = str
) -> None:
    """Return when the condition holds; fail, with what `say` says, if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, say()
        time.sleep(0.01)
