"""Run `iggy-broker restore` for a broker that is not running, and what it says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from broker_process import BrokerProcess

ARCHIVER = "IGGY_DATA_MAINTENANCE_ARCHIVER_"
RESTORE_S = 120


def run_restore(broker: BrokerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With the broker's own settings."""
    return subprocess.run(
        [sys.executable, "-m", "iggy_broker", "restore", *arguments],
        env=broker.environment(),
        capture_output=True,
        text=True,
        timeout=RESTORE_S,
        check=False,
    )


def restore(broker: BrokerProcess, *arguments: str) -> list[dict[str, object]]:
    """Lose the data directory and restore it; the report, an object for each line."""
    shutil.rmtree(broker.data, ignore_errors=True)
    done = run_restore(broker, *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def summary(lines: list[dict[str, object]]) -> dict[str, object]:
    """The last one: of all."""
    found = lines[-1]["restored"]
    assert isinstance(found, dict)
    return found


def events(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the log of a run is about."""
    return [json.loads(line)["event"] for line in done.stderr.splitlines()]
