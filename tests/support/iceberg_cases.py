"""A table of a test's own, and Iceberg sinks that write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_tables import IcebergTables, new_name
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks.base import Written
from iggy_spark.sinks.iceberg import IcebergSink, lives_of
from iggy_spark.sinks.rows import table_fields
from sink_cases import INCARNATION, PlayedTask, declare, portions, wanted


class Case:
    """A table of a test's own, and sinks that write it."""

    def __init__(self, tables: IcebergTables, schema: str | None = None) -> None:
        self.tables = tables
        self.name = new_name()
        self.payload = declare() if schema is None else declare(text=schema)

    def sink(self, name: str = "lake", *, timeout_s: float = 5, **block: Any) -> IcebergSink:
        retry = Retry(Policy(timeout_s, initial_s=0.01, max_s=0.1))
        made = self.tables.block(self.name, **block)
        return IcebergSink(made, table_fields(self.payload), name=name, retry=retry)

    def write(
        self,
        first: int,
        end: int,
        *,
        made: Callable[[int], bytes] | None = None,
        sink: IcebergSink | None = None,
        **block: Any,
    ) -> list[Written]:
        """One batch of one partition."""
        chosen = sink or self.sink(**block)
        chosen.check()
        results = [self.task(chosen, first, end, made=made)]
        chosen.commit(results)
        return results

    def task(
        self,
        sink: IcebergSink,
        first: int,
        end: int,
        *,
        made: Callable[[int], bytes] | None = None,
    ) -> Written:
        """What a task of a batch does."""
        span = wanted(first, end)
        more = {} if made is None else {"made": made}
        found = portions(span, payload=self.payload, **more)
        return sink.write_task(span, found, PlayedTask())

    def rows(self) -> list[tuple[int, int]]:
        return self.tables.rows(self.name)

    def held(self, name: str = "lake") -> dict[int, int]:
        """Next offsets, as the table tells them."""
        found = lives_of(self.tables.table(self.name).metadata, f"iggy.{name}.offsets")
        return found.get(INCARNATION, {})
