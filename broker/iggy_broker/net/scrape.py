"""Collects the metrics of the whole broker, on whichever shard is asked for them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

from iggy_broker.metrics import SharedCounters
from iggy_broker.metrics_text import Family, end, lines, single
from iggy_broker.net import families
from iggy_broker.net.census import Census
from iggy_broker.net.context import Services

DISK_S_MAX: Final = 2.0  # a disk that takes longer to say how full it is is left out of the scrape


class Scrape:
    """One at a time: whoever asks meanwhile gets the same."""

    def __init__(self, services: Services, shared: SharedCounters) -> None:
        """Nothing is collected yet."""
        self._services = services
        self._shared = shared
        self._running: asyncio.Task[list[Family]] | None = None
        self._took_s = 0.0  # the one before
        self._disk: asyncio.Task[tuple[int, int, int] | None] | None = None

    async def collect(self) -> list[Family]:
        """All metrics as of now."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._collect())
        return await asyncio.shield(self._running)

    def close(self) -> None:
        """Nobody waits any more."""
        for task in (self._running, self._disk):
            if task is not None:
                task.cancel()

    async def _collect(self) -> list[Family]:
        loop, services = asyncio.get_running_loop(), self._services
        began_s = loop.time()
        heard = await services.observer.everywhere()
        census = Census(services, heard)
        await census.count()
        found = [
            *families.of_shards(self._shared),
            *census.families(),
            *families.of_metadata(services),
            *families.of_broker(services, len(heard.silent)),
            *families.of_certificates(services),
            *families.of_disk(await self._disk_usage()),
        ]
        description = "How long it took to collect the metrics of the scrape before."
        found.append(single("iggy_scrape_seconds", "gauge", description, self._took_s))
        self._took_s = round(loop.time() - began_s, 6)
        return found

    async def _disk_usage(self) -> tuple[int, int, int] | None:
        """Total, used and free bytes. In a thread, one at a time: a disk may hang."""
        loop, path = asyncio.get_running_loop(), self._services.config.system.path
        asked = self._disk = self._disk or loop.create_task(_usage_of(path))
        await asyncio.wait([asked], timeout=DISK_S_MAX)
        if not asked.done():
            return None
        self._disk = None
        return asked.result()


async def text_of(found: list[Family], *, is_open: bool) -> bytes:
    """The text of a scrape; some families have thousands of series, so others get their turns."""
    written: list[str] = []
    for family in found:
        written += lines(family, is_open=is_open)
        await asyncio.sleep(0)
    return "\n".join([*written, *end(is_open=is_open), ""]).encode()


async def _usage_of(path: Path) -> tuple[int, int, int] | None:
    try:
        return await asyncio.to_thread(shutil.disk_usage, path)
    except OSError:
        return None
