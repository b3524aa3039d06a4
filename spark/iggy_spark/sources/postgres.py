"""Rows of tables in PostgreSQL, and their changes. See docs/sources/postgres.md."""

from __future__ import annotations

from iggy_spark.retry import Retry
from iggy_spark.source_blocks import Postgres
from iggy_spark.sources.base import Source


def build(block: Postgres, *, name: str, retry: Retry) -> Source:
    """The source of a block's mode. Connects to nothing yet.

    Raises:
        OptionError: the settings do not fit each other.
    """
    if block.mode == "Polling":
        from iggy_spark.sources.postgres_polling import PollingSource

        return PollingSource(block, name=name, retry=retry)
    from iggy_spark.sources.postgres_changes import ChangesSource

    return ChangesSource(block, name=name, retry=retry)
