"""A sink over a collection of a played server, and what is written through it.

Tests take the fixtures by assignment: `server, target = mongo_cases.server, mongo_cases.target`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from iggy_spark import blocks
from iggy_spark.payload import Payload
from iggy_spark.sinks.mongo import MongoSink
from played_mongo import Document, PlayedMongo
from quick_retry import quick
from sink_cases import PlayedTask, declare, portions, wanted
from sink_contract import REFUSED, Row, Target

INVALID = {
    "code": 121,
    "errmsg": "Document failed validation",
    "errInfo": {"details": {"operatorName": "$jsonSchema", "missingProperties": ["customer"]}},
}
AWAY = {"ok": 0, "code": 189, "errmsg": "primary stepped down", "codeName": "PrimarySteppedDown"}


class CollectionTarget:
    """A collection."""

    def __init__(self, server: PlayedMongo, *, seconds: float = 20.0, **block: Any) -> None:
        self.server, self.seconds, self.block = server, seconds, block

    def sink(self, payload: Payload | None = None) -> MongoSink:
        where = {"url": self.server.url, "database": "shop", "collection": "orders"}
        return MongoSink(
            blocks.Mongo(**{**where, **self.block}), payload or declare(), retry=quick(self.seconds)
        )

    def rows(self) -> list[Row]:
        found = self.server.documents()
        return sorted((one["iggy_partition_id"], one["iggy_offset"]) for one in found)

    def refusing(self) -> Target:
        self.server.judge = lambda document: INVALID if document["iggy_offset"] == REFUSED else None
        return self

    def away(self) -> Target:
        self.server.faults += [AWAY] * 1000
        return CollectionTarget(self.server, seconds=0.2, **self.block)


@pytest.fixture
def server() -> Iterator[PlayedMongo]:
    with PlayedMongo() as running:
        yield running


@pytest.fixture
def target(server: PlayedMongo) -> CollectionTarget:
    return CollectionTarget(server)


def write(target: CollectionTarget, end: int = 6, **more: Any) -> PlayedTask:
    task = PlayedTask()
    span = wanted(0, end)
    written = target.sink(more.get("payload")).write_task(span, portions(span, **more), task)
    assert written.rows == end - len(task.refusals)
    return task


def sent(server: PlayedMongo) -> list[list[int]]:
    """The offsets in each command."""
    return [
        [one.get("u", one)["iggy_offset"] for one in command.get("documents") or command["updates"]]
        for command in server.writes
    ]


def of_values(*values: Document) -> dict[str, Any]:
    """How to send these values, without a schema."""
    texts = [json.dumps(value).encode() for value in values]
    return {"payload": declare(text=None), "made": lambda number: texts[number]}
