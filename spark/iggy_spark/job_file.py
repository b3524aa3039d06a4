"""The file of either kind of job: what it carries is told by which field is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iggy_spark import job_config, job_parts, source_config
from iggy_spark.errors import OptionError
from iggy_spark.job_config import JobConfig
from iggy_spark.source_config import SourceConfig


def load(path: Path) -> JobConfig | SourceConfig:
    """Read and check a job file.

    Raises:
        OptionError: the file or a field is wrong; the message names it.
    """
    return parse(job_parts.read(path), name=str(path))


def parse(data: bytes, *, name: str) -> JobConfig | SourceConfig:
    """Check the content of a job file, which `name` stands for in errors. Starts no Spark.

    Raises:
        OptionError: a field is wrong; the message names it.
    """
    fields = job_parts.decode(data, dict[str, Any], name=name)
    if "sink" in fields and "source" in fields:
        raise OptionError(f"{name}: sink and source exclude each other: keep one")
    if "source" in fields:
        return source_config.parse(data, name=name)
    return job_config.parse(data, name=name)
