"""The client that looks at everything when nobody else is in, and compares it with the oracle."""

from __future__ import annotations

import random

from iggy_broker.metadata.placement import pack
from iggy_client import access_calls, calls
from iggy_client.errors import ClientError
from simulation.broker import SimulatedBroker
from simulation.clients import SimulatedClient
from simulation.oracle import Key, Oracle, ViolationError
from simulation.people import NAMES, People
from simulation.workload import STREAM, TOPICS, make_topics, read_all


class Auditor:
    """Root, alone in the broker."""

    def __init__(
        self,
        client: SimulatedClient,
        broker: SimulatedBroker,
        oracle: Oracle,
        people: People,
        chance: random.Random,
    ) -> None:
        self.client = client
        self._broker = broker
        self._oracle = oracle
        self._people = people
        self._chance = chance

    async def first(self) -> None:
        """The first life: make what every scenario has."""
        await self.client.connect(0)
        await make_topics(self.client, self._oracle)
        for name in NAMES:
            await self._people.make(self.client, name)
        self.check_agreement()

    async def after_restart(self, *, power_cut: bool) -> None:
        """Everything is there, the same on every shard; what was open is decided."""
        self._check_cuts()
        await self._streams()
        await self._groups_and_users()
        oracle, client = self._oracle, self.client
        synced = not self._broker.disk.happened["syncs failed"]
        for key in list(oracle.partitions):
            if self._chance.random() < 0.3:
                await client.connect(self._chance.randrange(self._broker.shards_count))
            try:
                found, end = await read_all(client, key)
            except ClientError as refusal:
                if not oracle.partitions[key].damaged:
                    raise ViolationError(f"{key} cannot be read: {refusal}") from refusal
                continue
            if not found and not end:
                end = self._begin_of(key)
            oracle.restarted(key, found, end, power_cut=power_cut, synced_at_start=synced)
        self.check_agreement()

    def _begin_of(self, key: Key) -> int:
        """Of an empty log: clients are told the same of one that begins at 0 and at 1."""
        for edge in self._broker.edges():
            services = edge.services
            stream, topic = services.replica.state.find_topic(*key[:2]) or (None, None)
            if stream is not None and topic is not None:
                partition = services.partitions.get(pack(stream.id, topic.id, key[2]))
                if partition is not None:
                    return partition.log.first_offset
        return 0

    async def repair(self, topic: str) -> None:
        """Purge a topic that was found damaged: then it is as good as new."""
        keys = self._oracle.of_topic(STREAM, topic)
        await self.client.call(calls.purge_topic(STREAM, topic))
        for key in keys:
            self._oracle.partitions[key].damaged = False
            self._oracle.purged(key)

    def _check_cuts(self) -> None:
        """What recovery cut off is kept aside, whole, and it says so."""
        disk = self._broker.disk
        for edge in self._broker.edges():
            for partition in edge.services.partitions.values():
                for one in partition.recovery:
                    if not one.cut_bytes:
                        continue
                    self._oracle.count(f"recoveries: {one.kind}")
                    kept = disk.size(one.kept_path) if disk.exists(one.kept_path) else 0
                    if not one.cut_bytes == one.kept_bytes == kept:
                        raise ViolationError(f"{one}: it keeps {kept} bytes")

    async def _streams(self) -> None:
        oracle = self._oracle
        for shard in range(self._broker.shards_count):
            await self.client.connect(shard)
            names = {stream.name for stream in await self.client.call(calls.get_streams())}
            oracle.streams_settled(names)
        for key in [key for key in oracle.partitions if not oracle.streams[key[0]]]:
            del oracle.partitions[key]

    async def _groups_and_users(self) -> None:
        for topic in TOPICS:
            found = await self.client.call(calls.get_groups(STREAM, topic))
            self._oracle.groups_settled(topic, {one.name: one.members_count for one in found})
        for user in await self.client.call(access_calls.get_users()):
            if user.id and user.name not in NAMES:
                raise ViolationError(f"user {user.name} was invented")
        for name in NAMES:
            details = await self.client.call(access_calls.get_user(name))
            self._people.settled(name, details)

    def check_agreement(self) -> None:
        """Nothing is under way: every shard has the same metadata."""
        if not self.shards_agree():
            raise ViolationError("shards disagree on metadata, and nothing is under way")

    def shards_agree(self) -> bool:
        """Whether all have the same metadata now."""
        states = [edge.services.replica.state for edge in self._broker.edges()]
        return all(state == states[0] for state in states)

    def members_count(self) -> int:
        """Members of all groups, as any shard knows them."""
        states = [edge.services.replica.state for edge in self._broker.edges()]
        return sum(
            len(one.members) for state in states for one in state.memberships.groups.values()
        )

    def handovers_count(self) -> int:
        """Partitions that wait for their owner's commit, as any shard knows them."""
        states = [edge.services.replica.state for edge in self._broker.edges()]
        return sum(
            len(one.handovers) for state in states for one in state.memberships.groups.values()
        )
