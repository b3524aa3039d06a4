"""A round trip of the official Python client, of whichever version is first in PYTHONPATH.

What to do comes in the environment (`foreign_suites/matrix/job.py`). It logs in, creates, sends,
reads as a group, stores offsets, prints what it saw as one line of JSON, waits for a line, and
deletes. `lacks` names what this version of the client has no call for.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import apache_iggy
from apache_iggy import IggyClient, PollingStrategy, SendMessage

JOB = os.environ
STREAM, TOPIC, GROUP = JOB["STREAM"], JOB["TOPIC"], JOB["GROUP"]
PARTITIONS, KEYS, PER_KEY = int(JOB["PARTITIONS"]), int(JOB["KEYS"]), int(JOB["PER_KEY"])
BATCH = 500
TOTAL = KEYS * PER_KEY
IS_OLD = not hasattr(apache_iggy, "Consumer")  # 0.8: a group's reader and little else
IS_HTTP = JOB["TRANSPORT"] == "http"  # which has no members of groups
SCHEMES = {"tcp": "iggy+tcp", "quic": "iggy+quic", "websocket": "iggy+ws", "http": "iggy+http"}


class Seen:
    """What was read of one partition: in which order, as FNV-1a of the payloads."""

    def __init__(self) -> None:
        self.count, self.first, self.last, self.digest = 0, -1, -1, 0xCBF29CE484222325

    def add(self, offset: int, payload: bytes) -> None:
        if not self.count:
            self.first = offset
        self.count, self.last = self.count + 1, offset
        for byte in payload:
            self.digest = (self.digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF


def connection() -> str:
    transport, _, tls = JOB["TRANSPORT"].partition("+")
    options = f"?tls=true&tls_domain=localhost&tls_ca_file={JOB['CA_FILE']}" if tls else ""
    if IS_OLD and transport == "tcp":  # it writes a request in two parts
        options += "&nodelay=true" if tls else "?nodelay=true"
    return f"{SCHEMES[transport]}://{JOB['USERNAME']}:{JOB['PASSWORD']}@{JOB['ADDRESS']}{options}"


async def create(client: Any) -> None:
    await client.create_stream(STREAM)
    if hasattr(apache_iggy, "TopicOptions"):  # 0.9.1
        options = apache_iggy.TopicOptions(partitions_count=PARTITIONS)
        await client.create_topic(STREAM, TOPIC, options)
    else:
        await client.create_topic(STREAM, TOPIC, PARTITIONS)


async def send(client: Any) -> None:
    for key in range(KEYS):
        to: Any = key % PARTITIONS if IS_OLD else apache_iggy.Partitioning.messages_key(f"k{key}")
        batch = [SendMessage(f"k{key} {number}") for number in range(PER_KEY)]
        await client.send_messages(STREAM, TOPIC, to, batch)


async def read(client: Any, partition: int) -> Any:
    """The next messages: of one of a member's own partitions, or of this one over HTTP."""
    strategy = PollingStrategy.Next()
    if IS_OLD:
        return await client.poll_messages(STREAM, TOPIC, partition, strategy, BATCH, True)
    kind = apache_iggy.Consumer.Single if IS_HTTP else apache_iggy.Consumer.Group
    return await client.poll_messages(
        STREAM,
        TOPIC,
        consumer=kind(GROUP),
        polling_strategy=strategy,
        count=BATCH,
        auto_commit=True,
        **({"partition_id": partition} if IS_HTTP else {}),
    )


async def read_all(client: Any, seen: dict[int, Seen]) -> None:
    left, turn = TOTAL, 0
    while left > 0:
        for message in await read(client, turn % PARTITIONS):
            seen[message.partition_id()].add(message.offset(), message.payload())
            left -= 1
        turn += 1


async def read_by_consumer(consumer: Any, seen: dict[int, Seen]) -> None:
    left = TOTAL
    async for message in consumer.iter_messages():
        seen[message.partition_id()].add(message.offset(), message.payload())
        left -= 1
        if not left:
            break


async def read_as_group(client: Any, seen: dict[int, Seen]) -> dict[int, Any]:
    """Also stores offsets; what the client then says of them."""
    if not IS_OLD:
        await client.create_consumer_group(STREAM, TOPIC, GROUP)
        await client.join_consumer_group(STREAM, TOPIC, GROUP)
        await read_all(client, seen)
    commit = apache_iggy.AutoCommit.When(apache_iggy.AutoCommitWhen.PollingMessages())
    consumer = await client.consumer_group(GROUP, STREAM, TOPIC, auto_commit=commit)
    if IS_OLD:
        await read_by_consumer(consumer, seen)
    for partition, one in seen.items():
        await consumer.store_offset(one.last, partition)
    # 0.8 remembers what it was told to store only if it read that itself.
    return {} if IS_OLD else {each: consumer.get_last_stored_offset(each) for each in seen}


async def main() -> None:
    client: Any = IggyClient.from_connection_string(connection())
    await client.connect()
    await client.login_user(JOB["USERNAME"], JOB["PASSWORD"])
    await create(client)
    await send(client)
    seen = {partition: Seen() for partition in range(PARTITIONS)}
    stored: dict[int, Any] = {}
    lacks = ["keys", "delete"] if IS_OLD else []
    if IS_HTTP:
        lacks += ["group", "name"] if IS_OLD else ["group"]
        await read_all(client, seen)
    else:
        stored = await read_as_group(client, seen)
    found = {partition: vars(one) for partition, one in seen.items() if one.count}
    sys.stdout.write(json.dumps({"read": found, "stored": stored, "lacks": lacks}) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    if not IS_OLD:
        await client.delete_stream(STREAM)


asyncio.run(main())
os._exit(0)  # some versions of the client end the process badly when it ends by itself
