"""Who is logged in, on all shards together, and whose a client id is.

Each shard knows the sessions of its own connections; what concerns all is asked over the peer
links. A client id belongs to one connection at a time (Iggy protocol 0.11, repeated login): who
logs in with it as the same user takes it over, with the memory of replies, from wherever it is, as
soon as a change that is being served there has its reply.

While a login asks for its client id it holds a claim, so that of those that cross exactly one wins:
the last one. An earlier one leaves what it found to whoever told it that it is late.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from iggy_broker.net.detached import is_bound_by
from iggy_broker.net.session import Session, Transport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iggy_broker.net.edge import Edge


ASKED_MAX: Final = 1024  # a session is on its way between shards for milliseconds


class Questions(Protocol):
    """The other shards, as `peers.Links` reaches them."""

    async def ask_all(self, question: bytes) -> Sequence[bytes]:
        """The answers of all other shards."""


class LoggedIn(msgspec.Struct, frozen=True, array_like=True):
    """One session, as other shards are told of it."""

    client_number: int
    user_id: int
    address: str
    session: int
    transport: Transport

    @classmethod
    def of(cls, session: Session, user_id: int) -> LoggedIn:
        """A session of this shard."""
        number, transport = session.number, session.transport
        return cls(session.client_number, user_id, session.address, number, transport)


class TakeOver(msgspec.Struct, frozen=True, array_like=True, tag="take_over"):
    """Give up this client id if you hold it: its user logs in again, here."""

    client: bytes
    user_id: int
    number: int  # of the claim


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """What was given up, if anything."""

    session: int = 0  # number of the session that ended; 0: there was none
    is_foreign: bool = False  # the id is another user's, and stays so
    is_late: bool = False  # a later login of the same user is already on its way
    highest: int = 0
    replies: dict[int, tuple[bytes, bytes]] = {}
    sends: dict[int, bytes] = {}
    user_id: int = 0
    user_since_us: int = 0


class Bind(msgspec.Struct, frozen=True, array_like=True, tag="bind"):
    """Give up this session of P12 if you hold it: its client goes on here, and knows its secret."""

    client: bytes
    number: int  # 0: the client never learned it
    secret: bytes


class ListClients(msgspec.Struct, frozen=True, array_like=True, tag="list_clients"):
    """Who is logged in on your connections?"""


_ENCODER: Final = msgspec.msgpack.Encoder()
_QUESTIONS: Final = msgspec.msgpack.Decoder(TakeOver | Bind | ListClients)
_TAKEN: Final = msgspec.msgpack.Decoder(Taken)
_CLIENTS: Final = msgspec.msgpack.Decoder(list[LoggedIn])
_NOTHING: Final = Taken()


@dataclass(slots=True)
class _Claim:
    """A login that asks for its client id."""

    user_id: int
    number: int
    is_late: bool = False  # a later login of the same user wants the id too, and gets it
    heirs: int = 0  # those who wait for what a late claim found
    found: Taken = _NOTHING
    decided: asyncio.Event = field(default_factory=asyncio.Event)

    async def left(self) -> Taken:
        """Make the claim a late one, and wait for what it found: for the first who asks."""
        self.is_late = True
        self.heirs += 1
        await self.decided.wait()
        found, self.found = self.found, _NOTHING
        return found


class ForeignClientError(Exception):
    """The client id is another user's."""


class LateLoginError(Exception):
    """The same user logged in later with the same client id."""


class Clients:
    """The sessions of one shard, and the way to those of the others."""

    __slots__ = ("_asked", "_claims", "_edge", "_links")

    def __init__(self, edge: Edge, links: Questions) -> None:
        """For the connections of `edge`."""
        self._edge = edge
        self._links = links
        self._claims: dict[bytes, _Claim] = {}
        self._asked: dict[bytes, int] = {}  # client ids that others took lately, and as what

    async def all(self) -> list[LoggedIn]:
        """Every session of the broker, ascending by the number of its connection."""
        answers = await self._links.ask_all(_ENCODER.encode(ListClients()))
        found = self._mine()
        for answer in answers:
            found += _CLIENTS.decode(answer)
        return sorted(found, key=lambda one: one.client_number)

    async def take_over(self, client: bytes, user_id: int, number: int) -> Taken:
        """Get a client id that nobody holds afterwards, with what its holder remembered.

        Whoever gets it binds it before the next pause. Raises ForeignClientError or LateLoginError.
        """
        before = self._claims.get(client)
        if before is not None and before.user_id != user_id:
            raise ForeignClientError
        claim = self._claims[client] = _Claim(user_id, number)
        try:
            found = await self._find(TakeOver(client, user_id, number), claim, before)
            if not claim.is_late:
                return found
            claim.found = found
        finally:
            if self._claims.get(client) is claim:
                del self._claims[client]
            claim.decided.set()
        if found.session and not claim.heirs:
            self._edge.on_session_ended(found.session)
        raise LateLoginError

    def is_overtaken(self, client: bytes, number: int) -> bool:
        """Whether a session that arrives from another shard lost its client id on the way."""
        return (
            client in self._edge.by_client
            or client in self._claims
            or self._asked.get(client, 0) > number
        )

    async def bind(self, asked: Bind) -> Taken:
        """Get a session from wherever it is; none if nobody has it, or the secret is wrong.

        Whoever gets it binds it before the next pause, unless it was overtaken by a login.
        """
        found = await self._unbind(asked)
        if found.session:
            return found
        answers = await self._links.ask_all(_ENCODER.encode(asked))
        return next((one for one in map(_TAKEN.decode, answers) if one.session), _NOTHING)

    async def answer(self, question: bytes) -> bytes:
        """What another shard is told."""
        asked = _QUESTIONS.decode(question)
        if isinstance(asked, ListClients):
            return _ENCODER.encode(self._mine())
        if isinstance(asked, Bind):
            return _ENCODER.encode(await self._unbind(asked))
        return _ENCODER.encode(await self._yield(asked))

    async def _find(self, asked: TakeOver, claim: _Claim, before: _Claim | None) -> Taken:
        """From whoever has it: the login before this one, a connection here, another shard."""
        left = _NOTHING if before is None else await before.left()
        if left.session:
            return left
        here = await self._give_up(asked)
        if here.is_foreign:
            raise ForeignClientError
        if here.session:
            return here  # an id is held once, so nobody else has it
        answers = await self._links.ask_all(_ENCODER.encode(asked))
        others = [_TAKEN.decode(answer) for answer in answers]
        found = next((one for one in others if one.session), _NOTHING)
        if any(one.is_foreign for one in others):
            if found.session:
                self._edge.on_session_ended(found.session)
            raise ForeignClientError
        claim.is_late |= any(one.is_late for one in others)
        return found

    async def _yield(self, asked: TakeOver) -> Taken:
        self._asked.pop(asked.client, None)
        self._asked[asked.client] = asked.number
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]
        claim = self._claims.get(asked.client)
        if claim is None:
            return await self._give_up(asked)
        if claim.user_id != asked.user_id:
            return Taken(is_foreign=True)
        if claim.number > asked.number:
            return Taken(is_late=True)
        return await claim.left()

    async def _give_up(self, asked: TakeOver) -> Taken:
        session = self._held(asked.client)
        if session is None:
            return _NOTHING
        if session.user_id != asked.user_id:
            return Taken(is_foreign=True)
        return await self._let_go(session)

    async def _unbind(self, asked: Bind) -> Taken:
        session = self._held(asked.client)
        if session is None or not is_bound_by(session, asked.number, asked.secret):
            return _NOTHING
        return await self._let_go(session)

    def _held(self, client: bytes) -> Session | None:
        """The session of a client that is here, with a connection or without."""
        holder = self._edge.by_client.get(client)
        return self._edge.detached.find(client) if holder is None else holder.session

    async def _let_go(self, session: Session) -> Taken:
        """Give up a session, when the change that it is at has its reply."""
        client, memory, number = session.client, session.memory, session.number
        user_id, since_us = session.user_id, session.user_since_us
        assert user_id is not None, "sessions that are held have a user"
        holder = self._edge.by_client.get(client)
        if holder is None:
            self._edge.detached.take(client)
        else:
            self._edge.release(holder)
        await memory.settled()
        return Taken(
            number,
            highest=memory.highest,
            replies=dict(memory.replies),
            sends=dict(memory.sends),
            user_id=user_id,
            user_since_us=since_us,
        )

    def _mine(self) -> list[LoggedIn]:
        return [
            LoggedIn.of(session, session.user_id)
            for session in (one.session for one in self._edge.by_client.values())
            if session.user_id is not None
        ]
