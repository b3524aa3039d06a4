"""Dead letters on their way back into the target: read as the messages that they were.

A redrive is a query of the sink's own over the topic of its dead letters. What it writes is keyed
by a letter's place in that topic, so it is exactly once where the sink is; the columns of a row are
those of the message. A letter that is not chosen, or fails again, is put at the topic's end: the
next redrive finds it there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from iggy_spark import arrow
from iggy_spark.batches import messages
from iggy_spark.blocks import Redrive
from iggy_spark.dead_letters import PREFIX, DeadLetters, Letter
from iggy_spark.fetch import RangeFetch
from iggy_spark.job_config import redrive_times
from iggy_spark.messages import ID_BYTES, Messages, header_keys
from iggy_spark.options import ReadOptions
from iggy_spark.sinks import rows
from iggy_spark.sinks.base import Portion
from iggy_wire.kernel import Columns
from iggy_wire.options import Value

_Choice = Callable[[Mapping[str, Value]], bool]


@dataclass(frozen=True, slots=True)
class _Found:
    """One letter, and the message that it is about."""

    place: tuple[str, str, str, int]  # stream, topic, incarnation, partition
    offset: int
    timestamp_us: int
    origin_timestamp_us: int
    id: bytes  # as on the wire
    payload: bytes
    headers: bytes  # the message's own


def portions(
    options: ReadOptions, fetch: RangeFetch, *, request: Redrive, letters: DeadLetters
) -> Iterator[Portion]:
    """The messages of the letters that `fetch` brings and `request` chooses, decoded again."""
    return rows.decoded(options, _messages(options, fetch, request, letters))


def _messages(
    options: ReadOptions, fetch: RangeFetch, request: Redrive, letters: DeadLetters
) -> Iterator[Messages]:
    is_chosen = _choice(request)
    for columns in fetch:
        chosen = list(_chosen(messages(options, fetch.wanted, columns), is_chosen, letters))
        for place, group in groupby(chosen, key=lambda found: found.place):
            stream, topic, incarnation, partition = place
            yield Messages(_columns(list(group)), stream, topic, incarnation, partition)


def _chosen(known: Messages, is_chosen: _Choice, letters: DeadLetters) -> Iterator[_Found]:
    payloads = arrow.payloads(known.columns)
    for row, headers in enumerate(known.headers):
        if headers.get(f"{PREFIX}sink") != letters.sink:
            continue  # another sink's: it stays where it is
        payload: bytes = payloads[row].as_py()
        name = bytes.fromhex(known.ids[row])
        if is_chosen(headers):
            attempt = headers.get(f"{PREFIX}attempt")
            letters.attempts[name] = attempt if isinstance(attempt, int) else 1
            yield _found(headers, payload, _own(known.raw_headers(row)))
        else:
            letters.take([Letter(payload, name, known.raw_headers(row))])


def _choice(request: Redrive) -> _Choice:
    wanted = {"error_class": request.error_classes, "stage": request.stages}
    times = redrive_times(request)

    def is_chosen(headers: Mapping[str, Value]) -> bool:
        # Of the message: a letter that is put back gets another time of its own.
        return headers.get(f"{PREFIX}timestamp") in times and all(
            not words or headers.get(PREFIX + name) in words for name, words in wanted.items()
        )

    return is_chosen


def _found(headers: Mapping[str, Value], payload: bytes, own: bytes) -> _Found:
    def text(name: str) -> str:
        return str(headers[PREFIX + name])

    def number(name: str) -> int:
        return int(headers[PREFIX + name])

    return _Found(
        (text("stream"), text("topic"), text("incarnation"), number("partition")),
        number("offset"),
        number("timestamp"),
        number("origin_timestamp"),
        bytes.fromhex(text("id"))[::-1],
        payload,
        own,
    )


def _own(block: bytes) -> bytes:
    """The message's own headers: ours stand behind them."""
    for at, key in header_keys(block):
        if key.startswith(PREFIX.encode()):
            return block[:at]
    return block


def _columns(found: Sequence[_Found]) -> Columns:
    def numbers(values: Sequence[int]) -> bytes:
        return struct.pack(f"<{len(values)}q", *values)

    def ends(values: Sequence[bytes]) -> bytes:
        return struct.pack(f"<{len(values) + 1}i", *accumulate(map(len, values), initial=0))

    payloads, headers = [one.payload for one in found], [one.headers for one in found]
    ids = b"".join(one.id for one in found)
    assert len(ids) == ID_BYTES * len(found)
    return Columns(
        count=len(found),
        offsets=numbers([one.offset for one in found]),
        timestamps_us=numbers([one.timestamp_us for one in found]),
        origin_timestamps_us=numbers([one.origin_timestamp_us for one in found]),
        ids=ids,
        payload_offsets=ends(payloads),
        payloads=b"".join(payloads),
        header_offsets=ends(headers),
        headers=b"".join(headers),
    )
