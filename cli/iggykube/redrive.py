"""`iggykube sink redrive`: the request, and the wait for what becomes of it."""

import time
from pathlib import Path
from typing import Any, Final

import msgspec

from iggykube.errors import LocalError
from iggykube.local import Folders, SinkRow, redrives
from iggykube.local.redrives import Redrive, RedriveRow, RedriveState
from iggykube.local.snapshot import SinkState
from iggykube.running import read_snapshot

TAKEN_S_MAX: Final = 60.0
"""The instance looks several times a second, but it may be busy with a change of its files."""
_PAUSE_S: Final = 0.1


class Outcome(msgspec.Struct, frozen=True):
    """What programs get. Counts are messages."""

    sink: str
    request: str
    state: RedriveState
    written: int = 0
    failed: int = 0


def job_of(row: SinkRow) -> dict[str, Any]:
    """The file of the sink's job, if it has dead letters and runs or may run again.

    Raises LocalError with the way out.
    """
    if row.state is SinkState.SUSPENDED:
        raise LocalError(f"sink {row.name} is suspended: set suspend to false first")
    if not row.job:
        raise LocalError(f"sink {row.name} has not started yet: try again")
    job: dict[str, Any] = msgspec.json.decode(Path(row.job).read_bytes())
    if job["sink"].get("errors", {}).get("deadLetter") is None:
        fix = "there are letters with errors.tolerance: Data and errors.deadLetter"
        raise LocalError(f"sink {row.name} has no dead letters: {fix}")
    return job


class Request:
    """One request to an instance."""

    def __init__(self, folders: Folders, sink: str, redrive: Redrive) -> None:
        """Nothing is asked yet."""
        self._folders, self._sink, self._redrive = folders, sink, redrive

    def ask(self) -> Outcome:
        """Leave it where the instance finds it."""
        redrives.ask(self._folders, self._sink, self._redrive)
        return Outcome(self._sink, self._redrive.request, RedriveState.ASKED)

    def wait(self) -> Outcome:
        """Until it is carried out.

        Raises LocalError if the sink fails for good, if a later request takes its place, or if the
        instance ends or does not take it.
        """
        deadline_s = time.monotonic() + TAKEN_S_MAX
        while True:
            found = self._row()
            ours = found.redrive if self._is_ours(found.redrive) else None
            if ours is not None and ours.state is RedriveState.DONE:
                counts = {"written": ours.written, "failed": ours.failed}
                return Outcome(self._sink, ours.request, ours.state, **counts)
            self._check(found, ours)
            if ours is None and time.monotonic() > deadline_s:
                fix = "stop and start it with this version of iggykube"
                raise LocalError(f"the instance does not take the request: {fix}")
            time.sleep(_PAUSE_S)

    def _is_ours(self, row: RedriveRow | None) -> bool:
        return row is not None and row.request == self._redrive.request

    def _row(self) -> SinkRow:
        snapshot = read_snapshot(self._folders)
        try:
            return snapshot.sink(self._sink)
        except KeyError:
            raise LocalError(f"sink {self._sink} is in no file any more") from None

    def _check(self, found: SinkRow, ours: RedriveRow | None) -> None:
        left = redrives.asked_of(self._folders, self._sink)
        if left is not None and left.request != self._redrive.request:
            raise LocalError(f"a later request for sink {self._sink} has taken the place of this")
        if ours is not None and found.state is SinkState.FAILED:
            rest = "what is left is redriven when it starts again"
            raise LocalError(f"sink {self._sink} failed: {found.reason}; {rest}")
