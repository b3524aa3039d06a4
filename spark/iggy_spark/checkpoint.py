"""A job's folder: who holds it, what it was started with, and how far Spark has come.

<checkpoint>/lock                   held by the running job
<checkpoint>/driver                 see `driver_mark`
<checkpoint>/sink.json              what the sink was declared as; of a source source.json
<checkpoint>/logs/                  Spark's own logs
<checkpoint>/away/                  see `absence`
<checkpoint>/<incarnation>/state/   where the first batch began
<checkpoint>/<incarnation>/spark/   Spark's checkpoint

Positions in a topic belong to one life of it, its incarnation. Those of a source are in a system
that has no such lives: they are kept below `SOURCE_LIFE`, whatever becomes of the topic.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from iggy_spark import declaration
from iggy_spark.errors import Fenced, SinkError, TopicRecreated
from iggy_spark.job_parts import JobFile
from iggy_spark.offsets import Offsets
from iggy_spark.state import INITIAL_NAME, read_json, sync_folder, write_durably

INCARNATION = re.compile(r"\d+-\d+")
SOURCE_LIFE = "0-0"
REDRIVE_NAME = "redrive.json"
DECLARED_NAMES = (*declaration.NAMES, REDRIVE_NAME)  # files beside those of Spark


class Checkpoint:
    """One job's folder. Holding it keeps other jobs out until the process ends."""

    def __init__(self, folder: Path) -> None:
        """Make the folder and take the lock.

        Raises:
            Fenced: another job has it.
            SinkError: the folder cannot be written.
        """
        self._folder = folder
        try:
            (folder / "logs").mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise SinkError(f"checkpoint: {folder} cannot be written: {error}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise Fenced(f"checkpoint: {folder} is held by another running job") from error

    @property
    def logs(self) -> Path:
        """Where Spark may write its logs."""
        return self._folder / "logs"

    @property
    def away(self) -> Path:
        """Where tasks may tell that the target is away."""
        return self._folder / "away"

    def close(self) -> None:
        """Let others have it."""
        os.close(self._lock)

    def state(self, incarnation: str) -> Path:
        """Folder of the first start."""
        return self._folder / incarnation / "state"

    def spark(self, incarnation: str) -> Path:
        """Spark's own checkpoint folder."""
        return self._folder / incarnation / "spark"

    def check_incarnation(self, incarnation: str, *, restart: bool) -> None:
        """Notice a topic that was deleted and created again since this job last ran.

        Raises:
            TopicRecreated: it was, and the job is not to start over.
        """
        others = [p.name for p in self._folder.iterdir() if INCARNATION.fullmatch(p.name)]
        check_lives(others, incarnation, restart=restart)

    def keep(self, incarnation: str) -> None:
        """Make durable what Spark has written: in a folder it is."""

    def remember(self, config: JobFile) -> None:
        """Compare the declaration with that of the last start, and write it down.

        Raises:
            OptionError: a change that would mix different data in one target; it names the field.
        """
        name, now = declaration.of(config)
        for other in declaration.NAMES:
            before = read_json(self._folder / other)
            if before is not None:
                declaration.check_change(before, now)
        if read_json(self._folder / name) != now:
            self._write(name, now)

    def redriven(self) -> str | None:
        """The last request to redrive dead letters that was carried out; None: there was none."""
        found = read_json(self._folder / REDRIVE_NAME)
        return None if found is None else str(found["request"])

    def remember_redriven(self, request: str) -> None:
        """Write down that a request was carried out."""
        self._write(REDRIVE_NAME, {"request": request})

    def _write(self, name: str, value: dict[str, Any]) -> None:
        path = self._folder / name
        temporary = path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        write_durably(temporary, json.dumps(value, indent=1).encode())
        temporary.replace(path)
        sync_folder(path.parent)

    def has_committed(self, incarnation: str, batch: int) -> bool:
        """Whether Spark has committed this batch."""
        return (self.spark(incarnation) / "commits" / str(batch)).exists()

    def committed(self, incarnation: str) -> Offsets | None:
        """End of the last batch that Spark has committed; None before the first."""
        found = self.position(incarnation)
        return None if found is None else Offsets.from_json(found)

    def first_start(self, incarnation: str) -> Offsets | None:
        """Where the first batch begins, once that is written down. Ask for `committed` before."""
        found = read_json(self.state(incarnation) / INITIAL_NAME)
        return None if found is None else Offsets.from_json(found)

    def position(self, incarnation: str) -> Any:
        """The same as Spark has it: what a reader has made of its position, in JSON."""
        commits = self.spark(incarnation) / "commits"
        numbers = [int(p.name) for p in commits.glob("*") if p.name.isdecimal()]
        if not numbers:
            return None
        plan = self.spark(incarnation) / "offsets" / str(max(numbers))
        return end_of_plan(plan.read_text("utf-8"))


def check_lives(known: Collection[str], incarnation: str, *, restart: bool) -> None:
    """See `Checkpoint.check_incarnation`; `known` are those that the job has read."""
    known = set(known) - {SOURCE_LIFE}  # of a source: what was declared tells that
    if restart or not known or incarnation in known:
        return
    raise TopicRecreated(
        f"the topic was deleted and created again (now {incarnation}, this sink read "
        f"{', '.join(sorted(known))}): set onTopicRecreated to Restart to read the new one "
        "from its beginning"
    )


def end_of_plan(text: str) -> Any:
    """The end that Spark has planned for a batch, from the file that it keeps below `offsets`.

    Spark 4.3 writes a version, a line of metadata, and a line per source.
    """
    return json.loads(text.splitlines()[2])
