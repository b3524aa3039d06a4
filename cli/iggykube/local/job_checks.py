"""What a job would refuse when it starts, asked of its own code. Starts no Spark."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from iggy_spark import job_file
from iggy_spark.errors import OptionError
from iggy_spark.job_config import JobConfig, SinkSpec
from iggy_spark.retry import Retry
from iggy_spark.sinks import registry as sinks
from iggy_spark.source_config import SourceConfig, SourceSpec
from iggy_spark.sources import registry as sources

# How the job names a field, at the beginning of what it says: often without the word in front.
_FIELD: Final = re.compile(
    r"(?:(?:sink|source)\.)?(?P<field>[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*)(?P<rest>.*)", re.DOTALL
)
_FIELDS: Final = frozenset(
    item.encode_name for spec in (SinkSpec, SourceSpec) for item in structs.fields(spec)
)


def refusal(job: Mapping[str, Any], *, runs_here: bool) -> tuple[str, str] | None:
    """Field of the sink or source, such as `files.path`, and what is wrong; None if nothing is.

    `runs_here`: libraries that it needs must be installed, and files that it names be there.
    """
    try:
        _build(job_file.parse(msgspec.json.encode(job), name="the job's file"))
    except OptionError as error:
        is_elsewhere = isinstance(error.__cause__, (ModuleNotFoundError, OSError)) and not runs_here
        return None if is_elsewhere else _told(str(error))
    return None


def _build(config: JobConfig | SourceConfig) -> None:
    """What the job builds before it asks anybody. Raises OptionError."""
    retry = Retry(config.retry_policy)
    if isinstance(config, SourceConfig):
        sources.build(config, retry=retry)
    else:
        sinks.build(config, show=lambda line: None, retry=retry)


def _told(text: str) -> tuple[str, str]:
    match = _FIELD.fullmatch(text)
    if match is None or match["field"].partition(".")[0] not in _FIELDS:
        return "", text
    return match["field"], match["rest"].removeprefix(":").strip()
