"""Filters that a batch read can answer itself → bounds on what is read. Pure.

A filter that is given back is applied by Spark to every row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from iggy_spark.offsets import OFFSET_MAX
from iggy_spark.option_values import EPOCH

_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is read of every topic. Ends are exclusive; None is no bound."""

    partitions: frozenset[int] | None = None
    first: int = 0  # offset
    end: int = OFFSET_MAX
    first_us: int | None = None  # since 1970 UTC, when the broker took it
    end_us: int | None = None

    def offsets(self, first: int | None, end: int | None) -> Bounds:
        """Also within these offsets."""
        return replace(
            self,
            first=self.first if first is None else max(self.first, first),
            end=self.end if end is None else min(self.end, end),
        )

    def times(self, first_us: int | None, end_us: int | None) -> Bounds:
        """Also within these times."""
        firsts = [us for us in (self.first_us, first_us) if us is not None]
        ends = [us for us in (self.end_us, end_us) if us is not None]
        return replace(self, first_us=max(firsts, default=None), end_us=min(ends, default=None))

    def only(self, partitions: Iterable[int]) -> Bounds:
        """Also one of these partitions."""
        wanted = frozenset(partitions)
        return replace(
            self, partitions=wanted if self.partitions is None else self.partitions & wanted
        )


def narrow(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """Bounds that no row outside of passes the filters, and the filters that say more than they."""
    bounds, left = Bounds(), []
    for item in filters:
        narrower = _narrowed(bounds, item)
        if narrower is None:
            left.append(item)
        else:
            bounds = narrower
    return bounds, left


def _narrowed(bounds: Bounds, item: Filter) -> Bounds | None:
    """None if this filter is not understood."""
    column: Any = getattr(item, "attribute", None)
    value: Any = getattr(item, "value", None)
    if column not in (("partition",), ("offset",), ("timestamp",)):
        return None
    if isinstance(item, IsNotNull):
        return bounds
    if column == ("partition",):
        wanted = value if isinstance(item, In) else (value,)
        is_equal = isinstance(item, EqualTo | EqualNullSafe | In)
        return bounds.only(wanted) if is_equal and _are_numbers(wanted) else None
    if column == ("timestamp",):
        span = _span(item, (value - EPOCH) // _MICROSECOND) if _is_instant(value) else None
        return None if span is None else bounds.times(*span)
    span = _span(item, value) if type(value) is int else None
    return None if span is None else bounds.offsets(*span)


def _is_instant(value: Any) -> bool:
    return isinstance(value, datetime.datetime) and value.tzinfo is not None


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(type(value) is int for value in values)


def _span(item: Filter, value: int) -> tuple[int | None, int | None] | None:
    """First and exclusive end of what a comparison with a whole number lets through."""
    match item:
        case EqualTo() | EqualNullSafe():
            return value, value + 1
        case GreaterThan():
            return value + 1, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value
        case LessThanOrEqual():
            return None, value + 1
    return None
