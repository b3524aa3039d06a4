"""The client that makes and deletes things: streams, topics, groups, users."""

from __future__ import annotations

from typing import Any

from iggy_client import calls
from iggy_client.errors import ClientError
from simulation.oracle import Partition
from simulation.people import People
from simulation.stored import ABSENT
from simulation.workload import LOST, PERSISTED, STREAM, TOPICS, Action, Worker

EXTRA_STREAMS_MAX = 4
GROUPS = ("g0", "g1")


class Admin(Worker):
    """A worker that spends half of its time on metadata. There is one: what it knows is so."""

    people: People
    _made = 0

    def pick(self) -> Action:
        """What to do next."""
        if self.chance.random() < 0.5:
            return super().pick()
        (action,) = self.chance.choices(
            (self.make, self.remove, self.empty, self.group, self.user), (7, 4, 5, 8, 18)
        )
        return action

    def _extra(self) -> list[str]:
        return [n for n, there in self.oracle.streams.items() if there and n != STREAM]

    async def make(self) -> None:
        """A stream with a topic that gets a few messages."""
        if len(self._extra()) >= EXTRA_STREAMS_MAX:
            await self.remove()
            return
        self._made += 1
        name = f"x{self._made}"
        await self._change(name, calls.create_stream(name), done=True, refused=False)
        options = self.chance.choice((PERSISTED, {}))
        await self.client.call(calls.create_topic(name, "t", 2, options))
        self.oracle.count("topics made")
        for partition_id in range(2):
            key = (name, "t", partition_id)
            persisted = bool(options)
            self.oracle.partitions[key] = Partition(key, persisted, persisted)
            await self.send(key)

    async def remove(self) -> None:
        """Delete an extra stream with all in it."""
        names = self._extra()
        if not names:
            return
        name = self.chance.choice(names)
        await self._change(name, calls.delete_stream(name), done=False, refused=True)
        for key in [key for key in self.oracle.partitions if key[0] == name]:
            del self.oracle.partitions[key]

    async def _change(self, name: str, call: Any, *, done: bool, refused: bool) -> None:
        self.oracle.streams[name] = None
        try:
            await self.client.call(call)
        except ClientError:
            self.oracle.streams[name] = refused
            raise
        self.oracle.count("changes")
        self.oracle.streams[name] = done

    async def empty(self) -> None:
        """Purge the topic of an extra stream, and send to it again."""
        keys = [key for key in self.oracle.partitions if key[0] != STREAM]
        if not keys:
            return
        stream, topic, partition_id = self.chance.choice(keys)
        both = [key for key in self.oracle.partitions if key[0] == stream]
        for key in both:
            self.oracle.partitions[key].purging = True
        await self.client.call(calls.purge_topic(stream, topic))
        self.oracle.count("purges")
        for key in both:
            self.oracle.purged(key)
        await self.send((stream, topic, partition_id))

    async def group(self) -> None:
        """Make a group of a topic, or delete it with its offsets."""
        topic, name = self.chance.choice(list(TOPICS)), self.chance.choice(GROUPS)
        groups, keys = self.oracle.groups, self.oracle.of_topic(STREAM, topic)
        if groups.get((topic, name)) is False or self.chance.random() < 0.7:
            groups[topic, name] = None if groups.get((topic, name)) is not True else True
            await self.client.call(calls.create_group(STREAM, topic, name))
            groups[topic, name] = True
            for key in keys:
                self.oracle.partitions[key].stored.forget(name)
            return
        doing = [(key, self.oracle.storing(key, name, ABSENT)) for key in keys]
        known, groups[topic, name] = groups.get((topic, name)), None
        try:
            await self.client.call(calls.delete_group(STREAM, topic, name))
        except LOST:
            for key, one in doing:
                self.oracle.cut_off(key, one)
            raise
        except ClientError:
            groups[topic, name] = known
            raise
        groups[topic, name] = False
        for key, one in doing:
            self.oracle.stored(key, one, ABSENT)

    async def user(self) -> None:
        """Change something about a user."""
        await self.people.change(self.client)
