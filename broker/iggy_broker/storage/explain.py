"""What the system refused, where, and what to do: for people who start a broker."""

from __future__ import annotations

import errno
import os

_REMEDIES = {
    errno.EACCES: f"let user {os.getuid()} read and write there",
    errno.EPERM: f"let user {os.getuid()} read and write there",
    errno.EROFS: "make it writable",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EEXIST: "a folder must be there",
    errno.ENOTDIR: "a folder must be there",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "allow more open files",
}


def remedy(error: OSError) -> str:
    """What to do about it."""
    return _REMEDIES.get(error.errno or 0, "look at the disk")


def explain(error: BaseException, root: str) -> str:
    """One line for a start that failed; `root` is the data directory."""
    if not isinstance(error, OSError):
        return str(error)  # of ours: it says all
    what = f"{error.filename or root}: {error.strerror or error}: {remedy(error)}"
    return f"{what}, or name another data directory; system.path is {root}"
