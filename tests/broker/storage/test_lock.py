"""A data directory has one broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iggy_broker.storage.lock import DirectoryLock, DirectoryLockedError

HOLD = """
import sys
from iggy_broker.storage.lock import DirectoryLock
lock = DirectoryLock.acquire(sys.argv[1])
sys.stdout.write("locked\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_second_broker_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    lock = DirectoryLock.acquire(str(tmp_path))

    with pytest.raises(DirectoryLockedError, match=f"process {os.getpid()} on .*stop it"):
        DirectoryLock.acquire(str(tmp_path))

    lock.release()
    lock.release()
    DirectoryLock.acquire(str(tmp_path)).release()


def test_a_killed_broker_leaves_no_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    with pytest.raises(DirectoryLockedError, match=f"process {holder.pid} "):
        DirectoryLock.acquire(str(tmp_path))

    holder.kill()
    holder.communicate()

    DirectoryLock.acquire(str(tmp_path)).release()
