"""Where things are fetched to, and where a run leaves its logs. Nothing of it is committed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SUITES = Path(__file__).resolve().parents[1]


def cache() -> Path:
    """The folder that outlives runs, by the usual rules for caches."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "iggykube" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def fresh_run(suite: str) -> Path:
    """An empty folder for this run of a suite; what the run before left is removed."""
    folder = cache() / "runs" / suite
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
