"""`iggykube sink redrive`: the request, and the wait for what becomes of it."""

import time
from pathlib import Path
from typing import Any, Final

import msgspec

from iggykube.errors import LocalError
from iggykube.local import Folders, SinkRow, redrives
from iggykube.local.redrives import Redrive, RedriveRow, RedriveState
from iggykube.local.snapshot import JobState
from iggykube.running import read_snapshot

TAKEN_S_MAX: Final = 60.0
"""The instance looks several times a second, but it may be busy with a change of its files."""
FORGOTTEN_S: Final = 5.0
"""How long a snapshot may be behind what the instance has done."""
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
    if row.state is JobState.SUSPENDED:
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
        last = RedriveRow(self._redrive.request)
        news_s = time.monotonic()
        while True:
            found = self._row()
            if found.redrive is not None and found.redrive.request == last.request:
                last, news_s = found.redrive, time.monotonic()
                self._check_failed(found, last)
            silent_s = time.monotonic() - news_s
            if last.state is RedriveState.DONE or self._is_forgotten(silent_s):
                counts = {"written": last.written, "failed": last.failed}
                return Outcome(self._sink, last.request, RedriveState.DONE, **counts)
            if silent_s > TAKEN_S_MAX:
                fix = "stop and start it with this version of iggykube"
                raise LocalError(f"the instance does not take the request: {fix}")
            time.sleep(_PAUSE_S)

    def _is_forgotten(self, silent_s: float) -> bool:
        """Whether it was done, and a change of the files has started the sink anew before that was
        told. Raises LocalError if a later request has taken its place.
        """
        left = redrives.asked_of(self._folders, self._sink)
        if left is not None and left.request != self._redrive.request:
            raise LocalError(f"a later request for sink {self._sink} has taken the place of this")
        return left is None and silent_s > FORGOTTEN_S

    def _row(self) -> SinkRow:
        snapshot = read_snapshot(self._folders)
        try:
            return snapshot.sink(self._sink)
        except KeyError:
            raise LocalError(f"sink {self._sink} is in no file any more") from None

    def _check_failed(self, found: SinkRow, ours: RedriveRow) -> None:
        if found.state is JobState.FAILED and ours.state is not RedriveState.DONE:
            rest = "what is left is redriven when it starts again"
            raise LocalError(f"sink {self._sink} failed: {found.reason}; {rest}")
