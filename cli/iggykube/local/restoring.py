"""An empty data directory is filled from an archive before its broker starts."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Final

from iggykube.errors import LocalError, Stopped
from iggykube.local.broker import clean_environment
from iggykube.local.broker_settings import RestorePlan
from iggykube.local.folders import Folders
from iggykube.local.processes import Child

_STEP_S: Final = 0.1
_LEFT: Final = ("problems", "cut_offsets", "left_out_count")


def restore(
    folders: Folders,
    variables: Mapping[str, str],
    plan: RestorePlan,
    should_stop: Callable[[], bool],
) -> list[str]:
    """Run `iggy-broker restore`; what came back, for people. Nothing if the directory has data.

    Raises LocalError with its reason, or Stopped; the next try begins anew.
    """
    log = folders.logs / "restore.log"
    plan.summary.unlink(missing_ok=True)
    child = Child(
        [sys.executable, "-m", "iggy_broker", *plan.arguments],
        environment=clean_environment() | dict(variables) | dict(plan.environment),
        folder=folders.broker,
        log=log,
    )
    while (code := child.wait(_STEP_S)) is None:
        if should_stop():
            child.terminate()
            raise Stopped("stopped while the data directory was filled")
    if code:
        raise LocalError(f"restoreFrom: {child.reason(code)} (log: {log})")
    if not plan.summary.exists():
        return []
    return _told(json.loads(plan.summary.read_text()), str(log))


def _told(found: Mapping[str, Mapping[str, int]], log: str) -> list[str]:
    done = found["restored"]
    if not done["partitions"] and not done["streams"]:
        return []
    text = (
        f"{done['streams']} streams, {done['topics']} topics and {done['messages']:,} messages "
        f"came back from {done['archive']}"
    )
    if any(done[name] for name in _LEFT):
        text += f"; not all is as it was: see {log}"
    return [text]
