"""A job from its file to its exit code, whatever it carries."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from iggy_spark import errors, job_file, running_query, session, spark_versions
from iggy_spark.errors import IggySparkError
from iggy_spark.job import Job, RunSpark
from iggy_spark.job_config import JobConfig
from iggy_spark.progress import Reporter
from iggy_spark.source_config import SourceConfig
from iggy_spark.source_job import SourceJob
from iggy_spark.stop import Stop


class Runnable(Protocol):
    """A job of either kind."""

    def run(self) -> bool:
        """Run until there is nothing left, or until asked to stop. True: nothing is left, or nobody
        has asked for so much.

        Raises:
            IggySparkError: why it could not go on.
        """


def run(file: Path, stop: Stop, environ: Mapping[str, str]) -> int:
    """Do what the job's file says; the exit code is one of `errors`."""
    # What crosses into Java is ours to report, in one line; py4j would print it with its trace.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.getLogger("py4j").propagate = False
    reporter = Reporter(sys.stdout)
    what = JobConfig.what  # unless the file says otherwise
    try:
        config = job_file.load(file)
        what = config.what
        is_done = job_of(config, environ, reporter, stop=stop).run()
    except IggySparkError as error:
        return _failed(reporter, what, str(error), error.exit_code)
    except (PySparkException, Py4JError) as error:
        found = errors.find_in_text(str(error))
        if found is not None:
            return _failed(reporter, what, str(found), found.exit_code)
        text = f"Spark: {running_query.reason(str(error))}"
        return _failed(reporter, what, text, errors.EXIT_FAILED)
    except OSError as error:
        return _failed(reporter, what, str(error), errors.EXIT_FAILED)
    return errors.EXIT_DONE if is_done else errors.EXIT_STOPPED


def job_of(
    config: JobConfig | SourceConfig,
    environ: Mapping[str, str],
    reporter: Reporter,
    *,
    stop: Stop,
    running: RunSpark = session.running,
) -> Runnable:
    """The job of a file. `running` makes Spark.

    Raises:
        OptionError: the configuration is wrong, or this Spark too old.
    """
    spark_versions.check_job()
    if isinstance(config, SourceConfig):
        return SourceJob(config, environ, reporter, stop=stop, running=running)
    return Job(config, environ, reporter, stop=stop, running=running)


def _failed(reporter: Reporter, what: str, reason: str, code: int) -> int:
    reporter.event("failed", reason=reason, code=code)
    sys.stderr.write(f"iggy {what} job failed: {reason}\n")
    return code
