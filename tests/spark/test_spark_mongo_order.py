"""Sink Mongo with ids of a field: no message sets a document back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import mongo_cases
from iggy_spark.offsets import OffsetRange
from mongo_cases import INVALID, CollectionTarget, of_values, sent, write
from played_mongo import Document, PlayedMongo
from sink_cases import INCARNATION, NEXT_LIFE, PlayedTask, declare, portions, wanted

server = mongo_cases.server

CONFLICT = {"code": 112, "errmsg": "WriteConflict"}
DUPLICATE = {"code": 11000, "keyPattern": {"_id": 1}, "errmsg": "E11000 another one was quicker"}


@pytest.fixture
def target(server: PlayedMongo) -> CollectionTarget:
    return CollectionTarget(server, id_from="Field", id_field="key")


def carry(
    target: CollectionTarget,
    span: OffsetRange,
    made: Callable[[int], Document] = lambda offset: {"key": "a"},
) -> PlayedTask:
    task, payload = PlayedTask(), declare(text=None)
    found = portions(span, payload=payload, made=lambda offset: json.dumps(made(offset)).encode())
    written = target.sink(payload).write_task(span, found, task)
    assert written.rows == span.end - span.first - len(task.refusals)
    return task


def place(server: PlayedMongo, id_: str = "a") -> tuple[str, int, int]:
    found = server.collections["orders"][id_]
    return found["iggy_incarnation"], found["iggy_partition_id"], found["iggy_offset"]


def test_an_older_message_never_replaces_a_newer_one(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    def two(offset: int) -> Document:
        return {"key": "ab"[offset % 2]}

    carry(target, wanted(0, 12), two)
    before = dict(server.collections["orders"])
    server.history.clear()

    task = carry(target, wanted(0, 12), two)  # from the beginning, as after a lost checkpoint

    assert task.refusals == []
    assert {one["iggy_offset"] for one in server.history} == {10, 11}  # those that are there
    assert server.collections["orders"] == before
    carry(target, wanted(12, 13), two)
    assert place(server)[2] == 12


def test_the_last_writer_wins_between_partitions_and_lives_of_a_topic(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    for span in (wanted(7, 9), wanted(3, 4, 1), wanted(0, 1, 1, incarnation=NEXT_LIFE)):
        carry(target, span)
        assert place(server) == (span.incarnation, span.partition, span.end - 1)


@pytest.mark.parametrize(
    "more", [{}, {"iggy_offset": 99}, {"iggy_offset": 99, "iggy_partition_id": 0}]
)
def test_a_document_without_a_place_is_replaced(
    more: Document, server: PlayedMongo, target: CollectionTarget
) -> None:
    """Of a program of somebody's, or of a build that wrote none."""
    server.collections["orders"] = {"a": {"_id": "a", **more}}

    carry(target, wanted(0, 1))

    assert place(server) == (INCARNATION, 0, 0)


def test_of_one_bulk_the_last_message_of_an_id_is_sent(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    """One that is put off must not overtake others."""
    busy = [CONFLICT]
    server.judge = lambda document: busy.pop() if busy else None

    write(target, 4, **of_values({"key": "a"}, {"key": "b"}, {"key": "a"}, {"key": "c"}))

    assert [sorted(offsets) for offsets in sent(server)] == [[1, 2], [2], [3]]


def test_dead_letters_come_back_in_any_order(server: PlayedMongo, target: CollectionTarget) -> None:
    made = of_values({"key": "a"}, {"key": "a"}, {"key": "a"})
    (portion,) = portions(wanted(0, 3), **made)
    turned = replace(portion, rows=portion.rows.take(pa.array([2, 0, 1])))

    target.sink(made["payload"]).write_task(wanted(0, 3), [turned], PlayedTask())

    assert place(server)[2] == 2


def test_a_refused_message_leaves_the_one_before_it(
    server: PlayedMongo, target: CollectionTarget
) -> None:
    server.judge = lambda document: INVALID if document["iggy_offset"] in (1, 2) else None

    task = carry(target, wanted(0, 3))

    assert place(server)[2] == 0
    assert [bad.offset for bad in task.refusals] == [1, 2]


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        ({"iggy_offset": 4}, False),
        ({"iggy_offset": 6}, True),
        ({"iggy_offset": 6, "iggy_partition_id": 1}, False),
        ({"iggy_offset": 6, "iggy_incarnation": NEXT_LIFE}, False),
    ],
)
def test_a_document_that_another_writer_has_just_made(
    other: Document, stays: bool, server: PlayedMongo, target: CollectionTarget
) -> None:
    """A task that was given up may still write. Its document stays if it is the later one."""
    kept: dict[Any, Document] = {}
    server.collections["orders"] = kept
    place_ = {"iggy_partition_id": 0, "iggy_incarnation": INCARNATION, **other}

    def judge(document: Document) -> Document | None:
        if kept:
            return None
        kept["a"] = {"_id": "a", **place_}
        return DUPLICATE

    server.judge = judge
    task = carry(target, wanted(5, 6))

    assert task.refusals == []
    assert kept["a"]["iggy_offset"] == (6 if stays else 5)
