"""What the job of a source has beyond others: what it sent, how far it read, what waits there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iggykube.local.folders import Folders
from iggykube.local.job_process import Event, JobProcess
from iggykube.local.jobs import PATH_TYPES, is_address, path_of
from iggykube.local.plan import JobPlan
from iggykube.local.snapshot import SourceRow


class SourceProcess(JobProcess):
    """The job of one source."""

    def __init__(self, plan: JobPlan, folders: Folders, environment: Mapping[str, str]) -> None:
        """Nothing runs yet."""
        super().__init__(plan, folders, environment)
        self.messages = 0
        self.committed: Any = None
        self.behind: int | None = None

    def start(self, now_s: float) -> None:
        """As for all. A folder below the data directory is made: people put files there later."""
        connector = self.plan.connector
        if connector.type in PATH_TYPES and not is_address(path_of(connector, self._folders)):
            folder = Path(path_of(connector, self._folders))
            if folder.is_relative_to(self._folders.files):
                folder.mkdir(parents=True, exist_ok=True)
        super().start(now_s)

    def take(self, event: Event) -> None:
        """What an event says of the work."""
        super().take(event)
        self.messages += event.messages
        if event.event in ("started", "progress", "stopped"):
            self.committed = event.committed
        if event.event in ("behind", "progress", "stopped"):
            self.behind = event.behind

    def row(self) -> SourceRow:
        """How it stands."""
        return SourceRow(
            **self.row_fields(),
            messages=self.messages,
            committed=self.committed,
            behind=self.behind,
        )
