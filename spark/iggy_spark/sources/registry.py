"""Source type -> class. The one place that knows all sources.

Their modules are imported when they are asked for: each may need a library that others do without.
"""

from __future__ import annotations

from iggy_spark.errors import OptionError
from iggy_spark.retry import Retry
from iggy_spark.source_config import SourceConfig
from iggy_spark.sources.base import Source


def build(config: SourceConfig, *, retry: Retry) -> Source:
    """The source of a job. Asks nobody yet.

    Raises:
        OptionError: the source's settings do not fit each other, or a library is missing.
    """
    try:
        return _build(config, retry)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"source.type: {config.source.type} needs the Python package {error.name}: "
            "pip install 'iggykube[sinks]'"
        ) from error


def _build(config: SourceConfig, retry: Retry) -> Source:
    source = config.source
    if source.random is not None:
        from iggy_spark.sources.random import RandomSource

        return RandomSource(source.random, name=config.name, retry=retry)
    if source.files is not None:
        from iggy_spark.sources.files import FilesSource

        return FilesSource(source.files, name=config.name, retry=retry)
    if source.postgres is not None:
        from iggy_spark.sources import postgres

        return postgres.build(source.postgres, name=config.name, retry=retry)
    if source.http is not None:
        from iggy_spark.sources import http

        return http.of(source.http, name=config.name, retry=retry)
    raise AssertionError("types are checked with the configuration")
