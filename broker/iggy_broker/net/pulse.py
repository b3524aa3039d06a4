"""Two things that nobody else notices: a loop that is late, and a wall clock that was set."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from iggy_broker.logs import event

if TYPE_CHECKING:
    from iggy_broker.clock import Clock
    from iggy_broker.metrics import Counters

logger = logging.getLogger(__name__)

LAG_STEP_S: Final = 0.25  # how often the loop is looked at
CLOCK_STEP_US: Final = 1_000_000  # a smaller jump between two looks is drift and worth no word

_MICRO: Final = 1_000_000


async def watch_loop(counters: Counters) -> None:
    """Note how late the loop comes round, for as long as the shard lives."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + LAG_STEP_S
        await asyncio.sleep(LAG_STEP_S)
        counters.spread("loop_lag_seconds", max(0.0, loop.time() - due_s))


class ClockWatch:
    """Compares the wall clock with the one that never jumps."""

    __slots__ = ("_clock", "_counters", "_offset_us")

    def __init__(self, clock: Clock, counters: Counters) -> None:
        """From now on."""
        self._clock = clock
        self._counters = counters
        self._offset_us = clock.now_us() - clock.monotonic_us()

    def look(self) -> None:
        """Count and log a jump since the last look."""
        offset_us = self._clock.now_us() - self._clock.monotonic_us()
        jump_us = offset_us - self._offset_us
        self._offset_us = offset_us
        if abs(jump_us) < CLOCK_STEP_US:
            return
        self._counters.clock_steps_total += 1
        logger.warning(
            "= the wall clock jumped by %+.1f s; timestamps of messages never go back",
            jump_us / _MICRO,
            extra=event("clock_jumped", jump_us=jump_us),
        )
