"""A look at a job's checkpoint from outside, also while its job runs: no lock, no change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from iggy_spark import s3
from iggy_spark.checkpoint import INCARNATION, end_of_plan
from iggy_spark.errors import SinkError
from iggy_spark.job_parts import JobFile
from iggy_spark.offsets import Offsets
from iggy_spark.state import INITIAL_NAME


class _Store(Protocol):
    def names(self, below: str) -> Iterable[str]: ...

    def get(self, name: str) -> bytes | None: ...


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self, below: str) -> Iterable[str]:
        folder = self._folder / below
        return [below + path.name for path in folder.iterdir()] if folder.is_dir() else []

    def get(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None


class _Stored:
    def __init__(self, address: str, connection: s3.Connection) -> None:
        self._bucket = s3.Bucket(address, connection)

    def names(self, below: str) -> Iterable[str]:
        return self._bucket.list_keys(below)

    def get(self, name: str) -> bytes | None:
        return self._bucket.get(name)


class CheckpointView:
    """What a job has left in its checkpoint."""

    def __init__(self, config: JobFile) -> None:
        """Looks at nothing yet."""
        self._store: _Store
        if s3.is_address(config.checkpoint):
            self._store = _Stored(config.checkpoint, config.checkpoint_store.connection())
        else:
            self._store = _Folder(Path(config.checkpoint))

    def incarnations(self) -> list[str]:
        """Lives of topics that the job has read.

        Raises:
            SinkError: the place cannot be read.
        """
        found = {name.partition("/")[0] for name in self._names("")}
        return sorted(name for name in found if INCARNATION.fullmatch(name))

    def committed(self, incarnation: str) -> Offsets | None:
        """End of the last batch that Spark has committed; None before the first.

        Raises:
            SinkError: the place cannot be read.
            OffsetFormatError: another version has written it.
        """
        found = self.position(incarnation)
        return None if found is None else Offsets.from_json(found)

    def position(self, incarnation: str) -> Any:
        """The same as Spark has it.

        Raises:
            SinkError: the place cannot be read.
        """
        spark = f"{incarnation}/spark"
        names = [name.rpartition("/")[2] for name in self._names(f"{spark}/commits/")]
        numbers = [int(name) for name in names if name.isdecimal()]
        if not numbers:
            return None
        plan = self._get(f"{spark}/offsets/{max(numbers)}")
        return None if plan is None else end_of_plan(plan.decode())

    def first_start(self, incarnation: str) -> Offsets | None:
        """Where the first batch begins, once that is written down.

        Raises:
            SinkError: the place cannot be read.
            OffsetFormatError: another version has written it.
        """
        found = self.first_position(incarnation)
        return None if found is None else Offsets.from_json(found)

    def first_position(self, incarnation: str) -> Any:
        """The same as it was written.

        Raises:
            SinkError: the place cannot be read.
        """
        found = self._get(f"{incarnation}/state/{INITIAL_NAME}")
        return None if found is None else json.loads(found)

    def _names(self, below: str) -> list[str]:
        try:
            return list(self._store.names(below))
        except (OSError, s3.StoreError) as error:
            raise SinkError(f"checkpoint: cannot be read: {error}") from error

    def _get(self, name: str) -> bytes | None:
        try:
            return self._store.get(name)
        except (OSError, s3.StoreError) as error:
            raise SinkError(f"checkpoint: {name} cannot be read: {error}") from error
