"""What differs between the Sparks that this package runs on: 4.1, 4.2 and 4.3.

Spark 4.2 is the first that tells a Python source where a micro-batch begins, how large it may be
and that a run is to end, with the module `pyspark.sql.streaming.datasource`. Spark 4.1 does none of
that: `bounded_reader` has what is done instead. All else is the same in the three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import version
from pyspark.sql.types import StructType

from iggy_spark.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
except ModuleNotFoundError:  # Spark 4.1. Our own modules use the names all the same.
    HAS_READ_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """How much a micro-batch may hold."""

    @dataclass
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """All that is there."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """So many messages."""

        max_rows: int

    @dataclass
    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        """So many bytes."""

        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing: this Spark does not ask."""


VERSION: Final = version.__version__

__all__ = [
    "HAS_READ_LIMITS",
    "VERSION",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "check_job",
]


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema that Spark wants record batches to have."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.1 has no other time zone than this one.
    return to_arrow_schema(schema, timezone="UTC") if HAS_READ_LIMITS else to_arrow_schema(schema)


def check_job() -> None:
    """Refuse a Spark on which a job that is to end by itself would end too early.

    Raises:
        OptionError: Spark is older than 4.2.
    """
    if not HAS_READ_LIMITS:
        raise OptionError(
            f"spark: jobs need Spark 4.2 or newer, and this is {VERSION}: use the image "
            "iggykube/spark, or install pyspark 4.3"
        )
