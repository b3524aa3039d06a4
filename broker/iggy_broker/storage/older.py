"""Messages that a partition's log has no more, and somebody else still has: an archive."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from iggy_broker.errors import Reject
from iggy_broker.storage.gate import Place
from iggy_broker.storage.segment import Part
from iggy_wire.errors import ErrorCode


class NotHere(Reject):
    """They are being fetched: wait for `ready`, and ask again. Who cannot wait refuses for now."""

    def __init__(self, ready: asyncio.Future[None], detail: str) -> None:
        """`ready` may raise: what is wrong is asked for again, and told then."""
        super().__init__(ErrorCode.TRANSIENT_NOT_ACCEPTED, detail)
        self.ready = ready


class Steady(bytearray):
    """Memory that nobody changes while a view of it is in use: such a view may be kept."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of the messages below offset `end`, where the log begins."""

    place: Place
    end: int
    count: int
    bytes_max: int
    is_whole: bool = False
    """Whether a part of it that is there at once will not do."""


class OlderFound(NamedTuple):
    """Messages with start_offset <= their offset < end_offset, as whole batches."""

    start_offset: int
    end_offset: int
    size_bytes: int
    parts: list[Part]


class Older(Protocol):
    """Both raise NotHere, and Reject for what cannot be had now. Nothing is ever left out for that.

    Times are the broker's, in microseconds.
    """

    def offset_at_time(self, asked: Asked, timestamp_us: int) -> int | None:
        """Of the first batch stamped then or later; None: all of those are in the log."""
        ...

    def read(self, asked: Asked, offset: int) -> OlderFound | None:
        """Messages from `offset` on, or from the next one that is there; None: none below `end`."""
        ...
