"""Ranges of made-up messages for tests of sinks, encoded and decoded as real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from batches import Body, make_batch
from iggy_spark import options
from iggy_spark import payload as declared
from iggy_spark.messages import Messages
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.sinks import rows
from iggy_spark.sinks.base import Portion, Refusal
from iggy_wire import kernel
from iggy_wire.kernel import Columns

STREAM, TOPIC = "shop", "orders"
INCARNATION = "7-1795812995756186"
NEXT_LIFE = "9-1795812999999999"
TIMESTAMP_US = 1_798_761_599_999_999  # 2026-12-31T23:59:59.999999Z
PORTION = 3  # messages in one portion

SCHEMA = "number BIGINT NOT NULL, month INT, customer STRING, amount DECIMAL(18,2), at TIMESTAMP"
BAD = "bad"
"""What a test writes in place of a document that cannot be decoded."""


def declare(format_name: str = "Json", text: str | None = SCHEMA, *, keep: bool = False) -> Payload:
    """A payload as a job's file declares it; `keep` sets bad ones aside."""
    on_error = "keep" if keep else "fail"
    return declared.parse(format_name, text, [], on_error=on_error, names=declared.JOB_NAMES)


def document(number: int) -> bytes:
    """A message that fits SCHEMA; some of its fields are null or missing."""
    value: dict[str, Any] = {
        "number": number,
        "month": None if number % 5 == 3 else number % 12 + 1,
        "customer": f"c{number}",
        "amount": f"{number}.25",
    }
    if number % 2:
        value["at"] = "2026-03-29T00:59:59.999999Z"
    return json.dumps(value).encode()


def wanted(
    first: int, end: int, partition: int = 0, *, incarnation: str = INCARNATION
) -> OffsetRange:
    """A range of one partition."""
    return OffsetRange(incarnation, partition, first, end)


def portions(
    span: OffsetRange,
    *,
    payload: Payload | None = None,
    made: Callable[[int], bytes] = document,
    bad: tuple[int, ...] = (),
    size: int = PORTION,
) -> Iterator[Portion]:
    """The portions of a range: `made` gives each offset's payload, those of `bad` are no JSON."""
    chosen = payload or declare(keep=bool(bad))
    login = {"servers": "127.0.0.1:1", "username": "u", "password": "p"}
    given = options.parse({**login, "stream": STREAM, "topic": TOPIC}, mode="stream")
    payloads = [BAD.encode() if n in bad else made(n) for n in range(span.first, span.end)]
    yield from rows.portions(
        replace(given, payload=chosen),
        _Fetch(span, payloads, size),  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class _Fetch:
    """Stands for `RangeFetch`, with messages that no broker has."""

    wanted: OffsetRange
    payloads: list[bytes]
    size: int

    def __iter__(self) -> Iterator[Columns]:
        for at in range(0, len(self.payloads), self.size):
            first = self.wanted.first + at
            bodies = [
                Body(text, id=first + number + 1)
                for number, text in enumerate(self.payloads[at : at + self.size])
            ]
            region = make_batch(bodies, offset=first, timestamp_us=TIMESTAMP_US)
            yield kernel.columns(region, first, self.wanted.end)


class PlayedTask:
    """The task that a sink writes in, for tests: remembers what was refused and confirmed."""

    def __init__(self, *, confirm: Callable[[], None] = lambda: None) -> None:
        self.refusals: list[Refusal] = []
        self.letters: list[tuple[Messages, Refusal]] = []
        self.confirmed = 0
        self._confirm = confirm

    def refuse(self, portion: Portion, refusals: Any) -> None:
        self.refusals += refusals
        self.letters += [(portion.messages, one) for one in refusals]

    def confirm(self) -> None:
        self._confirm()
        self.confirmed += 1
