"""Members who join, move, are taken over and vanish while groups are deleted: nothing stays."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from group_cases import GROUP, TOPIC, fill, make_topic, members, offsets, owned, read, wait_for
from iggy_client import Client, ClientError, LinkError, SessionLostError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Partitioning

PARTITIONS = 6
ACTORS = 6
ROUNDS_S = 5.0
# What a member may be told when others took its partition, its group or its client id.
EXPECTED = {
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND,
    ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND,
    ErrorCode.UNAUTHENTICATED,
    ErrorCode.INVALID_OFFSET,
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("races"), monitoring=True) as broker:
        yield broker


class Actor:
    """One client at a time, which does what members do, in any order."""

    def __init__(self, broker: BrokerProcess, stream: str, seed: int) -> None:
        self.broker = broker
        self.stream = stream
        self.chance = random.Random(seed)
        self.client = broker.client()
        self.codes: set[int] = set()

    def run(self, until_s: float) -> None:
        doings = [self.join, self.work, self.work, self.leave, self.move, self.steal, self.vanish]
        while time.monotonic() < until_s:
            try:
                self.chance.choice(doings)()
            except ClientError as refusal:
                self.codes.add(refusal.code)
                if isinstance(refusal, SessionLostError) or (
                    refusal.code == ErrorCode.UNAUTHENTICATED
                ):
                    self.vanish()
        self.client.close()

    def join(self) -> None:
        self.client.join_group(self.stream, TOPIC, "g")

    def leave(self) -> None:
        self.client.leave_group(self.stream, TOPIC, "g")

    def work(self) -> None:
        """Read what is owned; commit all of it, or some, or nothing."""
        for partition in owned(self.client, self.stream) or ():
            got = offsets(read(self.client, self.stream, partition, count=5))
            if got and self.chance.random() < 0.6:
                last = self.chance.choice(got)
                self.client.store_offset(GROUP, self.stream, TOPIC, partition, last)

    def move(self) -> None:
        """Send to one partition until the connection moves to its shard."""
        target = Partitioning.partition(self.chance.randrange(PARTITIONS))
        for _ in range(15):
            self.client.send(self.stream, TOPIC, target, [Message(b"m")])

    def steal(self) -> None:
        """Log in again with the same client id, on whichever shard, and go on there."""
        thief = Client(self.broker.address)
        thief._session.client = self.client._session.client
        old, self.client = self.client, thief
        try:
            thief.login(USERNAME, PASSWORD)
            thief._session._next_request = old._session._next_request  # who keeps its id counts on
        finally:
            if self.chance.random() < 0.5:
                with suppress(ClientError, LinkError):
                    old.join_group(self.stream, TOPIC, "g")  # too late
            old.close()

    def vanish(self) -> None:
        self.client.close()
        self.client = self.broker.client()


def test_members_in_any_trouble_leave_nothing_behind(own: BrokerProcess) -> None:
    with own.client() as admin:
        stream = make_topic(admin, partitions=PARTITIONS, per_partition=20)
        seed = secrets.randbits(32)
        actors = [Actor(own, stream, seed + number) for number in range(ACTORS)]
        until_s = time.monotonic() + ROUNDS_S
        threads = [threading.Thread(target=actor.run, args=(until_s,)) for actor in actors]
        for thread in threads:
            thread.start()
        chance = random.Random(seed)
        while time.monotonic() < until_s:
            time.sleep(chance.uniform(0.01, 0.1))
            if chance.random() < 0.3:
                admin.delete_group(stream, TOPIC, "g")
                admin.create_group(stream, TOPIC, "g")
            else:
                listed = members(admin, stream)
                dealt = sorted(sum(listed.values(), ()))
                assert dealt == (list(range(PARTITIONS)) if listed else []), f"seed {seed}"
        for thread in threads:
            thread.join()
        assert set().union(*(actor.codes for actor in actors)) <= EXPECTED, f"seed {seed}"

        wait_for(lambda: members(admin, stream) == {})
        assert len(admin.get_clients()) == 1, f"seed {seed}"
        admin.join_group(stream, TOPIC, "g")
        for partition in range(PARTITIONS):
            fill(admin, stream, partition, 1)
            found = admin.get_offset(GROUP, stream, TOPIC, partition)
            after = -1 if found is None else found.stored_offset
            got = offsets(read(admin, stream, partition, count=100_000))
            assert got[0] == after + 1, f"seed {seed}"
    assert own.is_running
