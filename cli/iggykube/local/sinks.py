"""What the job of a sink has beyond others: rejected messages, rows to show, dead letters."""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from iggykube.local.folders import Folders
from iggykube.local.job_process import Event, JobProcess
from iggykube.local.numbers import Progress
from iggykube.local.plan import JobPlan
from iggykube.local.redrives import Redrive, RedriveRow, RedriveState, block, done
from iggykube.local.snapshot import SinkRow

ROWS_MAX: Final = 5
ROW_CHARACTERS_MAX: Final = 200


class SinkProcess(JobProcess):
    """The job of one sink."""

    def __init__(
        self,
        plan: JobPlan,
        folders: Folders,
        environment: Mapping[str, str],
        *,
        asked: Redrive | None = None,
    ) -> None:
        """Nothing runs yet. `asked`: dead letters to write again before all else."""
        super().__init__(plan, folders, environment)
        self.rejected = 0
        self.start_by: tuple[str, ...] = ()
        self.rows: deque[str] = deque(maxlen=ROWS_MAX)
        self.redrive = RedriveRow(asked.request) if asked is not None else None
        self._asked = asked

    def more_fields(self) -> dict[str, Any]:
        """The redrive that is still to be done. A job without dead letters would refuse it."""
        errors = self.plan.job["sink"].get("errors", {})
        is_done = self.redrive is not None and self.redrive.state is RedriveState.DONE
        if self._asked is None or is_done or "deadLetter" not in errors:
            return {}
        return {"redrive": block(self._asked)}

    def take(self, event: Event) -> None:
        """What an event says of the work."""
        if event.event == "started":
            self.start_by = tuple(sorted(set(event.by.values())))
        if event.event == "row":
            row = bytes(event.row).decode(errors="replace")
            self.rows.append(row[:ROW_CHARACTERS_MAX])
        elif self.redrive is not None and self.redrive.state is not RedriveState.DONE:
            self.redrive = self._redriven(self.redrive, event)
        else:
            self.rejected += event.rejected
            super().take(event)

    def _redriven(self, row: RedriveRow, event: Event) -> RedriveRow:
        """How far the request is after an event."""
        match event.event:
            case "redriving":
                return structs.replace(row, state=RedriveState.RUNNING)
            case "progress":
                written, failed = row.written + event.rows, row.failed + event.dead
                return structs.replace(row, written=written, failed=failed)
            case "redriven" | "started":  # started: an earlier run was ended before it could say so
                done(self._folders, self.plan.name, row.request)
                return structs.replace(row, state=RedriveState.DONE)
        return row

    def row(self, progress: Progress) -> SinkRow:
        """How it stands; `progress` is its group's."""
        return SinkRow(
            **self.row_fields(),
            committed=progress.committed,
            end=progress.end,
            lag=progress.lag,
            rejected=self.rejected,
            rows=tuple(self.rows),
            partitions=progress.partitions,
            redrive=self.redrive,
            start_by=self.start_by,
        )
