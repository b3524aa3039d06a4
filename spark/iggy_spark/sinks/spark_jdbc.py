"""Rows of a table in a database that Spark's own JDBC writer reaches: any but PostgreSQL.

Python has no JDBC, so the rows pass through Java here. Each partition of a batch is a transaction;
a batch that is repeated adds its rows again: at least once. The database is asked anew for its
table before each batch, with the login as it is then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from iggy_spark import blocks, credentials, errors, java_errors, running_query, schema
from iggy_spark.errors import BadPayload, IggySparkError, OptionError, SinkError
from iggy_spark.job_config import JobConfig
from iggy_spark.offsets import OffsetRange
from iggy_spark.retry import Retry, TransientError
from iggy_spark.sinks import jdbc_drivers
from iggy_spark.sinks.base import Portion, Spans, Task, Written
from iggy_spark.sinks.rows import METADATA, table_fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

T = TypeVar("T")

STATEMENT_S: Final = 300  # for one call with a portion of rows
_SOURCES: Final = {
    "iggy_partition_id": "partition",
    "iggy_offset": "offset",
    "iggy_timestamp": "timestamp",
}  # our columns → those of the data source
_OURS: Final = frozenset(item.name for item in METADATA)


class SparkJdbcSink:
    """Lets Spark write each batch as rows of one table."""

    exactly_once = False
    keeps_place = False

    def __init__(self, settings: blocks.Jdbc, config: JobConfig, *, retry: Retry) -> None:
        """Connects to nothing yet.

        Raises:
            OptionError: a field is wrong, or goes with PostgreSQL alone.
        """
        self._address = jdbc_drivers.parse(settings)
        _refuse_others(settings, config)
        self._settings = settings
        self._fields = table_fields(config.payload)
        self._format = config.payload.format
        self._has_fields = bool(config.payload.fields)
        self._retry = retry

    @property
    def source_columns(self) -> str:
        """What the data source is to read, for its option `columns`."""
        return ",".join([*_SOURCES.values(), "payload" if self._format == "raw" else "value"])

    def check(self) -> None:
        """Whether there is a login. The database is asked by `look`.

        Raises:
            OptionError: there is none to read.
        """
        self._login()

    def look(self, spark: SparkSession) -> None:
        """Connect as the writer does, and compare the table with the columns.

        Raises:
            SinkError: the database cannot be reached, or refuses the user.
            OptionError: the driver or the table is missing, or the table has not all columns.
        """
        self._again(spark, lambda login: self._columns(spark, login))

    def process(self, frame: DataFrame) -> None:
        """Write one batch, again and again while the database cannot.

        Raises:
            SinkError: the database stays away, or says no.
            BadPayload: it refuses what is in the rows.
            OptionError: the table does not fit any more.
            IggySparkError: reading failed.
        """
        spark = frame.sparkSession

        def write(login: Mapping[str, str]) -> None:
            fields = self._columns(spark, login)
            options = {
                "url": self._address.spark_url,
                "driver": self._address.driver,
                "dbtable": self._settings.table,
                "queryTimeout": str(STATEMENT_S),
                **login,
            }
            if self._settings.batch_size is not None:
                options["batchsize"] = str(self._settings.batch_size)
            rows = frame.select(*(self._column(item) for item in fields))
            rows.write.format("jdbc").options(**options).mode("append").save()

        self._again(spark, write)

    def _column(self, item: schema.Field) -> Column:
        """A column of the table, of a type that every database has."""
        if item.name in _OURS:
            return f.col(_SOURCES[item.name]).alias(item.name)
        if self._format == "raw":
            return f.col("payload")
        value = f.col("value")
        if not self._has_fields:
            return value.alias(item.name)  # a text, or the document as it is
        return _plain(value.getField(item.name), item.type).alias(item.name)

    def _login(self) -> dict[str, str]:
        """Properties of a connection."""
        path = self._settings.credentials_path
        found = credentials.read("jdbc.credentialsPath", path, ("username", "password"))
        names = {"username": "user", "password": "password"}
        return {names[name]: value for name, value in found.items()}

    def _again(self, spark: SparkSession, work: Callable[[Mapping[str, str]], T]) -> T:
        """`work` with the login of the moment. What Java throws is told without the password."""

        def once() -> T:
            login = self._login()
            try:
                return work(login)
            except (PySparkException, Py4JError) as error:
                secret = login.get("password", "")
                raise self._meaning(spark, error, secret) from None  # Java's text may hold it

        return self._retry.call(once, what=f"jdbc.url: {self._address.place}")

    def _columns(self, spark: SparkSession, login: Mapping[str, str]) -> list[schema.Field]:
        """Those that the table takes. Ours stay out where the table has no such column."""
        connection = self._connect(spark, login)
        try:
            names = self._names(spark, connection)
        finally:
            with suppress(Py4JError):  # Derby refuses to close what is not committed
                connection.rollback()
            connection.close()
        if names is None:
            return list(self._fields)
        found = []
        for item in self._fields:
            if item.name.lower() in names:
                found.append(item)
            elif item.name not in _OURS:
                raise OptionError(
                    f"jdbc.table: {self._settings.table} has no column {item.name!r}: add it, or "
                    "take the field out of payload.schema"
                )
        return found

    def _connect(self, spark: SparkSession, login: Mapping[str, str]) -> Any:
        """A `java.sql.Connection`."""
        java: Any = spark.sparkContext._jvm
        loader = java.java.lang.Thread.currentThread().getContextClassLoader()
        try:
            driver = loader.loadClass(self._address.driver).newInstance()
        except Py4JError as error:
            if java_errors.is_missing_class(error):
                raise OptionError(self._address.no_driver) from error
            raise
        properties = java.java.util.Properties()
        for name, value in login.items():
            properties.setProperty(name, value)
        connection = driver.connect(self._address.spark_url, properties)
        if connection is None:
            raise OptionError(f"jdbc.url: {self._address.driver} takes no such URL")
        connection.setAutoCommit(False)
        return connection

    def _names(self, spark: SparkSession, connection: Any) -> frozenset[str] | None:
        """Names of the table's columns, in small letters; None if it is to be made.

        Raises:
            OptionError: there is no table, and it is not to be made.
        """
        table = self._settings.table
        try:
            found = connection.createStatement().executeQuery(f"select * from {table} where 1 = 0")
        except Py4JError as error:
            if not self._is_missing(spark, error):
                raise
            if self._settings.create_table:
                return None
            raise OptionError(
                f"jdbc.table: there is no table {table} in {self._address.place}: make it, or set "
                "jdbc.createTable; was it renamed or dropped?"
            ) from error
        columns = found.getMetaData()
        count = columns.getColumnCount()
        return frozenset(columns.getColumnLabel(n).lower() for n in range(1, count + 1))

    def _is_missing(self, spark: SparkSession, error: Exception) -> bool:
        """Whether Spark will take it for a table that is not there, and make it."""
        thrown = java_errors.throwable(error)
        if thrown is None:
            return False
        java: Any = spark.sparkContext._jvm
        dialect = java.org.apache.spark.sql.jdbc.JdbcDialects.get(self._address.spark_url)
        return bool(dialect.isObjectNotFoundException(thrown))

    def _meaning(
        self, spark: SparkSession, error: Exception, secret: str
    ) -> IggySparkError | TransientError:
        """What an error says, as one of ours."""

        def told(text: str) -> str:
            return text.replace(secret, "***") if secret else text

        of_ours = errors.find_in_text(str(error))
        if of_ours is not None:
            return of_ours
        found = java_errors.sql_error(spark, error)
        field, place = "jdbc.table", f"{self._settings.table} of {self._address.place}"
        if found is None:
            return SinkError(told(f"{field}: {place}: {running_query.reason(str(error))}"))
        if (cause := found.cause) is not None:
            return TransientError(told(str(found)), cause=cause)
        if found.refuses_login:
            return SinkError(told(f"jdbc.url: {found}; look at jdbc.credentialsPath"))
        if found.is_of_rows:
            return BadPayload(
                told(f"{field}: {place} refuses rows: {found}; which ones only the database knows")
            )
        return SinkError(told(f"{field}: {place}: {found}"))

    def prepare(self, incarnation: str) -> Mapping[int, Spans]:
        """The table does not tell."""
        return {}

    def write_task(self, wanted: OffsetRange, portions: Iterable[Portion], task: Task) -> Written:
        """Never: Spark gets whole batches."""
        raise NotImplementedError("the driver hands over batches")

    def commit(self, results: Sequence[Written]) -> None:
        """All is there when Spark has written."""

    def close(self) -> None:
        """Nothing is open between batches."""


def _refuse_others(settings: blocks.Jdbc, config: JobConfig) -> None:
    """Raises OptionError for what goes with PostgreSQL alone."""
    if settings.mode == "Upsert" or settings.key_columns:
        raise OptionError(
            "jdbc.mode: Upsert goes with jdbc:postgresql: only: leave mode and keyColumns out, and "
            "take the newest row of a key by iggy_offset where you read"
        )
    if settings.ca_path is not None:
        raise OptionError(
            "jdbc.caPath: goes with jdbc:postgresql: only: other drivers find their authority by "
            "parameters of the URL"
        )
    if config.sink.errors.tolerance != "None":
        raise OptionError(
            "sink.errors.tolerance: Data goes with jdbc:postgresql: only: other databases take or "
            "refuse a batch as a whole: leave it out"
        )


def _plain(value: Column, kind: schema.Type) -> Column:
    if not isinstance(kind, schema.Scalar):
        return f.to_json(value)
    # Few databases have a type for it, and Spark's generic name is none of them.
    return value.cast("smallint") if kind.ddl == "TINYINT" else value
