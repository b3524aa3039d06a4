"""The sink job's folder: who holds it, what it was started with, and how far Spark has come.

<checkpoint>/lock                   held by the running job
<checkpoint>/driver                 see `driver_mark`
<checkpoint>/sink.json              what the sink was declared as
<checkpoint>/logs/                  Spark's own logs
<checkpoint>/away/                  see `absence`
<checkpoint>/<incarnation>/state/   where the first batch began
<checkpoint>/<incarnation>/spark/   Spark's checkpoint
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from iggy_spark import schema
from iggy_spark.errors import Fenced, OptionError, SinkError, TopicRecreated
from iggy_spark.job_config import BLOCKS, JobConfig, SinkSpec
from iggy_spark.offsets import Offsets
from iggy_spark.state import read_json, sync_folder, write_durably

INCARNATION = re.compile(r"\d+-\d+")
SINK_NAME = "sink.json"
REDRIVE_NAME = "redrive.json"
DECLARED_NAMES = (SINK_NAME, REDRIVE_NAME)  # files beside those of Spark


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

    def remember(self, config: JobConfig) -> None:
        """Compare the declaration with that of the last start, and write it down.

        Raises:
            OptionError: a change that would mix different data in one target; it names the field.
        """
        path = self._folder / SINK_NAME
        now = _declared(config)
        before = read_json(path)
        if before is not None:
            _check_change(before, now)
        if before != now:
            self._write(SINK_NAME, now)

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
        commits = self.spark(incarnation) / "commits"
        numbers = [int(p.name) for p in commits.glob("*") if p.name.isdecimal()]
        if not numbers:
            return None
        plan = self.spark(incarnation) / "offsets" / str(max(numbers))
        return ends_of_plan(plan.read_text("utf-8"))


def check_lives(known: Collection[str], incarnation: str, *, restart: bool) -> None:
    """See `Checkpoint.check_incarnation`; `known` are those that the job has read."""
    if restart or not known or incarnation in known:
        return
    raise TopicRecreated(
        f"the topic was deleted and created again (now {incarnation}, this sink read "
        f"{', '.join(sorted(known))}): set onTopicRecreated to Restart to read the new one "
        "from its beginning"
    )


def ends_of_plan(text: str) -> Offsets:
    """The ends that Spark has planned for a batch, from the file that it keeps below `offsets`.

    Spark 4.3 writes a version, a line of metadata, and a line per source.
    """
    return Offsets.from_json(json.loads(text.splitlines()[2]))


def _declared(config: JobConfig) -> dict[str, Any]:
    files = config.sink.files
    return {
        "sink": config.name,
        "type": config.sink.type,
        "stream": config.stream,
        "topic": config.topic,
        "path": files.path if files else None,
        "partitionBy": files.partition_by if files else [],
        "target": _target(config.sink),
        "payloadFormat": config.sink.payload.format,
        "fields": {item.name: schema.to_ddl(item.type) for item in config.payload.fields},
    }


def _target(sink: SinkSpec) -> list[str]:
    """Where another place would be another target."""
    block = getattr(sink, BLOCKS[sink.type] or "", None)
    names = ("path", "table", "database", "collection", "index", "stream", "topic")
    return [f"{name}: {getattr(block, name)}" for name in names if hasattr(block, name)]


def _check_change(before: dict[str, Any], now: dict[str, Any]) -> None:
    if before.get("sink", now["sink"]) != now["sink"]:
        raise OptionError(
            f"checkpoint: it belongs to the sink {before['sink']!r}: give {now['sink']!r} a place "
            "of its own"
        )
    names = {
        "type": "sink.type",
        "stream": "stream",
        "topic": "topic",
        "path": "sink.files.path",
        "target": f"sink.{BLOCKS.get(now['type']) or 'type'}",
        "partitionBy": "sink.files.partitionBy",
        "payloadFormat": "sink.payload.format",
    }
    for key, name in names.items():
        if before.get(key, now[key]) != now[key]:
            raise OptionError(
                f"{name}: was {before[key]!r} and is {now[key]!r}: this sink has written with the "
                "old one, give the new one a sink of its own"
            )
    for field, kind in now["fields"].items():
        old = before["fields"].get(field, kind)
        if old != kind:
            raise OptionError(
                f"sink.payload.schema: field {field!r} was {old} and is {kind}: "
                "rows of both do not go together, add a field of another name or give the "
                "new schema a sink of its own"
            )
