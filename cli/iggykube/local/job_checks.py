"""What a sink's job would refuse when it starts, asked of its own code. Starts no Spark."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from iggy_spark import job_config
from iggy_spark.errors import OptionError
from iggy_spark.retry import Retry
from iggy_spark.sinks import registry

# How the job names a field, at the beginning of what it says: its sinks without `sink.`.
_FIELD: Final = re.compile(
    r"(?:sink\.)?(?P<field>[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*)(?P<rest>.*)", re.DOTALL
)
_FIELDS: Final = frozenset(item.encode_name for item in structs.fields(job_config.SinkSpec))


def refusal(job: Mapping[str, Any], *, runs_here: bool) -> tuple[str, str] | None:
    """Field of the sink, such as `files.path`, and what is wrong; None if nothing is.

    `runs_here`: libraries that the sink needs must be installed, and files that it names be there.
    """
    try:
        config = job_config.parse(msgspec.json.encode(job), name="the job's file")
        registry.build(config, show=lambda line: None, retry=Retry(config.retry_policy))
    except OptionError as error:
        is_elsewhere = isinstance(error.__cause__, (ModuleNotFoundError, OSError)) and not runs_here
        return None if is_elsewhere else _told(str(error))
    return None


def _told(text: str) -> tuple[str, str]:
    match = _FIELD.fullmatch(text)
    if match is None or match["field"].partition(".")[0] not in _FIELDS:
        return "", text
    return match["field"], match["rest"].removeprefix(":").strip()
