"""Made-up messages at a steady rate. All of a message follows from the seed and its number."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from iggy_spark.retry import Retry
from iggy_spark.source_blocks import Random
from iggy_spark.sources.base import Position, message_id, record_batch

PART_MESSAGES: Final = 50_000  # of one task
BATCH_MESSAGES: Final = 5000  # at a time in memory
BATCH_BYTES: Final = 8 << 20
CATCH_UP_S: Final = (
    60.0  # of the messages that were due while nobody made any; the rest is never made
)
_SECOND_US: Final = 1_000_000
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_POOL_LETTERS: Final = 1 << 16


class RandomSource:
    """See `base.Source`. A position is the number of the next message, and when it was counted."""

    def __init__(
        self,
        block: Random,
        *,
        name: str,
        retry: Retry,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`now` gives seconds since 1970. Neither name nor retry change anything here: there is
        nobody to ask.
        """
        self._block = block
        self._now = now
        self._frozen_us: int | None = None

    def check(self) -> None:
        """Nothing can be wrong."""

    def first(self) -> Position:
        """Message 0, now."""
        return {"next": 0, "at_us": self._now_us()}

    def latest(self, start: Position, messages_max: int) -> Position:
        """What is due by the rate since `start`."""
        at_us, due = self._due(start)
        count = min(due, messages_max)
        if count <= 0:
            return start
        made_us = at_us + count * _SECOND_US // self._block.rate
        return {"next": start["next"] + count, "at_us": min(made_us, self._now_us())}

    def freeze(self) -> None:
        """See `base.Freezing`. Of a source with an end all that is left is there."""
        self._frozen_us = int(self._now() * _SECOND_US)

    def split(self, start: Position, end: Position) -> Sequence[Mapping[str, Any]]:
        """Runs of numbers."""
        firsts = range(start["next"], end["next"], PART_MESSAGES)
        return [{"first": n, "end": min(n + PART_MESSAGES, end["next"])} for n in firsts]

    def read(
        self, start: Position, end: Position, part: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """The messages of one run of numbers."""
        size = max(1, min(BATCH_MESSAGES, BATCH_BYTES // self._block.payload_bytes))
        for first in range(part["first"], part["end"], size):
            yield self._batch(range(first, min(first + size, part["end"])))

    def done(self, end: Position) -> None:
        """Nothing is kept."""

    def behind(self, at: Position) -> int | None:
        """What is due and not made."""
        return max(0, self._due(at)[1])

    def close(self) -> None:
        """Nothing is open."""

    def _now_us(self) -> int:
        return int(self._now() * _SECOND_US) if self._frozen_us is None else self._frozen_us

    def _due(self, start: Position) -> tuple[int, int]:
        """Since when it is counted, and how many messages are due."""
        now_us, total = self._now_us(), self._block.messages
        at_us = max(start["at_us"], now_us - int(CATCH_UP_S * _SECOND_US))
        due = (now_us - at_us) * self._block.rate // _SECOND_US
        if total is None:
            return at_us, due
        left = max(0, total - start["next"])
        return at_us, left if self._frozen_us is not None else min(due, left)

    def _batch(self, numbers: range) -> pa.RecordBatch:
        ids = [message_id("random", self._block.seed, number) for number in numbers]
        keys = [self._key(found) for found in ids]
        payloads = [
            self._payload(number, found, key)
            for number, found, key in zip(numbers, ids, keys, strict=True)
        ]
        return record_batch(ids, payloads, [None if key is None else key.encode() for key in keys])

    def _key(self, drawn: bytes) -> str | None:
        """The id is as good as drawn at random, so it decides all that is."""
        count = self._block.keys
        return None if count is None else f"key-{int.from_bytes(drawn[:8], 'big') % count}"

    def _payload(self, number: int, drawn: bytes, key: str | None) -> bytes:
        fields: dict[str, Any] = {"number": number}
        if key is not None:
            fields["key"] = key
        head = json.dumps(fields)[:-1] + ', "text": "'
        left = self._block.payload_bytes - len(head) - len('"}')
        at = int.from_bytes(drawn[8:], "big") % _POOL_LETTERS
        text = self._pool[at : at + max(0, left)]
        return f'{head}{text}"}}'.encode()

    @cached_property
    def _pool(self) -> str:
        """Letters that texts are cut from."""
        drawn = random.Random(self._block.seed)
        pool = "".join(drawn.choices(_LETTERS, k=_POOL_LETTERS))
        return pool * (2 + self._block.payload_bytes // _POOL_LETTERS)
