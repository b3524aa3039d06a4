"""Logins with one client id that cross on several shards: one wins, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_broker.net.clients import Clients, ForeignClientError, LateLoginError
from iggy_broker.net.detached import Detached
from iggy_broker.net.session import ReplyMemory, Session

CLIENT = bytes(15) + b"\x07"
SHARDS = 3


class Shard:
    """What `Clients` needs of an edge, and what became of its sessions."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.by_client: dict[bytes, SimpleNamespace] = {}
        self.detached = Detached(steps_max=1, on_ended=lambda session: None)
        self.clients = Clients(self, Lines(world, number))  # type: ignore[arg-type]

    def release(self, holder: SimpleNamespace) -> None:
        assert self.by_client.pop(CLIENT) is holder

    def on_session_ended(self, session: int) -> None:
        self.world.ended.append(session)


class Lines:
    """Links to the other shards that keep their order and deliver when they like."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number

    async def ask_all(self, question: bytes) -> list[bytes]:
        others = [to for to in range(SHARDS) if to != self.number]
        return await asyncio.gather(*(self._ask(to, question) for to in others))

    async def _ask(self, to: int, question: bytes) -> bytes:
        await self.world.passed(self.number, to)
        answer = await self.world.shards[to].clients.answer(question)
        await self.world.passed(to, self.number)
        return answer


@dataclass
class World:
    """Three shards, and all that was told to clients."""

    chance: random.Random
    shards: list[Shard] = field(default_factory=list)
    lines: dict[tuple[int, int], asyncio.Lock] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    bound: list[int] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    requests: int = 0
    clock: int = 0

    async def pause(self) -> None:
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(0)

    async def passed(self, start: int, end: int) -> None:
        """Wait as long as a frame takes, behind those that were sent before it."""
        async with self.lines.setdefault((start, end), asyncio.Lock()):
            await self.pause()

    def holders(self) -> list[SimpleNamespace]:
        return [one for shard in self.shards for one in shard.by_client.values()]

    async def log_in(self, shard: Shard, user_id: int) -> None:
        await self.pause()
        self.clock += 1
        number = self.clock * SHARDS + shard.number
        try:
            taken = await shard.clients.take_over(CLIENT, user_id, number)
        except ForeignClientError:
            self.outcomes.append("foreign")
            return
        except LateLoginError:
            self.outcomes.append("late")
            return
        assert not self.holders(), "the id is held once"
        memory = ReplyMemory(taken.highest, taken.replies)
        session = Session(client_number=1, address="")
        session.bind(client=CLIENT, number=number, user_id=user_id)
        session.memory = memory
        shard.by_client[CLIENT] = SimpleNamespace(session=session)
        self.bound.append(number)
        self.moved += [taken.session] if taken.session else []
        self.outcomes.append("bound")
        await self.change(memory)

    async def change(self, memory: ReplyMemory) -> None:
        """A change that the new session asks for, and that takes its time."""
        self.requests += 1
        request = self.requests
        memory.begin(request)
        await self.pause()
        memory.keep(request, bytes(16), b"reply")

    async def run(self, logins: list[tuple[int, int]]) -> None:
        self.shards = [Shard(self, number) for number in range(SHARDS)]
        await asyncio.gather(*(self.log_in(self.shards[at], user) for at, user in logins))

    def check(self) -> None:
        """Every session that ever was is held, ended, or went on as another one. Once."""
        held = [one.session.number for one in self.holders()]
        assert len(held) <= 1
        assert sorted(held + self.ended + self.moved) == sorted(self.bound)


LOGINS = st.lists(st.tuples(st.integers(0, SHARDS - 1), st.just(1)), min_size=1, max_size=8)


@settings(deadline=None)
@given(st.integers(0, 1 << 32), LOGINS)
def test_the_last_of_one_user_wins_and_knows_all_replies(
    seed: int, logins: list[tuple[int, int]]
) -> None:
    world = World(random.Random(seed))
    asyncio.run(world.run(logins))

    world.check()
    assert len(world.outcomes) == len(logins)
    (holder,) = world.holders()
    assert not world.ended
    assert holder.session.memory.highest == world.requests
    kept = list(holder.session.memory.replies)
    assert kept == list(range(1, world.requests + 1))[-5:]
    assert "foreign" not in world.outcomes


@settings(deadline=None)
@given(
    st.integers(0, 1 << 32),
    st.lists(st.tuples(st.integers(0, SHARDS - 1), st.integers(1, 2)), min_size=1, max_size=8),
)
def test_of_two_users_at_most_one_holds_it(seed: int, logins: list[tuple[int, int]]) -> None:
    world = World(random.Random(seed))
    asyncio.run(world.run(logins))

    world.check()
    assert len(world.outcomes) == len(logins), "nobody waits for ever"
