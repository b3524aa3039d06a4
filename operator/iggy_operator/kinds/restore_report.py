"""What a broker's pod tells of a restore: the container that fills an empty volume. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.cluster import Object
from iggy_operator.desired.archive import RESTORE
from iggy_operator.objects import status_of

_MS: Final = 1000
_LEFT: Final = ("problems", "cut_offsets", "left_out_count")
"""Counts of the summary that say that something did not come back as it was."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A volume that was filled."""

    archive: str
    time: str
    """When, as Kubernetes writes times."""
    message: str
    is_complete: bool

    @property
    def fields(self) -> dict[str, Any]:
        """`status.restore`."""
        return {
            "from": self.archive,
            "time": self.time,
            "message": self.message,
            "complete": self.is_complete,
        }


def restored(pod: Object | None) -> Restored | None:
    """What this pod has brought back; None if nothing, as on a volume that had data."""
    for row in status_of(pod or {}).get("initContainerStatuses", ()):
        ended = row.get("state", {}).get("terminated")
        if row["name"] == RESTORE and ended and ended.get("exitCode") == 0:
            summary = _summary(ended.get("message", ""))
            if summary is not None:
                return _restored(summary, str(ended.get("finishedAt", "")))
    return None


def _summary(message: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(message)
        summary = found["restored"]
    except (ValueError, TypeError, KeyError):
        return None
    return summary if isinstance(summary, dict) else None


def _restored(summary: Mapping[str, Any], time: str) -> Restored | None:
    def count(name: str) -> int:
        return int(summary.get(name, 0))

    if not any(map(count, ("streams", "users", "partitions"))):
        return None  # a new broker: there was nothing
    archive = str(summary.get("archive", ""))
    text = (
        f"{count('streams'):,} streams, {count('topics'):,} topics, {count('users'):,} users and "
        f"{count('messages'):,} messages came back from {archive} in {count('took_ms') / _MS:.1f} s"
    )
    is_complete = not any(map(count, _LEFT))
    if not is_complete:
        text += f"; not all is as it was: see the log of the pod's container {RESTORE}"
    return Restored(archive, time, text, is_complete)


def restore_trouble(pod: Object) -> str:
    """Why a volume cannot be filled, in the container's own words; empty if it can."""
    for row in status_of(pod).get("initContainerStatuses", ()):
        state = row.get("state", {})
        ended = state.get("terminated") or row.get("lastState", {}).get("terminated") or {}
        waiting = state.get("waiting") or {}
        if ended.get("exitCode"):
            last = str(ended.get("message", "")).strip().splitlines()[-1:]
            return " ".join([f"restoreFrom: nothing came back (code {ended['exitCode']}):", *last])
        if waiting.get("reason") not in (None, "PodInitializing"):
            text = f"restoreFrom waits: {waiting['reason']} {waiting.get('message', '')}"
            return text.strip()
        if "running" in state:
            return "an empty volume is filled from the archive"
    return ""
