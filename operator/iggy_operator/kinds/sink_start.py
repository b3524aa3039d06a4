"""What said where a sink's driver began: its own metrics do, and are asked once for each start."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from iggy_operator.cluster import Object
from iggy_operator.figures import START_PREFIX, FiguresError, start_sources
from iggy_operator.kinds.common import World
from iggy_operator.launchers.job import METRICS_PORT
from iggy_operator.launchers.states import running_since
from iggy_operator.objects import address_of

ANSWER_S: Final = 2.0
"""So long a pass waits for a driver that nobody may reach."""


async def look(
    world: World, driver: Object | None, old: Mapping[str, Any]
) -> dict[str, Any] | None:
    """`status.start`; None: nothing new. The next pass asks a driver that did not tell."""
    since = "" if driver is None else running_since(driver)
    address = None if driver is None else address_of(driver, METRICS_PORT)
    if address is None or since in ("", old.get("time")):
        return None
    try:
        async with asyncio.timeout(ANSWER_S):
            sources = start_sources(await world.read_metrics(address, START_PREFIX))
    except (FiguresError, TimeoutError):
        return None  # it starts, or a policy of the network keeps us out
    return {"time": since, "by": sources} if sources else None
