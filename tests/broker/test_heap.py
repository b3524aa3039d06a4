"""Memory that is given back, seen from an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys

LET_GO = """
import hashlib, re, ssl
from pathlib import Path
from iggy_broker import heap

def mapped_kib():
    return int(re.search(r"Pss_File: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text())[1])

ssl.create_default_context()
before, digest = mapped_kib(), hashlib.sha256(b"x").hexdigest()
heap.return_what_is_free()
heap.unmap_code()
assert mapped_kib() < before, (mapped_kib(), before)
assert hashlib.sha256(b"x").hexdigest() == digest
ssl.create_default_context()
"""


def test_code_that_was_let_go_runs_on() -> None:
    command = [sys.executable, "-c", LET_GO]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
