"""One shard's parts in this process, wired without sockets, and a caller of its commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from iggy_broker import config
from iggy_broker.clock import SystemClock
from iggy_broker.metadata.options import node_settings
from iggy_broker.metadata.recovery import open_metadata
from iggy_broker.metadata.replica import Writer
from iggy_broker.metrics import Counters, SharedCounters
from iggy_broker.net import dispatch
from iggy_broker.net.context import Context, Services
from iggy_broker.net.session import Session
from iggy_broker.partition_host import OwnedPartitions
from iggy_broker.storage.partition import StorageParts
from iggy_broker.storage.partition_table import PartitionTable
from iggy_wire import replies, requests
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, ReplyHeader, RequestHeader
from iggy_wire.options import Options
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import Request
from metadata_cases import QuickDisk


class NoLinks:
    """A broker with one shard."""

    async def broadcast_metadata(self, record: bytes) -> None:
        assert record

    async def request_metadata(self, request: bytes) -> bytes:
        raise AssertionError("shard 0 asks nobody")


class Refused(Exception):
    """A refusal as it travelled: in the status word, or in the result section."""

    def __init__(self, code: ErrorCode, where: str) -> None:
        super().__init__(code.name, where)


class Caller:
    """A logged-in client without a socket."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.session = Session(client_number=7, address="127.0.0.1:5")
        self.session.bind(client=bytes(15) + b"\x01", number=99, user_id=0)
        self.requests = 0
        self.last: ReplyHeader | None = None

    async def body(self, request: Request) -> bytes:
        """The payload of a success behind its result section; Refused otherwise."""
        self.requests += 1
        operation = request.operation()
        header = RequestHeader(
            operation=operation,
            client=self.session.client,
            session=99,
            request=self.requests,
            code=0 if operation >= 128 else request.command,
            size=HEADER_BYTES,
        )
        context = Context(self.services, self.session, header)
        frame = await dispatch.serve(context, request.command, request.encode())
        self.last = ReplyHeader.decode(frame)
        assert self.last.request == self.requests
        if self.last.status:
            raise Refused(ErrorCode(self.last.status), "status")
        body = bytes(frame[HEADER_BYTES:])
        if operation < 128:
            return body
        count = int.from_bytes(body[:4], "little")
        if count:
            raise Refused(ErrorCode(int.from_bytes(body[8:12], "little")), "result")
        return body[4:]

    async def stream(self, name: str) -> replies.Stream:
        return replies.Stream.decode(await self.body(requests.CreateStream(name)))

    async def topic(
        self, stream: int | str, name: str, *, partitions: int = 1, options: Options = ()
    ) -> replies.TopicDetails:
        request = requests.CreateTopic(Identifier(stream), partitions, name, options)
        return replies.TopicDetails.decode(await self.body(request))


def with_broker(root: Path, work: Callable[[Caller], Awaitable[None]], **environ: str) -> None:
    async def main() -> None:
        loaded = config.load(None, {"IGGY_SYSTEM_PATH": str(root), **environ})
        disk, clock, table = QuickDisk(), SystemClock(), PartitionTable(64)
        opened = open_metadata(loaded.config, disk=disk, clock=clock, warn=print)
        host = OwnedPartitions(
            str(root),
            shard_id=0,
            shards_count=1,
            node=node_settings(loaded.config),
            parts=StorageParts(disk, clock, table),
        )
        await host.open_all(opened.state)
        writer = Writer(
            opened.state, host=host, journal=opened.journal, links=NoLinks(), clock=clock
        )
        running = asyncio.create_task(writer.run())
        services = Services(
            shard_id=0,
            shards_count=1,
            config=loaded.config,
            clock=clock,
            replica=writer,
            table=table,
            partitions=host.open,
            counters=Counters(SharedCounters(1), 0),
            started_at_us=clock.now_us(),
            ports={"tcp": 8090},
        )
        try:
            await work(Caller(services))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            host.close(ThreadPoolExecutor)
            opened.journal.close()

    asyncio.run(main())
