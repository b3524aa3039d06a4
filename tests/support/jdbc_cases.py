"""A sink over a table of a test's own, in a real PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from iggy_spark import blocks
from iggy_spark.offsets import OffsetRange
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks.base import Portion, Written
from iggy_spark.sinks.jdbc import JdbcSink
from iggy_spark.sinks.rows import table_fields
from postgres import Postgres
from sink_cases import INCARNATION, PlayedTask, declare, document, portions

_numbers = itertools.count()
NAME = "shop/orders.table"
QUICK = Policy(20, 0.01, 0.1)


class Scene:
    """A schema of its own, with the table `orders`."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.schema = f"s{next(_numbers)}"
        self.run(f"create schema {self.schema}")

    @property
    def table(self) -> str:
        return f"{self.schema}.orders"

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.run(*statements)

    def make(self, columns: str) -> None:
        self.run(f"create table {self.table} ({columns})")

    def offsets(self) -> list[int]:
        """Of all rows, in order."""
        found = self.run(f"select iggy_offset from {self.table} order by iggy_offset")
        return [offset for (offset,) in found]

    def sink(
        self,
        schema: str | None = None,
        *,
        policy: Policy = QUICK,
        **block: Any,
    ) -> JdbcSink:
        """A sink with these fields of its block."""
        given = {
            "url": self.server.url,
            "table": self.table,
            "credentialsPath": str(self.server.login),
            **block,
        }
        payload = declare() if schema is None else declare(text=schema)
        return JdbcSink(
            msgspec.convert(given, blocks.Jdbc),
            table_fields(payload),
            name=NAME,
            retry=Retry(policy),
        )

    def carry(
        self,
        sink: JdbcSink,
        span: OffsetRange,
        made: Callable[[int], bytes] = document,
        *,
        schema: str | None = None,
        size: int = 3,
    ) -> tuple[Written, PlayedTask]:
        """Write a range, with the task that was played."""
        task = PlayedTask()
        payload = declare() if schema is None else declare(text=schema)
        found = portions(span, payload=payload, made=made, size=size)
        return sink.write_task(span, found, task), task


def ready(sink: JdbcSink) -> JdbcSink:
    """Checked and prepared, as the driver does."""
    sink.check()
    sink.prepare(INCARNATION)
    return sink


def breaking(found: Iterable[Portion], at: int, break_it: Callable[[], None]) -> Iterable[Portion]:
    """Portions; before the one of number `at`, something happens."""
    for number, portion in enumerate(found):
        if number == at:
            break_it()
        yield portion
