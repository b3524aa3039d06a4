"""The file of a job that carries a source, as tests change it."""

from __future__ import annotations

import copy
import json
from typing import Any

from iggy_spark import source_config
from iggy_spark.source_config import SourceConfig

JOB: dict[str, Any] = {
    "name": "shop/orders.made",
    "broker": {"address": "127.0.0.1:8090"},
    "stream": "shop",
    "topic": "orders",
    "source": {"type": "Random", "random": {"rate": 100}},
    "checkpoint": "/data/checkpoint",
}


def source_job(*, kind: str | None = None, **changes: Any) -> dict[str, Any]:
    """The job with fields changed; a name with two underscores goes into the parts. `kind`: another
    type, whose block is made with it.
    """
    found = copy.deepcopy(JOB)
    if kind is not None:
        found["source"] = {"type": kind}
    for name, value in changes.items():
        *parts, last = name.split("__")
        place = found
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return found


def source_of(value: dict[str, Any]) -> SourceConfig:
    """The same, checked."""
    return source_config.parse(json.dumps(value).encode(), name="job.json")
