"""The Random source: the contract of all sources, and its own rate, keys and end."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from iggy_spark.source_blocks import Random
from iggy_spark.sources.base import Source
from iggy_spark.sources.random import CATCH_UP_S, PART_MESSAGES, RandomSource
from quick_retry import quick
from source_contract import ALL, Origin, SourceContract, read


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_795_000_000.0

    def __call__(self) -> float:
        return self.now


class Made:
    """Messages that are due when the clock says so."""

    lump = 0

    def __init__(self, **block: Any) -> None:
        self.clock = Clock()
        self.block = msgspec.convert({"rate": 1000, **block}, Random)

    def source(self) -> Source:
        return self.random()

    def random(self) -> RandomSource:
        return RandomSource(self.block, name="made", retry=quick(), now=self.clock)

    def add(self, count: int) -> None:
        self.clock.now += count / self.block.rate

    def number(self, payload: bytes) -> int:
        found: int = json.loads(payload)["number"]
        return found

    def away(self) -> Source | None:
        return None


class TestRandom(SourceContract):
    @pytest.fixture(params=[{}, {"keys": 3, "payloadBytes": 40}], ids=["plain", "keys"])
    def origin(self, request: pytest.FixtureRequest) -> Origin:
        return Made(**request.param)


def carried(made: Made, count: int) -> list[tuple[bytes, bytes | None, Any]]:
    source = made.source()
    start = source.first()
    made.add(count)
    found = read(made, start, source.latest(start, ALL))
    return [(message.id, message.key, json.loads(message.payload)) for message in found]


def test_another_seed_makes_other_messages() -> None:
    one, same, other = (carried(Made(seed=seed), 5) for seed in (1, 1, 2))

    assert one == same
    assert {found[0] for found in one}.isdisjoint(found[0] for found in other)


def test_payloads_have_their_size_where_they_can() -> None:
    sizes = {}
    for wanted in (1, 60, 5000, 200_000):
        made = Made(payloadBytes=wanted, keys=10)
        source = made.source()
        start = source.first()
        made.add(3)
        found = read(made, start, source.latest(start, ALL))
        sizes[wanted] = {len(message.payload) for message in found}
        texts = [json.loads(message.payload)["text"] for message in found]
        assert all(text.isalpha() for text in texts) == (wanted > 1)

    assert sizes[60] == {60}
    assert sizes[5000] == {5000}
    assert sizes[200_000] == {200_000}
    assert max(sizes[1]) < 60


def test_keys_are_in_the_payload_too() -> None:
    found = carried(Made(keys=4), 200)

    assert {key for _, key, _ in found} == {b"key-0", b"key-1", b"key-2", b"key-3"}
    assert all(key == value["key"].encode() for _, key, value in found if key)
    assert {key for _, key, _ in carried(Made(), 20)} == {None}


def test_the_rate_is_kept_over_many_looks() -> None:
    made = Made(rate=3)
    source = made.source()
    at = source.first()
    for _ in range(1000):
        made.clock.now += 0.1
        at = source.latest(at, ALL)

    assert at["next"] in (299, 300)


def test_what_was_due_long_ago_is_never_made() -> None:
    made = Made(rate=10)
    source = made.source()
    start = source.first()
    made.clock.now += 24 * 3600

    assert source.behind(start) == 10 * CATCH_UP_S
    at = source.latest(start, 50)
    assert (at["next"], source.behind(at)) == (50, 10 * CATCH_UP_S - 50)


def test_it_ends_where_it_is_to_end() -> None:
    made = Made(messages=7)
    source = made.source()
    at = source.latest(source.first(), ALL)
    made.add(100)
    at = source.latest(at, 5)
    at = source.latest(at, ALL)
    made.add(100)

    assert (at["next"], source.behind(at)) == (7, 0)
    assert source.latest(at, ALL) == at


def test_a_run_that_ends_makes_all_messages_of_a_source_with_an_end() -> None:
    made = Made(messages=7)
    source = made.random()
    source.freeze()

    at = source.latest(source.first(), ALL)

    assert at["next"] == 7
    assert source.latest(at, ALL) == at


def test_a_large_batch_has_many_tasks() -> None:
    made = Made(rate=100_000, payloadBytes=1)
    source = made.source()
    start = source.first()
    end = {"next": 2 * PART_MESSAGES + 1, "at_us": start["at_us"]}

    parts = source.split(start, end)

    assert [part["end"] - part["first"] for part in parts] == [PART_MESSAGES, PART_MESSAGES, 1]
    assert sum(batch.num_rows for batch in source.read(start, end, parts[2])) == 1


def test_a_clock_that_was_set_back_makes_nothing_twice() -> None:
    made = Made()
    source = made.source()
    start = source.first()
    made.add(10)
    at = source.latest(start, ALL)
    made.clock.now -= 3600

    assert source.latest(at, ALL) == at
    assert source.behind(at) == 0
