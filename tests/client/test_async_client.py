"""What only the async client can be asked: tasks that share it, tasks that are cancelled."""

import asyncio
import threading
from collections.abc import Iterable

import pytest

from iggy_client import AsyncClient, LinkError
from iggy_wire.codes import Operation
from iggy_wire.header import RequestHeader, encode_reply
from iggy_wire.replies import StoredOffset
from iggy_wire.requests import GetConsumerOffset
from scripted_server import ScriptedServer, polite


def echo_partition(header: RequestHeader, body: bytes) -> Iterable[bytes]:
    if header.operation == Operation.REGISTER:
        return polite(header, body)
    partition_id = GetConsumerOffset.decode(body).partition_id or 0
    return [encode_reply(header, StoredOffset(partition_id, 0, partition_id).encode())]


def test_tasks_take_turns_and_get_their_own_answers() -> None:
    async def main() -> None:
        async with await AsyncClient.connect(server.address, "iggy", "iggy") as client:
            offsets = await asyncio.gather(*(client.get_offset(1, "s", "t", n) for n in range(20)))
            assert [found.stored_offset for found in offsets if found] == list(range(20))

    with ScriptedServer(echo_partition) as server:
        asyncio.run(main())


def test_a_cancelled_call_closes_the_connection() -> None:
    async def main() -> None:
        client = await AsyncClient.connect(server.address, "iggy", "iggy")
        asked = threading.Event()

        def say_nothing(header: RequestHeader, body: bytes) -> Iterable[bytes]:
            asked.set()
            return ()

        server.answer = say_nothing
        waiting = asyncio.create_task(client.ping())
        await asyncio.to_thread(asked.wait)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert not client.is_open
        with pytest.raises(LinkError, match="reconnect"):
            await client.ping()
        await client.close()

    with ScriptedServer() as server:
        asyncio.run(main())
