"""Metrics for who is logged in: those of the monitoring listener, and the names of the original.

OpenMetrics text under the plain type, as the HTTP API of Iggy 0.9 has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from iggy_broker.metrics_text import single
from iggy_broker.net.http.replies import TEXT, Reply
from iggy_broker.net.scrape import Scrape, text_of

if TYPE_CHECKING:
    from iggy_broker.metrics import SharedCounters
    from iggy_broker.net.context import Services

# The original's name of a gauge, and ours.
_NAMES: Final = {
    "streams": "iggy_streams",
    "topics": "iggy_topics",
    "partitions": "iggy_partitions",
    "segments": "iggy_segments_count",
    "messages": "iggy_messages",
}


class HttpMetrics:
    """Of one shard, about the whole broker."""

    def __init__(self, services: Services, shared: SharedCounters) -> None:
        """`shared`: the counters of all shards."""
        self._services = services
        self._shared = shared
        self._scrape = Scrape(services, shared)

    async def answer(self) -> Reply:
        """All metrics as of now."""
        found = await self._scrape.collect()
        values = {family.name: family.samples[0][2] for family in found if family.samples}
        users = len(self._services.replica.state.users)
        clients = self._shared.total("connections")
        asked = self._shared.total("http_api_requests_total")
        known = [
            single("http_requests_total", "counter", "HTTP requests.", asked),
            *(single(name, "gauge", f"See {ours}.", values[ours]) for name, ours in _NAMES.items()),
            single("users", "gauge", "Users.", users),
            single("clients", "gauge", "Open client connections.", clients),
        ]
        return Reply(200, await text_of([*known, *found], is_open=True), TEXT)

    def close(self) -> None:
        """Nobody waits any more."""
        self._scrape.close()
