"""Who is logged in, on all shards together, and whose a client id is.

Each shard knows the sessions of its own connections; what concerns all is asked over the peer
links. A client id belongs to one connection at a time (Iggy protocol 0.11, repeated login): who
logs in with it as the same user takes it over, with the memory of replies, from wherever it is.
While a login asks the other shards it holds a claim, so that of two that cross exactly one wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iggy_broker.net.edge import Edge
    from iggy_broker.net.session import ReplyMemory


ASKED_MAX: Final = 1024  # a session is on its way between shards for milliseconds


class Questions(Protocol):
    """The other shards, as `peers.Links` reaches them."""

    async def ask_all(self, question: bytes) -> Sequence[bytes]:
        """The answers of all other shards."""

    async def ask(self, shard_id: int, question: bytes) -> bytes:
        """The answer of one."""


class LoggedIn(msgspec.Struct, frozen=True, array_like=True):
    """One session, as other shards are told of it."""

    client_number: int
    user_id: int
    address: str
    session: int


class TakeOver(msgspec.Struct, frozen=True, array_like=True, tag="take_over"):
    """Give up this client id if you hold it: its user logs in again, here."""

    client: bytes
    user_id: int
    number: int  # of the claim
    shard_id: int  # who asks


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """What was given up, if anything."""

    session: int = 0  # number of the session that ended; 0: there was none
    is_foreign: bool = False  # the id is another user's, and stays so
    is_late: bool = False  # a later login of the same user is already on its way
    highest: int = 0
    replies: dict[int, tuple[bytes, bytes]] = {}
    busy: tuple[int, ...] = ()


class ListClients(msgspec.Struct, frozen=True, array_like=True, tag="list_clients"):
    """Who is logged in on your connections?"""


class Answered(msgspec.Struct, frozen=True, array_like=True, tag="answered"):
    """A request that was being served when its client id went to you has its reply."""

    client: bytes
    request: int
    checksum: bytes
    reply: bytes


_ENCODER: Final = msgspec.msgpack.Encoder()
_QUESTIONS: Final = msgspec.msgpack.Decoder(TakeOver | ListClients | Answered)
_TAKEN: Final = msgspec.msgpack.Decoder(Taken)
_CLIENTS: Final = msgspec.msgpack.Decoder(list[LoggedIn])


@dataclass(slots=True)
class _Claim:
    """A login that asks the other shards for its client id."""

    user_id: int
    number: int
    is_late: bool = False


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

        Raises ForeignClientError or LateLoginError; nothing has changed then.
        """
        claim = self._claims.get(client)
        if claim is not None and claim.user_id != user_id:
            raise ForeignClientError
        if claim is not None:
            claim.is_late = True
        question = TakeOver(client, user_id, number, self._edge.services.shard_id)
        taken = self._give_up(question)
        if taken.is_foreign:
            raise ForeignClientError
        if taken.session:
            return taken  # an id is held once, so nobody else has it
        claim = self._claims[client] = _Claim(user_id, number)
        try:
            answers = await self._links.ask_all(_ENCODER.encode(question))
        finally:
            if self._claims.get(client) is claim:
                del self._claims[client]
        found = [_TAKEN.decode(answer) for answer in answers]
        if any(one.is_foreign for one in found):
            raise ForeignClientError
        if claim.is_late or any(one.is_late for one in found):
            raise LateLoginError
        return next((one for one in found if one.session), taken)

    def is_overtaken(self, client: bytes, number: int) -> bool:
        """Whether a session that arrives from another shard lost its client id on the way."""
        return (
            client in self._edge.by_client
            or client in self._claims
            or self._asked.get(client, 0) > number
        )

    def answer(self, question: bytes) -> bytes:
        """What another shard is told."""
        asked = _QUESTIONS.decode(question)
        if isinstance(asked, ListClients):
            return _ENCODER.encode(self._mine())
        if isinstance(asked, TakeOver):
            return _ENCODER.encode(self._yield(asked))
        self._inherit(asked)
        return b""

    def tell_heir(self, client: bytes, memory: ReplyMemory, request: int) -> None:
        """Pass on the reply to a request whose client id was taken over while it was served."""
        checksum, reply = memory.replies[request]
        told = Answered(client, request, checksum, reply)
        if memory.heir == self._edge.services.shard_id:
            self._inherit(told)
        elif memory.heir is not None:
            self._edge.keep(self._links.ask(memory.heir, _ENCODER.encode(told)))

    def _inherit(self, told: Answered) -> None:
        holder = self._edge.by_client.get(told.client)
        if holder is not None:
            holder.session.memory.keep(told.request, told.checksum, told.reply)

    def _yield(self, asked: TakeOver) -> Taken:
        self._asked.pop(asked.client, None)
        self._asked[asked.client] = asked.number
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]
        claim = self._claims.get(asked.client)
        if claim is None:
            return self._give_up(asked)
        if claim.user_id != asked.user_id:
            return Taken(is_foreign=True)
        if claim.number > asked.number:
            return Taken(is_late=True)
        claim.is_late = True
        return Taken()

    def _give_up(self, asked: TakeOver) -> Taken:
        holder = self._edge.by_client.get(asked.client)
        if holder is None:
            return Taken()
        session = holder.session
        if session.user_id != asked.user_id:
            return Taken(is_foreign=True)
        memory, number = session.memory, session.number
        memory.heir = asked.shard_id
        self._edge.release(holder)
        return Taken(
            number,
            highest=memory.highest,
            replies=dict(memory.replies),
            busy=tuple(memory.busy),
        )

    def _mine(self) -> list[LoggedIn]:
        return [
            LoggedIn(session.client_number, session.user_id, session.address, session.number)
            for session in (one.session for one in self._edge.by_client.values())
            if session.user_id is not None
        ]
