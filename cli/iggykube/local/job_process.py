"""One job's process: start, follow its progress, start again after a failure."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from iggy_operator.decide.connectors import EXIT_FINISHED, EXIT_STOPPED, AfterExit, after_exit
from iggykube.local.folders import Folders, write_private
from iggykube.local.plan import JobPlan
from iggykube.local.processes import Child
from iggykube.local.snapshot import JobState

REASON_CHARACTERS_MAX: Final = 500
_AT_WORK: Final = ("started", "progress", "redriving")


class Event(msgspec.Struct, frozen=True):
    """One line that a job writes: `started`, `progress`, `stopped`, `failed`. A sink's job has also
    `row` and, around dead letters that are written again, `redriving` and `redriven`; a source's
    has `behind`.
    """

    event: str
    batch: int | None = None
    reason: str = ""
    # Of a sink.
    rows: int = 0
    rejected: int = 0
    dead: int = 0
    row: msgspec.Raw = msgspec.Raw()
    by: dict[str, str] = {}  # what said where it begins, by partition
    # Of a source.
    messages: int = 0
    committed: Any = None
    behind: int | None = None


class JobProcess:
    """A job over all its restarts. Times are seconds of a monotonic clock."""

    def __init__(self, plan: JobPlan, folders: Folders, environment: Mapping[str, str]) -> None:
        """Nothing runs yet."""
        self.plan = plan
        self.state = JobState.SUSPENDED if plan.connector.is_suspended else JobState.STOPPED
        self.batch: int | None = None
        self.restarts = 0
        self.reason = ""
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
        return self._folders.logs / f"{self.plan.connector.word}-{self._file_name}.log"

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
        key = self.plan.connector.key
        return f"{key.namespace}.{key.name}"

    def start(self, now_s: float) -> None:
        """Start the job, unless it is suspended."""
        if self.plan.connector.is_suspended or self._child is not None:
            return
        job = {**self.plan.job, **self.more_fields()}
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
        self.state = JobState.STARTING
        self._started_s, self._restart_s, self._error = now_s, None, ""

    def more_fields(self) -> dict[str, Any]:
        """Of the job's file, besides those of the plan."""
        return {}

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
            return
        if event.event in _AT_WORK:
            self.state, self.reason = JobState.RUNNING, ""
        self.take(event)

    def take(self, event: Event) -> None:
        """What an event says of the work."""
        if event.batch is not None:
            self.batch = event.batch

    def row_fields(self) -> dict[str, Any]:
        """What a `JobRow` has."""
        return {
            "name": self.plan.name,
            "type": self.plan.connector.type,
            "state": self.state,
            "batch": self.batch,
            "restarts": self.restarts,
            "reason": self.reason,
            "log": str(self.log),
            "job": str(self.job) if self.job.exists() else "",
        }

    def _ended(self, child: Child, exit_code: int, now_s: float) -> None:
        words = self._error or f"the job ended: {child.reason(exit_code)}"
        child.close()
        self._child = None
        if self._is_stopping:
            self.state = JobState.STOPPED
            is_asked = exit_code in (EXIT_FINISHED, EXIT_STOPPED)
            self.reason = "" if is_asked else words[:REASON_CHARACTERS_MAX]
            return
        after = after_exit(
            self.plan.connector,
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
            self.state, self._restart_s = JobState.WAITING, now_s + after.pause_s
        else:
            self.state = JobState.COMPLETED if exit_code == 0 else JobState.FAILED

    def terminate(self) -> None:
        """Ask the job to finish its batch and end."""
        self._is_stopping, self._restart_s = True, None
        if self._child is not None:
            self._child.terminate()
        elif self.state is JobState.WAITING:
            self.state = JobState.STOPPED

    def kill(self) -> None:
        """End the job at once; the next start repeats its unfinished batch without duplicates."""
        self._is_stopping = True
        if self._child is not None:
            self._child.kill()
