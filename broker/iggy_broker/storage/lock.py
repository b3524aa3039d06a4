"""One broker per data directory: volumes move between pods, two writers would destroy it."""

import contextlib
import fcntl
import os
import socket
import time

LOCK_FILE = "lock"
LOCK_WAIT_S = 2.0  # the shards of a killed broker need a moment to follow their supervisor
_LOCK_STEP_S = 0.05
_HOLDER_BYTES_MAX = 500


class DirectoryLockedError(Exception):
    """Another process holds the data directory. The text names it."""


class DirectoryLock:
    """An exclusive lock on a data directory, held until `release` or the end of the process.

    The kernel drops it when the last process that inherited the descriptor is gone, so a killed
    broker leaves nothing behind. Take it before the fork: the shards then share it.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        """Use `acquire`."""
        self._fd = fd

    @classmethod
    def acquire(cls, root: str) -> "DirectoryLock":
        """Lock the data directory `root`. DirectoryLockedError if somebody has it."""
        path = f"{root}/{LOCK_FILE}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, _HOLDER_BYTES_MAX, 0).decode(errors="replace").strip()
            os.close(fd)
            raise DirectoryLockedError(
                f"the data directory {root} is in use by {holder or 'another process'}:"
                " stop it, or give this broker a path of its own"
            ) from None
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        holder = f"process {os.getpid()} on {socket.gethostname()}, since {started}\n"
        with contextlib.suppress(OSError):  # a full disk: locked we have it all the same
            os.ftruncate(fd, 0)
            os.pwrite(fd, holder.encode(), 0)
        return cls(fd)

    @classmethod
    def acquire_soon(cls, root: str) -> "DirectoryLock":
        """The same for a folder that may be missing, and after `LOCK_WAIT_S` at most."""
        os.makedirs(root, mode=0o750, exist_ok=True)
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                return cls.acquire(root)
            except DirectoryLockedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_LOCK_STEP_S)

    def release(self) -> None:
        """Give the directory free."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
