"""The "iggy" data source: `format("iggy")` of `read`, `readStream`, `write` and `writeStream`.

    spark.readStream.format("iggy")
        .option("servers", "127.0.0.1:8090").option("username", …).option("password", …)
        .option("stream", "shop").option("topic", "orders")
        .option("startingOffsets", "earliest")

Works without registration wherever this package is installed: see `pyspark_iggy`. Everything but
PySpark itself is imported inside methods: Spark looks for sources by importing them, and one that
fails on import hides all others.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from iggy_spark.options import ReadOptions


class IggyDataSource(DataSource):
    """Topics of an Iggy broker as rows."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Options as Spark hands them over; they are checked when they are used."""
        super().__init__(dict(options))
        self._raw = {str(name): str(value) for name, value in options.items()}

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "iggy"

    def schema(self) -> str:
        """The columns as DDL text."""
        from iggy_spark import arrow, options

        return arrow.spark_ddl(options.parse(self._raw, mode=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read of the columns in `schema`."""
        from iggy_spark.readers import IggyBatchReader, IggyFilteringReader

        options = self._options("batch", schema)
        return (IggyFilteringReader if options.filter_pushdown else IggyBatchReader)(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A streaming read of the columns in `schema`."""
        from iggy_spark import spark_versions
        from iggy_spark.bounded_reader import BoundedStreamReader
        from iggy_spark.readers import IggyStreamReader

        kind = IggyStreamReader if spark_versions.HAS_READ_LIMITS else BoundedStreamReader
        return kind(self._options("stream", schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write of frames of this schema."""
        from iggy_spark import write_options, writer

        writer.check_mode(overwrite)
        return writer.IggyBatchWriter(write_options.parse(self._raw), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A streaming write of frames of this schema."""
        from iggy_spark import write_options, writer

        writer.check_mode(overwrite)
        return writer.IggyStreamWriter(write_options.parse(self._raw), schema)

    def _options(self, mode: str, schema: StructType) -> ReadOptions:
        """The options with the columns that Spark wants: a subset if the user gave a schema.

        Raises:
            OptionError: a column does not exist or has another type.
        """
        from iggy_spark import arrow, options, spark_versions
        from iggy_spark.errors import OptionError

        parsed = options.parse(self._raw, mode=mode)
        columns = options.check_columns(schema.fieldNames(), parsed.payload.format)
        wanted = replace(parsed, columns=columns)
        ours, given = arrow.arrow_schema(wanted), spark_versions.arrow_schema(schema)
        for column in columns:
            if not ours.field(column).equals(given.field(column)):
                raise OptionError(
                    f"schema: column {column} is {ours.field(column).type}, not "
                    f"{given.field(column).type}: leave the schema out or correct it"
                )
        return wanted
