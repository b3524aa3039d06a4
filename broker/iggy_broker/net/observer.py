"""What a shard tells of itself when metrics are asked for. Nothing here runs between two scrapes.

Shard 0 asks the others over the peer links. Each looks at its parts, publishes its counters and
answers with the offsets that groups have stored in its partitions: lag is made of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.metadata.placement import pack
from iggy_broker.net.handlers.system import resident_bytes
from iggy_broker.storage.partition import ConsumerKey, Partition
from iggy_wire.primitives import ConsumerKind

if TYPE_CHECKING:
    from iggy_broker.metadata.model import Group, State, Stream, Topic
    from iggy_broker.net.edge import Edge
    from iggy_broker.net.peers import Links
    from iggy_broker.storage.index_cache import IndexCache

QUESTION: Final = b"observe"
ANSWER_S_MAX: Final = 2.0  # a shard that takes longer is left out of this scrape
GROUPS_MAX: Final = 2000  # groups whose lag is looked at; the others are counted only
LAGS_MAX: Final = 10_000  # pairs of group and partition, likewise
STEP: Final = 200  # things looked at before others have their turn of the loop

NONE_STORED: Final = -1

_MICRO: Final = 1_000_000


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """The offset that a group has stored in a partition."""

    packed: int
    incarnation: int
    group_id: int
    offset: int | None  # None: nobody can say now


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Stored])


@dataclass(frozen=True, slots=True)
class Heard:
    """The answers of all shards."""

    offsets: dict[tuple[int, int, int], int | None]  # by packed partition, incarnation and group
    silent: frozenset[int] = frozenset()  # shards that did not answer in time


def watched_groups(state: State) -> Iterator[tuple[Stream, Topic, Group]]:
    """The groups whose lag is looked at: in order, until one of the two limits is reached."""
    groups, pairs = GROUPS_MAX, LAGS_MAX
    for stream in state.streams_by_id():
        for topic in stream.topics_by_id():
            for group in topic.groups_by_id():
                groups -= 1
                pairs -= len(topic.partitions)
                if groups < 0 or pairs < 0:
                    return
                yield stream, topic, group


class Observer:
    """Of one shard."""

    __slots__ = ("_asked", "_edge", "_indexes", "_links")

    def __init__(self, edge: Edge, links: Links, indexes: IndexCache) -> None:
        """`indexes` is the cache that the shard's partitions share."""
        self._edge = edge
        self._links = links
        self._indexes = indexes
        self._asked: dict[int, asyncio.Task[bytes]] = {}  # shards that have not answered yet

    async def answer(self) -> bytes:
        """For another shard, which asked `QUESTION`."""
        self._look()
        return _ENCODER.encode(await self._stored())

    async def everywhere(self) -> Heard:
        """Have all shards publish what they count; what their groups have stored."""
        shards = [
            shard
            for shard in range(self._edge.services.shards_count)
            if shard != self._edge.services.shard_id
        ]
        asked = self._asked
        for shard in shards:  # one that hangs is not asked again and again
            if shard not in asked:
                asked[shard] = asyncio.create_task(self._links.ask(shard, QUESTION))
        self._look()
        found = await self._stored()
        if asked:
            await asyncio.wait(asked.values(), timeout=ANSWER_S_MAX)
        for shard in [shard for shard, answer in asked.items() if answer.done()]:
            found += _DECODER.decode(asked.pop(shard).result())
        offsets = {(one.packed, one.incarnation, one.group_id): one.offset for one in found}
        return Heard(offsets, frozenset(asked))

    def close(self) -> None:
        """Wait for nobody any more."""
        for answer in self._asked.values():
            answer.cancel()

    def _look(self) -> None:
        """Read the gauges that nobody keeps up to date, and publish all."""
        edge, counters = self._edge, self._edge.services.counters
        pool, links = edge.landing.pool, self._links.all()
        counters.requests_running = len(edge.tasks)
        counters.passwords_waiting = edge.services.passwords.waiting
        counters.client_queued_bytes = sum(one.queued_bytes for one in edge.connections)
        counters.unread_replies_bytes = edge.unsent.bytes
        counters.link_queued_bytes = sum(link.queued_bytes for link in links)
        counters.link_in_flight_bytes = sum(link.in_flight_bytes for link in links)
        counters.buffers_in_use_bytes = pool.in_use_bytes
        counters.buffers_kept_bytes = pool.kept_bytes
        counters.index_cache_bytes = self._indexes.size_bytes
        logs = [partition.log for partition in edge.services.partitions.values()]
        counters.unsynced_messages = sum(log.unsynced_messages for log in logs)
        counters.unsynced_bytes = sum(log.unsynced_bytes for log in logs)
        counters.resident_memory_bytes = resident_bytes()
        times = os.times()
        counters.cpu_seconds_total = int((times.user + times.system) * _MICRO)
        counters.publish()

    async def _stored(self) -> list[Stored]:
        services = self._edge.services
        found = []
        for number, (stream, topic, group) in enumerate(watched_groups(services.replica.state)):
            if not number % STEP:
                await asyncio.sleep(0)
            key = ConsumerKey(ConsumerKind.GROUP, group.id)
            for place, partition in enumerate(topic.partitions, 1):
                if not place % STEP:
                    await asyncio.sleep(0)
                packed = pack(stream.id, topic.id, partition.id)
                mine = services.partitions.get(packed)
                if mine is None or mine.place.incarnation != partition.incarnation:
                    continue
                offset = _stored_in(mine, key)
                if offset != NONE_STORED:
                    found.append(Stored(packed, partition.incarnation, group.id, offset))
        return found


def _stored_in(partition: Partition, key: ConsumerKey) -> int | None:
    """The stored offset, `NONE_STORED`, or None if the disk cannot say."""
    if partition.fenced:
        return None
    try:
        offset = partition.offsets.get(key)
    except Reject:
        return None
    return NONE_STORED if offset is None else offset
