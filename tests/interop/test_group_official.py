"""Groups through the released client `apache-iggy`: it syncs, rotates and resumes by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from apache_iggy import AutoCommit, Consumer, IggyClient, PollingStrategy, SendMessage

from broker_process import PASSWORD, USERNAME, BrokerProcess

PARTITIONS = 6

MEMBER = """
import asyncio, sys
from apache_iggy import Consumer, IggyClient, PollingStrategy
async def main():
    client = IggyClient(sys.argv[1])
    await client.connect()
    await client.login_user(sys.argv[2], sys.argv[3])
    await client.join_consumer_group(sys.argv[4], "t", "g")
    while True:
        got = await client.poll_messages(sys.argv[4], "t", consumer=Consumer.Group("g"),
            polling_strategy=PollingStrategy.Next(), count=3, auto_commit=True)
        for message in got:
            print(message.payload().decode(), flush=True)
asyncio.run(main())
"""


def with_clients(broker: BrokerProcess, count: int, work: Callable[..., Awaitable[None]]) -> None:
    async def run() -> None:
        clients = []
        for _ in range(count):
            client = IggyClient(broker.address)
            await client.connect()
            await client.login_user(USERNAME, PASSWORD)
            clients.append(client)
        await work(*clients)

    asyncio.run(run())


async def make_topic(client: IggyClient, partitions: int = PARTITIONS) -> str:
    stream = f"official-{uuid.uuid4().hex[:8]}"
    await client.create_stream(stream)
    await client.create_topic(stream, "t", partitions)
    await client.create_consumer_group(stream, "t", "g")
    return stream


async def send(client: IggyClient, stream: str, partition: int, texts: list[str]) -> None:
    await client.send_messages(stream, "t", partition, [SendMessage(text) for text in texts])


async def poll(client: IggyClient, stream: str, *, count: int = 100) -> list[str]:
    got = await client.poll_messages(
        stream,
        "t",
        consumer=Consumer.Group("g"),
        polling_strategy=PollingStrategy.Next(),
        count=count,
        auto_commit=True,
    )
    return [message.payload().decode() for message in got]


async def drain(client: IggyClient, stream: str, count: int) -> list[str]:
    """Poll until there are `count` messages. The client looks for new partitions every 5 s."""
    found: list[str] = []
    deadline = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, f"{count} messages, found {found}"
        got = await poll(client, stream)
        found += got
        if not got:
            await asyncio.sleep(0.005)
    return found


async def shares(client: IggyClient, stream: str) -> list[list[int]]:
    details = await client.get_consumer_group(stream, "t", "g")
    assert details is not None
    assert details.members_count == len(details.members)
    return [sorted(member.partitions) for member in details.members]


def test_two_members_share_the_work_and_resume(broker: BrokerProcess) -> None:
    async def work(first: IggyClient, second: IggyClient) -> None:
        stream = await make_topic(first)
        await first.join_consumer_group(stream, "t", "g")
        for partition in range(PARTITIONS):
            await send(first, stream, partition, [f"a{partition}-{n}" for n in range(5)])
        assert len(await drain(first, stream, 30)) == 30
        await second.join_consumer_group(stream, "t", "g")
        assert sorted(map(len, await shares(first, stream))) == [3, 3]

        for partition in range(PARTITIONS):
            await send(first, stream, partition, [f"b{partition}-{n}" for n in range(5)])
        halves = [await drain(client, stream, 15) for client in (first, second)]
        assert len({*halves[0], *halves[1]}) == 30

        await first.leave_consumer_group(stream, "t", "g")
        assert await shares(second, stream) == [list(range(PARTITIONS))]
        for partition in range(PARTITIONS):
            await send(first, stream, partition, [f"c{partition}"])
        assert sorted(await drain(second, stream, 6)) == [f"c{p}" for p in range(PARTITIONS)]
        with pytest.raises(RuntimeError):
            await poll(first, stream)

    with_clients(broker, 2, work)


def test_a_member_without_a_partition_waits_for_one(broker: BrokerProcess) -> None:
    async def work(*three: IggyClient) -> None:
        stream = await make_topic(three[0], 2)
        for client in three:
            await client.join_consumer_group(stream, "t", "g")
        started = time.monotonic()
        assert await poll(three[2], stream) == []
        assert time.monotonic() - started < 1
        assert await shares(three[2], stream) == [[0], [1], []]
        await three[0].leave_consumer_group(stream, "t", "g")
        for partition in range(2):
            await send(three[0], stream, partition, [str(partition)])
        assert await drain(three[2], stream, 1) == ["1"]
        assert await drain(three[1], stream, 1) == ["0"]

    with_clients(broker, 3, work)


@contextmanager
def _member(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own, killed at the end if it still lives."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_work_of_a_killed_member_goes_on(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        command = [sys.executable, "-c", MEMBER, broker.address, USERNAME, PASSWORD, stream]
        with _member(command) as killed:
            output = killed.stdout
            assert output is not None
            await _until(lambda: shares(client, stream), [list(range(PARTITIONS))])
            await client.join_consumer_group(stream, "t", "g")
            for number in range(20):
                for partition in range(PARTITIONS):
                    await send(client, stream, partition, [f"{partition}/{number}"])
            seen = Counter([output.readline().strip()])
            seen.update(await poll(client, stream))
            os.kill(killed.pid, signal.SIGKILL)
            await _until(lambda: shares(client, stream), [list(range(PARTITIONS))])
            seen.update(output.read().split())
        # It may have died between the commit and the print: at most one poll is lost that way.
        sent = {f"{partition}/{number}" for partition in range(PARTITIONS) for number in range(20)}
        seen.update(await drain(client, stream, len(sent) - len(seen) - 3))
        seen.update(await poll(client, stream))
        assert seen.keys() <= sent
        assert seen.total() == len(seen), "nothing is read twice"

    with_clients(broker, 1, work)


async def _until(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    deadline = time.monotonic() + 30
    while await look() != wanted:
        assert time.monotonic() < deadline, f"never {wanted}"
        await asyncio.sleep(0.005)


def test_the_high_level_consumer_joins_and_reads_all(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        for partition in range(PARTITIONS):
            await send(client, stream, partition, [f"{partition}/{n}" for n in range(10)])
        consumer = await client.consumer_group(
            "h",
            stream,
            "t",
            polling_strategy=PollingStrategy.Next(),
            batch_length=4,
            auto_commit=AutoCommit.Interval(timedelta(milliseconds=50)),
            poll_interval=timedelta(milliseconds=1),
        )
        found: set[str] = set()
        over = asyncio.Event()

        async def take(message: object) -> None:
            found.add(message.payload().decode())  # type: ignore[attr-defined]
            if len(found) == 10 * PARTITIONS:
                over.set()

        reading = asyncio.ensure_future(consumer.consume_messages(take, over))
        await asyncio.wait_for(reading, 30)
        assert len(found) == 10 * PARTITIONS
        details = await client.get_consumer_group(stream, "t", "h")
        assert details is not None

    with_clients(broker, 1, work)


def test_a_deleted_group_is_told_to_its_members(broker: BrokerProcess) -> None:
    async def work(member: IggyClient) -> None:
        stream = await make_topic(member)
        await member.join_consumer_group(stream, "t", "g")
        assert await poll(member, stream) == []
        await member.delete_consumer_group(stream, "t", "g")
        with pytest.raises(RuntimeError):
            await poll(member, stream)
        assert await member.get_consumer_group(stream, "t", "g") is None

    with_clients(broker, 1, work)
