"""What Java has thrown through Spark: the errors of SQL in it, and what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from iggy_spark.retry import Cause

CAUSES_MAX: Final = 32  # of one another
MESSAGE_CHARACTERS_MAX: Final = 255
# Drivers say by a class that another try may do, or by the first two characters of an SQLSTATE.
_TRANSIENT: Final = (
    "java.sql.SQLTransientException",
    "java.sql.SQLRecoverableException",
    "java.sql.SQLNonTransientConnectionException",
)
_UNREACHABLE: Final = ("08",)
_CONFLICT: Final = ("40",)  # serialization, deadlock
_BUSY: Final = ("53", "57", "HYT")  # full; shut down or cancelled; a time is over
_NO_LOGIN: Final = ("28", "08004")
_OF_ROWS: Final = ("22", "23", "44")  # does not fit, violates a constraint, is not in the view


@dataclass(frozen=True, slots=True)
class SqlError:
    """One `java.sql.SQLException`."""

    state: str
    message: str  # on one line, cut
    is_transient: bool  # by its class

    @property
    def cause(self) -> Cause | None:
        """Why another try may do; None if it may not."""
        if self.refuses_login:
            return None
        if self.state.startswith(_CONFLICT):
            return "conflict"
        if self.state.startswith(_BUSY):
            return "busy"
        return "unreachable" if self.is_transient or self.state.startswith(_UNREACHABLE) else None

    @property
    def refuses_login(self) -> bool:
        """Whether the user or the password is wrong."""
        return self.state.startswith(_NO_LOGIN)

    @property
    def is_of_rows(self) -> bool:
        """Whether what is in the rows is to blame."""
        return self.state.startswith(_OF_ROWS)

    def __str__(self) -> str:
        return f"{self.message} (SQLSTATE {self.state})" if self.state else self.message


def throwable(error: Exception) -> Any:
    """The throwable of Java that an exception of PySpark or py4j stands for; None: no such."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def is_missing_class(error: Exception) -> bool:
    """Whether Java does not know the class that it was to load."""
    thrown = throwable(error)
    return thrown is not None and str(thrown).startswith("java.lang.ClassNotFoundException")


def sql_error(spark: SparkSession, error: Exception) -> SqlError | None:
    """The error of a database in what was thrown: the innermost that tells most, if any."""
    found = None
    for thrown in _chain(throwable(error)):
        if _is(spark, thrown, "java.sql.SQLException"):
            state = thrown.getSQLState() or ""
            if found is not None and not state:
                continue
            found = SqlError(
                state,
                _one_line(thrown.getMessage() or ""),
                any(_is(spark, thrown, name) for name in _TRANSIENT),
            )
    return found


def _chain(thrown: Any) -> Iterator[Any]:
    for _ in range(CAUSES_MAX):
        if thrown is None:
            return
        yield thrown
        thrown = thrown.getCause()


def _is(spark: SparkSession, thrown: Any, name: str) -> bool:
    return bool(is_instance_of(spark.sparkContext._gateway, thrown, name))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MESSAGE_CHARACTERS_MAX]
