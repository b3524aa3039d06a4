"""Clients on the sans-IO session of `iggy_client`, over the simulated network."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from iggy_client.errors import LinkError
from iggy_client.session import REPLY_BYTES_MAX, Call, Session, login_request
from iggy_wire.framing import FrameReader
from iggy_wire.replies import LoginReply
from iggy_wire.request_base import Request
from simulation.loop import SimulatedLoop
from simulation.network import Network, SimulatedTransport
from simulation.settings import PASSWORD, USERNAME

T = TypeVar("T")

ANSWER_LIMIT_S = 45.0  # of virtual time; nothing we simulate takes so long


class HangError(Exception):
    """A request on an open connection that nobody answers."""


class _Frames(asyncio.Protocol):
    """Whole frames, in order, to those who wait."""

    def __init__(self) -> None:
        self.reader = FrameReader(REPLY_BYTES_MAX)
        self.waiting: deque[asyncio.Future[memoryview]] = deque()
        self.is_open = True
        self.stray = 0

    def data_received(self, data: bytes) -> None:
        for frame in self.reader.feed(data):
            if not self.waiting:
                self.stray += 1
                continue
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(memoryview(bytes(frame)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        for future in self.waiting:
            if not future.done():
                future.set_exception(LinkError("the connection is gone"))
                future.exception()  # whoever waits sees it all the same
        self.waiting.clear()


class SimulatedClient:
    """One client; reconnects when told to."""

    def __init__(self, network: Network, loop: SimulatedLoop, name: str, seed: int) -> None:
        self.network = network
        self.loop = loop
        self.name = name
        self.chance = random.Random(f"client-{name}-{seed}")
        self.session = self._new_session()
        self.transport: SimulatedTransport | None = None
        self._frames = _Frames()

    def _new_session(self) -> Session:
        session = Session()
        session.client = self.chance.getrandbits(128).to_bytes(16, "little")
        return session

    @property
    def is_connected(self) -> bool:
        return self.transport is not None and self._frames.is_open

    async def connect(self, shard: int, login: Request | None = None) -> None:
        """Connect and log in, as root if not told otherwise.

        LinkError or ConnectionError if that fails, ClientError if the login is refused.
        """
        self.disconnect()
        self._frames = _Frames()
        self.session = self._new_session()
        self.transport = await self.network.connect(self.loop, self._frames, shard=shard)
        login = login or login_request(USERNAME, PASSWORD)
        await self.call(Call(login, LoginReply.decode))

    def disconnect(self) -> None:
        if self.transport is not None:
            self.transport.abort()
            self.transport = None

    async def call(self, call: Call[T]) -> T:
        """One request and its reply. ClientError, LinkError, HangError."""
        (answer,) = await self.calls([call])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def calls(self, calls: Sequence[Call[T]]) -> list[T | Exception]:
        """Several requests back to back; of each the result, or what it raised."""
        frames, transport = self._frames, self.transport
        if transport is None or not frames.is_open:
            raise LinkError("not connected")
        sent = []
        for call in calls:
            pending = self.session.start(call.request)
            future: asyncio.Future[memoryview] = self.loop.create_future()
            frames.waiting.append(future)
            sent.append((call, pending, future))
            transport.writelines([bytes(part) for part in pending.parts])
        answers: list[T | Exception] = []
        for call, pending, future in sent:
            try:
                async with asyncio.timeout(ANSWER_LIMIT_S):
                    frame = await future
                answers.append(call.read(self.session.finish(pending, frame)))
            except TimeoutError:
                raise HangError(f"{self.name}: no answer to {call.request}") from None
            except Exception as error:  # noqa: BLE001 - the caller looks at each
                answers.append(error)
        return answers
