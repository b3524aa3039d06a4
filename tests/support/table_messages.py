"""Messages of every type, and of odd partition values, for tests of tables."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

TYPES = (
    "n BIGINT NOT NULL, small SMALLINT, ok BOOLEAN, f FLOAT, d DOUBLE, amount DECIMAL(18,2), "
    "big DECIMAL(38,9), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, note STRING, "
    "tags ARRAY<STRING>, who STRUCT<name: STRING, age: INT>, counts MAP<STRING, INT>, "
    "`a b.c` STRING"
)


def typed(number: int) -> bytes:
    """Even ones have everything, odd ones next to nothing."""
    if number % 2:
        return json.dumps({"n": number}).encode()
    value = {
        "n": number, "small": -7, "ok": True, "f": 0.5, "d": -0.25, "amount": "12345.67",
        "big": "1234567890.123456789", "day": "2026-03-29",
        "at": "2026-03-29T02:30:00.000001+02:00", "local": "2026-03-29T02:30:00.5",
        "note": "\u00e9", "tags": ["a", None], "counts": {"x": 1, "y": None},
        "who": {"name": "x", "age": 3}, "a b.c": "dots",
    }  # fmt: skip
    return json.dumps(value).encode()


def wanted_row() -> dict[str, Any]:
    """What a reader finds of message 0."""
    return {
        "n": 0, "small": -7, "ok": True, "f": 0.5, "d": -0.25, "amount": Decimal("12345.67"),
        "big": Decimal("1234567890.123456789"), "day": date(2026, 3, 29),
        "at": datetime(2026, 3, 29, 0, 30, 0, 1, tzinfo=UTC),
        "local": datetime.fromisoformat("2026-03-29T02:30:00.5"), "note": "\u00e9",
        "tags": ["a", None], "counts": [("x", 1), ("y", None)],
        "who": {"name": "x", "age": 3}, "a b.c": "dots", "iggy_partition_id": 0, "iggy_offset": 0,
        "iggy_timestamp": datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    }  # fmt: skip


NULLABLE = ("small", "amount", "at", "tags", "who", "counts", "a b.c")
ODD = ["a/b=c%d", "", " \u00fc\n", "x" * 300, None, "__HIVE_DEFAULT_PARTITION__"]


def odd(number: int) -> bytes:
    """A customer whose name fits into no folder's name."""
    return json.dumps({"number": number, "customer": ODD[number % len(ODD)]}).encode()
