"""Whether a broker has what a program says that it sent, read and stored: asked by our client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foreign_suites.matrix.job import (
    GROUP,
    KEYS,
    PARTITIONS,
    PER_KEY,
    TOPIC,
    TOTAL,
    Job,
    Lack,
    Read,
    Seen,
    read_of,
)
from iggy_client import Client, messages
from iggy_wire.primitives import Consumer, PollingStrategy

_BATCH = 2000
_NAMELESS = 0  # the number of a consumer that names none


def problems(client: Client, job: Job, seen: Seen) -> Iterator[str]:
    """What is not as it should be, before the program deletes its stream."""
    topic = client.get_topic(job.stream, TOPIC)
    if topic is None:
        yield "the topic is not there"
        return
    if len(topic.partitions) != PARTITIONS:
        yield f"the topic has {len(topic.partitions)} partitions, not {PARTITIONS}"
    log = [_polled(client, job.stream, partition) for partition in range(PARTITIONS)]
    yield from _order(log, seen)
    there = {number: read_of(one) for number, one in enumerate(log) if one}
    if there != seen.read:
        yield f"it read {_short(seen.read)}, there is {_short(there)}"
    yield from _offsets(client, job, seen, there)


def _polled(client: Client, stream: str, partition: int) -> Sequence[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    while True:
        after = PollingStrategy.offset(len(found))
        polled = client.poll(stream, TOPIC, partition, strategy=after, count=_BATCH)
        more = [(one.offset, bytes(one.payload)) for one in messages(polled)]
        if not more:
            return found
        found += more


def _order(log: Sequence[Sequence[tuple[int, bytes]]], seen: Seen) -> Iterator[str]:
    """All of every key, each once, in order, in one partition."""
    if (found := sum(map(len, log))) != TOTAL:
        yield f"the topic has {found} messages, not {TOTAL}"
    wanted = {f"k{key}": list(range(PER_KEY)) for key in range(KEYS)}
    numbers: dict[str, list[int]] = {}
    homes: dict[str, set[int]] = {}
    for partition, part in enumerate(log):
        for _, payload in part:
            key, _, number = payload.decode().partition(" ")
            numbers.setdefault(key, []).append(int(number))
            homes.setdefault(key, set()).add(partition)
    if numbers != wanted:
        yield "messages of a key are lost, doubled or out of order"
    if any(len(one) > 1 for one in homes.values()):
        yield "messages of a key are in several partitions"
    used = set().union(*homes.values())
    if Lack.KEYS not in seen.lacks and len(used) < PARTITIONS:
        yield f"the keys are in the partitions {sorted(used)} only"


def _offsets(client: Client, job: Job, seen: Seen, there: dict[int, Read]) -> Iterator[str]:
    who = Consumer.group(GROUP)
    if Lack.GROUP in seen.lacks:
        who = Consumer.plain(_NAMELESS if Lack.NAME in seen.lacks else GROUP)
    stored = {
        partition: found.stored_offset
        for partition in there
        if (found := client.get_offset(who, job.stream, TOPIC, partition)) is not None
    }
    wanted = {partition: one.last for partition, one in there.items()}
    if stored != wanted:
        yield f"the stored offsets are {stored}, not {wanted}"
    if seen.stored and seen.stored != wanted:
        yield f"it was told the stored offsets {dict(seen.stored)}, not {wanted}"


def _short(read: object) -> str:
    return str(read).replace("Read", "")[:400]
