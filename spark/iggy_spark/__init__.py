"""Spark on the Iggy side: the data source `format("iggy")` and the sink job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["header"]


def header(name: str, kind: str) -> Column:
    """A header of a message as a column of the Spark type `kind`: see `header_value.header`."""
    # PySpark takes seconds to import, and not all that is in this package needs it.
    from iggy_spark import header_value

    return header_value.header(name, kind)
