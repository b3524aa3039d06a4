"""A checkpoint in an object store: a local copy to work on, and what must not be lost in the store.

<address>/driver                      see `driver_mark`
<address>/sink.json                   what the sink was declared as; of a source source.json
<address>/<incarnation>/state/…       where the first batch began
<address>/<incarnation>/spark/…       Spark's checkpoint: plans below offsets, ends below commits

Spark works on the copy, which is anew with every start. A plan is in the store before its batch is
carried out, and an end before anybody is told of it: a start finds there what it would find in a
folder. Each of these objects can be made only once, by whoever is first (`If-None-Match`): of two
drivers that do not know of one another, one fails. Spark's own way into a store has no such rule,
and takes some twenty requests for a batch where this takes two.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from iggy_spark import s3
from iggy_spark.checkpoint import DECLARED_NAMES, INCARNATION, Checkpoint
from iggy_spark.errors import Fenced, SinkError
from iggy_spark.job_parts import JobFile
from iggy_spark.s3 import Bucket, Connection, StoreError, check_once

_SPARK_FILE: Final = re.compile(r"state/initial\.json|spark/(metadata|(offsets|commits)/\d+)")


class StoredCheckpoint(Checkpoint):
    """See `Checkpoint`. The lock of the copy keeps out other jobs of this machine only."""

    def __init__(self, address: str, connection: Connection) -> None:
        """Look what there is.

        Raises:
            Fenced: another job on this machine has it.
            SinkError: the store or the local folder cannot be used.
        """
        self._bucket = Bucket(address, connection)
        mark = hashlib.sha256(address.encode()).hexdigest()[:16]
        copy = Path(tempfile.gettempdir()) / f"iggy-checkpoint-{mark}"
        super().__init__(copy)
        self._there: dict[str, set[str]] = {}  # of an incarnation: names that the store has
        self._one = threading.Lock()  # Spark calls from a thread of its own
        try:
            self._clear(copy)
            with _asking():
                self._look()
        except BaseException:
            self.close()
            raise

    def _clear(self, copy: Path) -> None:
        for name in DECLARED_NAMES:
            (copy / name).unlink(missing_ok=True)
        for entry in copy.iterdir():
            if INCARNATION.fullmatch(entry.name):
                shutil.rmtree(entry)

    def _look(self) -> None:
        check_once(self._bucket, "probe")
        for key in self._bucket.list_keys():
            life = key.partition("/")[0]
            if INCARNATION.fullmatch(life):
                (self._folder / life).mkdir(exist_ok=True)
        for name in DECLARED_NAMES:
            declared = self._bucket.get(name)
            if declared is not None:
                (self._folder / name).write_bytes(declared)

    def _write(self, name: str, value: dict[str, Any]) -> None:
        super()._write(name, value)
        with _asking():
            self._bucket.put(name, (self._folder / name).read_bytes())

    def has_committed(self, incarnation: str, batch: int) -> bool:
        """See `Checkpoint`; an end counts when the store has it."""
        if not super().has_committed(incarnation, batch):
            return False
        self.keep(incarnation)
        return True

    def position(self, incarnation: str) -> Any:
        """See `Checkpoint`. First asked by a job that has become the only one that may work."""
        if incarnation in self._there:
            self.keep(incarnation)
        else:
            self._fetch(incarnation)
        return super().position(incarnation)

    def _fetch(self, incarnation: str) -> None:
        there = set()
        with _asking():
            for key in sorted(self._bucket.list_keys(f"{incarnation}/")):
                name = key.removeprefix(f"{incarnation}/")
                data = self._bucket.get(key) if _SPARK_FILE.fullmatch(name) else None
                if data is None:
                    continue
                path = self._folder / incarnation / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                there.add(name)
        self._there[incarnation] = there

    def keep(self, incarnation: str) -> None:
        """Bring to the store what Spark has written since.

        Raises:
            Fenced: another driver has written there.
            SinkError: the store cannot be written.
        """
        with self._one:
            there = self._there.get(incarnation)
            if there is None:
                return  # nothing has begun
            found = _spark_files(self._folder / incarnation)
            with _asking():
                for name in found:
                    if name not in there:
                        self._keep(incarnation, name)
                        there.add(name)
                for name in _dropped(there, found):
                    self._bucket.delete(f"{incarnation}/{name}")
                    there.remove(name)

    def _keep(self, incarnation: str, name: str) -> None:
        key = f"{incarnation}/{name}"
        data = (self._folder / key).read_bytes()
        if not self._bucket.put_once(key, data) and self._bucket.get(key) != data:
            raise Fenced(f"checkpoint: another run of this job has written {key}")


def of(config: JobFile) -> Checkpoint:
    """The checkpoint of a job, in a store or in a folder.

    Raises:
        Fenced: another job has it.
        SinkError: the place cannot be used.
    """
    if s3.is_address(config.checkpoint):
        return StoredCheckpoint(config.checkpoint, config.checkpoint_store.connection())
    return Checkpoint(Path(config.checkpoint))


def _spark_files(life: Path) -> list[str]:
    """In the order in which they came to be: start, then each batch's plan before its end."""
    fixed = [name for name in ("state/initial.json", "spark/metadata") if (life / name).exists()]
    batches = [
        (int(path.name), kind)
        for kind in ("commits", "offsets")
        for path in (life / "spark" / kind).glob("*")
        if path.name.isdecimal()
    ]
    batches.sort(key=lambda item: (item[0], item[1] == "commits"))
    return fixed + [f"spark/{kind}/{number}" for number, kind in batches]


def _dropped(there: set[str], found: list[str]) -> list[str]:
    """Plans and ends that Spark needs no more: it keeps those of the last batches. A copy that
    somebody has emptied says nothing.
    """
    oldest: dict[str, int] = {}
    for name in found:
        kind, _, number = name.rpartition("/")
        if number.isdecimal():
            oldest[kind] = min(int(number), oldest.get(kind, int(number)))
    numbered = ((name, *name.rpartition("/")[::2]) for name in there)
    return [
        name
        for name, kind, number in numbered
        if number.isdecimal() and int(number) < oldest.get(kind, 0)
    ]


@contextmanager
def _asking() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise SinkError(f"checkpoint: {error}") from error
