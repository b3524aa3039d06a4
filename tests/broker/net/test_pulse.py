"""A loop that is late, and a wall clock that was set, are noticed."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from iggy_broker.metrics import Counters, SharedCounters
from iggy_broker.net.pulse import CLOCK_STEP_US, LAG_STEP_S, ClockWatch, watch_loop


class SetClock:
    """A wall clock that somebody sets, and one that nobody can."""

    def __init__(self) -> None:
        self.monotonic = 0
        self.ahead = 1_000_000_000

    def now_us(self) -> int:
        return self.monotonic + self.ahead

    def monotonic_us(self) -> int:
        return self.monotonic


def test_a_jump_of_the_wall_clock_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, counters = SetClock(), Counters(SharedCounters(1), 0)
    watch = ClockWatch(clock, counters)
    for jump_us in (0, CLOCK_STEP_US - 1, -3_600_000_000, 0, CLOCK_STEP_US):
        clock.monotonic += 1_000_000
        clock.ahead += jump_us
        watch.look()

    assert counters.clock_steps_total == 2
    assert [vars(record)["jump_us"] for record in caplog.records] == [-3_600_000_000, CLOCK_STEP_US]
    assert {vars(record)["event"] for record in caplog.records} == {"clock_jumped"}
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_loop_that_is_held_up_is_seen_in_the_histogram() -> None:
    counters = Counters(SharedCounters(1), 0)

    async def main() -> None:
        watching = asyncio.create_task(watch_loop(counters))
        await asyncio.sleep(0)
        time.sleep(LAG_STEP_S + 0.3)  # noqa: ASYNC251 -- this is the fault
        for _ in range(10):
            await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(main())
    counters.publish()

    counts, sum_us = counters.shared.spread("loop_lag_seconds", 0)
    assert sum(counts) == 1
    assert sum_us >= 300_000
