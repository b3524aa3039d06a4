"""A table of a test's own, and Delta sinks that write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from delta_tables import DeltaPlace
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks.base import Written
from iggy_spark.sinks.delta import DeltaSink
from iggy_spark.sinks.rows import table_fields
from sink_cases import INCARNATION, PlayedTask, declare, portions, wanted

UPSERT: dict[str, Any] = {"mode": "Upsert", "keyColumns": ["number"]}


class Case:
    """A table of a test's own, and sinks that write it."""

    def __init__(self, place: DeltaPlace, schema: str | None = None) -> None:
        self.place = place
        self.payload = declare() if schema is None else declare(text=schema)

    def sink(self, name: str = "lake", *, timeout_s: float = 5, **block: Any) -> DeltaSink:
        retry = Retry(Policy(timeout_s, initial_s=0.01, max_s=0.1))
        fields = table_fields(self.payload)
        return DeltaSink(self.place.block(**block), fields, name=name, retry=retry)

    def write(
        self,
        first: int,
        end: int,
        *,
        made: Callable[[int], bytes] | None = None,
        sink: DeltaSink | None = None,
        **block: Any,
    ) -> None:
        """One batch of one partition."""
        chosen = sink or self.sink(**block)
        chosen.check()
        chosen.commit([self.task(chosen, first, end, made=made)])

    def task(
        self,
        sink: DeltaSink,
        first: int,
        end: int,
        *,
        made: Callable[[int], bytes] | None = None,
        partition: int = 0,
    ) -> Written:
        """What a task of a batch does."""
        span = wanted(first, end, partition)
        more = {} if made is None else {"made": made}
        found = portions(span, payload=self.payload, **more)
        return sink.write_task(span, found, PlayedTask())

    def held(self, name: str = "lake") -> int | None:
        """The next offset of partition 0, as the table tells it."""
        return self.place.table().transaction_version(f"{name}/{INCARNATION}/0")
