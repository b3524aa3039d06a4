"""A user's own program as a sink: a file that says what is done with each batch.

The job reads and keeps the place; the program gets each batch as a frame of Spark. What it does is
repeated if the job ends before Spark has committed the batch: at least once.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle

from iggy_spark import blocks, errors
from iggy_spark.errors import OptionError, SinkError
from iggy_spark.job_config import JobConfig
from iggy_spark.job_parts import RetryTimes
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Portion, Spans, Task, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIELD: Final = "custom.mainApplicationFile"
MODULE: Final = "iggy_custom_program"
SCHEME: Final = "local://"
REASON_CHARACTERS_MAX: Final = 500

Process = Callable[["DataFrame", int, list[str]], Any]


class CustomSink:
    """Hands batches to `process(frame, batch, arguments)` of the program."""

    exactly_once = False
    keeps_place = False

    def __init__(self, block: blocks.Custom, config: JobConfig) -> None:
        """Runs nothing yet.

        Raises:
            OptionError: a field is wrong, or does not go with a program.
        """
        self._path = Path(block.main_application_file.removeprefix(SCHEME))
        self._arguments = list(block.arguments)
        self._process: Process | None = None
        if not self._path.is_absolute():
            raise OptionError(
                f"{FIELD}: {block.main_application_file!r} must be an absolute path, such as "
                f"{SCHEME}/opt/programs/orders.py"
            )
        if config.sink.errors.tolerance != "None":
            raise OptionError(
                "sink.errors.tolerance: a program of type Custom decides itself what a bad message "
                "is: leave it out"
            )
        if config.sink.errors.retry != RetryTimes():
            raise OptionError(
                "sink.errors.retry: a program of type Custom is not called again within a batch: "
                "leave it out, and try again in the program"
            )

    def check(self) -> None:
        """Import the program.

        Raises:
            OptionError: that does not go, or there is no `process` in it.
        """
        self._process = self._load()

    def _load(self) -> Process:
        # Helpers that lie beside it can be imported, as with spark-submit.
        if (folder := str(self._path.parent)) not in sys.path:
            sys.path.insert(0, folder)
        spec = spec_from_loader(MODULE, SourceFileLoader(MODULE, str(self._path)))
        assert spec is not None, "a loader was given"
        assert spec.loader is not None, "a loader was given"
        module = sys.modules[MODULE] = module_from_spec(spec)
        # Executors cannot import it: its functions travel with their code.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        try:
            spec.loader.exec_module(module)
        except FileNotFoundError as error:
            raise OptionError(f"{FIELD}: there is no file {self._path}") from error
        except (Exception, SystemExit) as error:
            traceback.print_exc()  # into the job's log
            raise OptionError(
                f"{FIELD}: {self._path} cannot be imported: {last_line(error)}"
            ) from error
        return self._checked(getattr(module, "process", None))

    def _checked(self, process: Any) -> Process:
        text = "def process(frame, batch, arguments)"
        if not callable(process):
            raise OptionError(f"{FIELD}: {self._path} has no function process: write {text}")
        try:
            inspect.signature(process).bind("frame", 0, [])
        except TypeError as error:
            raise OptionError(
                f"{FIELD}: process in {self._path} does not take three arguments: write {text}"
            ) from error
        found: Process = process
        return found

    def process(self, frame: DataFrame, batch: int) -> None:
        """Hand over one batch.

        Raises:
            SinkError: the program failed; its traceback stands on standard error.
            IggySparkError: reading failed, while the program asked for rows.
        """
        assert self._process is not None, "checked before"
        try:
            self._process(frame, batch, list(self._arguments))
        except (Exception, SystemExit) as error:
            found = errors.find_in_text(str(error))
            if found is not None:
                raise found from error
            traceback.print_exc()
            raise SinkError(f"{self._path} failed in batch {batch}: {last_line(error)}") from error

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """Nobody knows what the program has done."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Never: the program gets whole batches."""
        raise NotImplementedError("the driver hands over batches")

    def commit(self, results: Sequence[Written]) -> None:
        """The program has done all when it returns."""

    def close(self) -> None:
        """Nothing is open."""


def last_line(error: BaseException) -> str:
    """Type and text, as the last line of its traceback has them."""
    lines = [line for line in traceback.format_exception_only(error) if line.strip()]
    return lines[-1].strip().splitlines()[0][:REASON_CHARACTERS_MAX]
