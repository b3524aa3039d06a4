"""How late the event loop is: a call that blocks it holds up every pass, probe and renewal."""

import asyncio
import logging
from collections import deque
from typing import Final

from iggy_operator.clock import Clock

LOOK_S: Final = 0.1
KEPT: Final = 600
"""Looks that count: about a minute."""
TOLD_S: Final = 1.0
"""So late is worth a line in the log."""
TROUBLE_S: Final = 30.0
_LOG: Final = logging.getLogger(__name__)


class LoopLag:
    """Measures in a task of its own."""

    def __init__(self, clock: Clock) -> None:
        """On the loop that is measured."""
        self._clock = clock
        self._lags_s: deque[float] = deque([0.0], maxlen=KEPT)

    def worst_s(self) -> float:
        """Of the last minute."""
        return max(self._lags_s)

    async def run(self) -> None:
        """Look for ever."""
        while True:
            begun_s = self._clock.monotonic_s()
            await asyncio.sleep(LOOK_S)
            lag_s = max(0.0, self._clock.monotonic_s() - begun_s - LOOK_S)
            self._lags_s.append(lag_s)
            if lag_s > TOLD_S:
                _LOG.warning("the loop was held up for %.1f s", lag_s)
