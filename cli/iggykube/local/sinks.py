"""One sink's process: start, follow its progress, start again after a failure."""

import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from msgspec import structs

from iggy_operator.decide.connectors import EXIT_FINISHED, EXIT_STOPPED, AfterExit, after_exit
from iggykube.local.folders import Folders, write_private
from iggykube.local.plan import SinkPlan
from iggykube.local.processes import Child
from iggykube.local.redrives import Redrive, RedriveRow, RedriveState, block, done
from iggykube.local.snapshot import SinkState

REASON_CHARACTERS_MAX: Final = 500
ROWS_MAX: Final = 5
ROW_CHARACTERS_MAX: Final = 200


class Event(msgspec.Struct, frozen=True):
    """One line that a job writes: `started`, `progress`, `row`, `stopped`, `failed`, and around
    dead letters that are written again `redriving` and `redriven`.
    """

    event: str
    batch: int | None = None
    rows: int = 0
    rejected: int = 0
    dead: int = 0
    reason: str = ""
    row: msgspec.Raw = msgspec.Raw()


class SinkProcess:
    """The job of one sink, over all its restarts. Times are seconds of a monotonic clock."""

    def __init__(
        self,
        plan: SinkPlan,
        folders: Folders,
        environment: Mapping[str, str],
        *,
        asked: Redrive | None = None,
    ) -> None:
        """Nothing runs yet. `asked`: dead letters to write again before all else."""
        self.plan = plan
        self.state = SinkState.SUSPENDED if plan.sink.is_suspended else SinkState.STOPPED
        self.batch: int | None = None
        self.rejected = 0
        self.rows: deque[str] = deque(maxlen=ROWS_MAX)
        self.restarts = 0
        self.reason = ""
        self.redrive = RedriveRow(asked.request) if asked is not None else None
        self._asked = asked
        self._folders = folders
        self._environment = environment
        self._child: Child | None = None
        self._retries = 0
        self._started_s = 0.0
        self._restart_s: float | None = None
        self._error = ""
        self._is_stopping = False

    @property
    def log(self) -> Path:
        """What the job writes besides its events."""
        return self._folders.logs / f"sink-{self._file_name}.log"

    @property
    def job(self) -> Path:
        """What the job reads; written when it starts."""
        return self._folders.run / "jobs" / f"{self._file_name}.json"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._child.pid if self._child is not None else None

    @property
    def output(self) -> IO[bytes] | None:
        """For select."""
        return self._child.output if self._child is not None else None

    @property
    def _file_name(self) -> str:
        key = self.plan.sink.key
        return f"{key.namespace}.{key.name}"

    def start(self, now_s: float) -> None:
        """Start the job, unless it is suspended."""
        if self.plan.sink.is_suspended or self._child is not None:
            return
        job = {**self.plan.job, **self._redrive_block()}
        write_private(self.job, msgspec.json.format(msgspec.json.encode(job)).decode())
        checkpoint = str(self.plan.job["checkpoint"])
        if "://" not in checkpoint:
            Path(checkpoint).mkdir(parents=True, exist_ok=True)
        self._child = Child(
            [sys.executable, "-m", "iggy_spark.sink_job", "--config", str(self.job)],
            environment=self._environment,
            folder=self._folders.run,
            log=self.log,
            reads_lines=True,
        )
        self.state = SinkState.STARTING
        self._started_s, self._restart_s, self._error = now_s, None, ""

    def _redrive_block(self) -> dict[str, Any]:
        """What is still to be done. A job without dead letters would refuse it."""
        errors = self.plan.job["sink"].get("errors", {})
        is_done = self.redrive is not None and self.redrive.state is RedriveState.DONE
        if self._asked is None or is_done or "deadLetter" not in errors:
            return {}
        return {"redrive": block(self._asked)}

    def pump(self, now_s: float) -> None:
        """Take in what happened since the last call; start again when it is time."""
        if self._child is not None:
            self._child.limit_log()
            exit_code = self._child.exit_code  # before the lines: none can come after it
            for line in self._child.lines():
                self._take(line)
            if exit_code is not None:
                self._ended(self._child, exit_code, now_s)
        elif self._restart_s is not None and now_s >= self._restart_s:
            self.restarts += 1
            self.start(now_s)

    def _take(self, line: bytes) -> None:
        """One line of the job. What is no event goes to its log."""
        try:
            event = msgspec.json.decode(line, type=Event)
        except msgspec.MsgspecError:
            with self.log.open("ab") as file:
                file.write(line + b"\n")
            return
        if event.event == "failed":
            self._error = event.reason
        elif event.event == "row":
            row = bytes(event.row).decode(errors="replace")
            self.rows.append(row[:ROW_CHARACTERS_MAX])
        else:
            self._progress(event)

    def _progress(self, event: Event) -> None:
        if event.event in ("started", "progress", "redriving"):
            self.state, self.reason = SinkState.RUNNING, ""
        if self.redrive is not None and self.redrive.state is not RedriveState.DONE:
            self.redrive = self._redriven(self.redrive, event)
            return
        self.rejected += event.rejected
        if event.batch is not None:
            self.batch = event.batch

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

    def _ended(self, child: Child, exit_code: int, now_s: float) -> None:
        words = self._error or f"the job ended: {child.reason(exit_code)}"
        child.close()
        self._child = None
        if self._is_stopping:
            self.state = SinkState.STOPPED
            is_asked = exit_code in (EXIT_FINISHED, EXIT_STOPPED)
            self.reason = "" if is_asked else words[:REASON_CHARACTERS_MAX]
            return
        after = after_exit(
            self.plan.sink,
            exit_code,
            retries=self._retries,
            ran_s=now_s - self._started_s,
            error=words[:REASON_CHARACTERS_MAX],
        )
        self._follow(after, now_s, exit_code)

    def _follow(self, after: AfterExit, now_s: float, exit_code: int) -> None:
        self._retries = after.retries
        self.reason = after.message
        if after.pause_s is not None:
            self.state, self._restart_s = SinkState.WAITING, now_s + after.pause_s
        else:
            self.state = SinkState.COMPLETED if exit_code == 0 else SinkState.FAILED

    def terminate(self) -> None:
        """Ask the job to finish its batch and end."""
        self._is_stopping, self._restart_s = True, None
        if self._child is not None:
            self._child.terminate()
        elif self.state is SinkState.WAITING:
            self.state = SinkState.STOPPED

    def kill(self) -> None:
        """End the job at once; the next start repeats its unfinished batch without duplicates."""
        self._is_stopping = True
        if self._child is not None:
            self._child.kill()
