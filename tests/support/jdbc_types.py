"""A payload with a field of every type, and one message of it."""

from typing import Any

TYPES = (
    "yes BOOLEAN, tiny TINYINT, small SMALLINT, number INT, big BIGINT, single FLOAT, wide DOUBLE, "
    "price DECIMAL(18,2), word STRING, data BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, "
    "list ARRAY<INT>, parts STRUCT<a: INT>"
)
VALUES: dict[str, Any] = {
    "yes": True, "tiny": -7, "small": 300, "number": 70_000, "big": 1 << 40, "single": 0.5,
    "wide": 0.25, "price": "7.25", "word": "w\u00fc\"'", "data": "AAH/", "day": "2026-12-31",
    "at": "2026-03-29T00:59:59.999999Z", "wall": "2026-03-29T02:30:00", "list": [1, None],
    "parts": {"a": 1},
}  # fmt: skip
