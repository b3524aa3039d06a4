"""One broker as the operator sees it: one connection, shared listings, typed failures, back-off.

However many objects live in a broker, one that is down costs one attempt for each step of the
back-off. Reads and writes take turns, so a listing never misses what was made while it was read.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from iggy_client import ClientError, LinkError, SessionLostError, Tls, access_calls, calls
from iggy_client.session import Call
from iggy_operator.backoff import PAUSE_S_MIN, Chance, pause_s
from iggy_operator.clock import Clock
from iggy_operator.decide.actions import (
    Action,
    AddPartitions,
    CreateGroup,
    CreateStream,
    CreateTopic,
    DeleteStream,
    DeleteTopic,
    Removal,
    RemovePartitions,
    UpdateTopic,
)
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.replies import Stats, Stream, TopicHeader

LISTING_S: Final = 5.0
"""A listing serves all passes for so long."""
LISTINGS_MAX: Final = 1_000
"""Streams whose topics are kept; beyond that those that are too old are dropped."""

T = TypeVar("T")
_DENIED: Final = frozenset({ErrorCode.UNAUTHENTICATED, ErrorCode.UNAUTHORIZED})
"""Of any request. Of a login, every refusal is one."""
_NOT_LET_IN: Final = frozenset({ErrorCode.INVALID_CREDENTIALS, ErrorCode.USER_INACTIVE})


class Connection(Protocol):
    """What of `iggy_client.AsyncClient` is used here."""

    async def call(self, call: Call[T]) -> T:
        """Any command."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class Connect(Protocol):
    """`AsyncClient.connect`."""

    async def __call__(
        self, address: str, username: str, password: str, *, tls: Tls | None
    ) -> Connection:
        """A connection that is logged in."""
        ...


class BrokerError(Exception):
    """Something is wrong between the operator and a broker."""


class BrokerDownError(BrokerError):
    """It cannot be reached. Nobody tries before `retry_in_s` is over."""

    def __init__(self, message: str, *, retry_in_s: float, down_for_s: float) -> None:
        """`down_for_s`: since the first failure, or since it was last said to serve."""
        super().__init__(message)
        self.retry_in_s = retry_in_s
        self.down_for_s = down_for_s


class BrokerDeniedError(BrokerError):
    """It does not let us in, or not do that. Nobody logs in before `retry_in_s` is over."""

    def __init__(self, message: str, *, retry_in_s: float) -> None:
        """As above."""
        super().__init__(message)
        self.retry_in_s = retry_in_s


class BrokerRefusedError(BrokerError):
    """It refused this request. `code` as in the protocol."""

    def __init__(self, code: int, message: str) -> None:
        """What it said."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Login:
    """How to get in."""

    address: str
    username: str
    password: str = field(repr=False)
    tls: Tls | None = None


@dataclass(slots=True)
class _Listing(dict[str, T]):
    """Entities by name, as they were."""

    taken_s: float

    def is_fresh(self, now_s: float) -> bool:
        return now_s - self.taken_s < LISTING_S


@dataclass(slots=True)
class _Trouble:
    """Why nobody connects at present, and until when."""

    text: str
    is_denied: bool
    since_s: float
    until_s: float
    failures: int

    def error(self, now_s: float) -> BrokerError:
        left_s = max(0.0, self.until_s - now_s)
        if self.is_denied:
            return BrokerDeniedError(self.text, retry_in_s=left_s)
        return BrokerDownError(self.text, retry_in_s=left_s, down_for_s=now_s - self.since_s)


class BrokerAdmin:
    """One broker. Every method that talks to it raises BrokerError."""

    def __init__(self, login: Login, connect: Connect, clock: Clock, chance: Chance) -> None:
        """Connects when somebody asks for something."""
        self.login = login
        self._connect = connect
        self._clock = clock
        self._chance = chance
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._is_closed = False
        self._trouble: _Trouble | None = None
        self._sign = ""
        self._streams: _Listing[Stream] | None = None
        self._topics: dict[str, _Listing[TopicHeader]] = {}

    async def close(self) -> None:
        """End the connection, for ever: passes that still have this admin get another one."""
        self._is_closed = True
        async with self._turn:
            await self._drop()

    async def ask(self, call: Call[T]) -> T:
        """Any command that leaves the listings as they are."""
        async with self._turn:
            return await self._call(call)

    async def visit(self, username: str, password: str) -> Connection | None:
        """A connection of its own as somebody else; None if that is not let in. To be closed."""
        try:
            return await self._connect(self.login.address, username, password, tls=self.login.tls)
        except LinkError as error:
            raise BrokerDownError(str(error), retry_in_s=PAUSE_S_MIN, down_for_s=0) from error
        except ClientError as error:
            if error.code in _NOT_LET_IN:
                return None
            raise BrokerRefusedError(error.code, str(error)) from error

    async def stats(self) -> Stats:
        """How the broker is doing."""
        return await self.ask(calls.get_stats())

    async def users_count(self) -> int | None:
        """How many users there are; None if we may not know."""
        try:
            users = await self.ask(access_calls.get_users())
        except (BrokerDeniedError, BrokerRefusedError):
            return None
        return len(users)

    async def streams(self) -> Mapping[str, Stream]:
        """All streams by name, at most LISTING_S old. Not to be kept."""
        async with self._turn:
            now_s = self._clock.monotonic_s()
            if self._streams is None or not self._streams.is_fresh(now_s):
                found = await self._call(calls.get_streams())
                self._streams = _Listing(now_s)
                self._streams.update((stream.name, stream) for stream in found)
            return self._streams

    async def topics(self, stream: str) -> Mapping[str, TopicHeader]:
        """All topics of a stream by name, at most LISTING_S old. Not to be kept."""
        async with self._turn:
            now_s = self._clock.monotonic_s()
            listing = self._topics.get(stream)
            if listing is None or not listing.is_fresh(now_s):
                found = await self._call(calls.get_topics(stream))
                listing = _Listing(now_s)
                listing.update((topic.name, topic) for topic in found)
                self._keep(stream, listing, now_s)
            return listing

    async def stream_now(self, name: str) -> Stream | None:
        """One stream as it is at this moment: for what cannot be undone."""
        async with self._turn:
            details = await self._call(calls.get_stream(name))
            return self._note_stream(name, details.stream if details else None)

    async def topic_now(self, stream: str, name: str) -> TopicHeader | None:
        """One topic as it is at this moment."""
        async with self._turn:
            return await self._read_topic(stream, name)

    async def groups(self, stream: str, topic: str) -> frozenset[str]:
        """Names of a topic's consumer groups."""
        async with self._turn:
            found = await self._call(calls.get_groups(stream, topic))
            return frozenset(group.name for group in found)

    async def act(self, stream: str, action: Action | Removal) -> None:
        """Carry one action out in a stream; the listings know of it at once."""
        async with self._turn:
            match action:
                case CreateStream(name):
                    made = await self._call(calls.create_stream(name))
                    self._note_stream(name, made)
                    self._topics.pop(name, None)
                case DeleteStream(name):
                    await self._call(calls.delete_stream(name))
                    self._note_stream(name, None)
                    self._topics.pop(name, None)
                case CreateTopic(name, partitions_count, options):
                    call = calls.create_topic(stream, name, partitions_count, options)
                    details = await self._call(call)
                    self._note_topic(stream, name, details.topic)
                case CreateGroup(topic, name):
                    await self._call(calls.create_group(stream, topic, name))
                case _:
                    await self._call(_topic_call(stream, action))
                    await self._read_topic(stream, action.name)

    def heard(self, sign: str) -> None:
        """Something else says that it serves: try at once, however often it failed. Once a sign.

        How long it was away before, hibernating perhaps, is no longer held against it.
        """
        if sign != self._sign and self._trouble is not None and not self._trouble.is_denied:
            self._trouble.since_s = self._trouble.until_s = self._clock.monotonic_s()
            self._trouble.failures = 0
        self._sign = sign

    def forget(self) -> None:
        """Read everything anew: the broker says something else than the listings."""
        self._streams = None
        self._topics.clear()

    async def _read_topic(self, stream: str, name: str) -> TopicHeader | None:
        details = await self._call(calls.get_topic(stream, name))
        return self._note_topic(stream, name, details.topic if details else None)

    def _note_topic(self, stream: str, name: str, topic: TopicHeader | None) -> TopicHeader | None:
        if (listing := self._topics.get(stream)) is not None:
            _note(listing, name, topic)
        return topic

    def _note_stream(self, name: str, stream: Stream | None) -> Stream | None:
        if self._streams is not None:
            _note(self._streams, name, stream)
        return stream

    def _keep(self, stream: str, listing: _Listing[TopicHeader], now_s: float) -> None:
        if len(self._topics) >= LISTINGS_MAX:
            self._topics = {
                name: item for name, item in self._topics.items() if item.is_fresh(now_s)
            }
        self._topics[stream] = listing

    async def _call(self, call: Call[T]) -> T:
        """One command, on a connection that is made when there is none. In turn only."""
        try:
            if self._connection is None:
                await self._open()
            assert self._connection is not None, "opened or raised"
            result = await self._connection.call(call)
        except (LinkError, SessionLostError) as error:
            await self._drop()
            raise self._failed(str(error), is_denied=False) from error
        except (ClientError, WireError) as error:
            if error.code in _DENIED or self._connection is None:
                raise self._failed(str(error), is_denied=True) from error
            self.forget()  # it knows something that the listings do not say
            raise BrokerRefusedError(error.code, str(error)) from error
        self._trouble = None
        return result

    async def _open(self) -> None:
        if self._is_closed:
            text = "there is another way to it by now"
            raise BrokerDownError(text, retry_in_s=PAUSE_S_MIN, down_for_s=0)
        now_s = self._clock.monotonic_s()
        if self._trouble is not None and now_s < self._trouble.until_s:
            raise self._trouble.error(now_s)
        self.forget()  # it may be another broker by now
        login = self.login
        self._connection = await self._connect(
            login.address, login.username, login.password, tls=login.tls
        )

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        self.forget()

    def _failed(self, text: str, *, is_denied: bool) -> BrokerError:
        now_s = self._clock.monotonic_s()
        failures = self._trouble.failures + 1 if self._trouble else 1
        since_s = self._trouble.since_s if self._trouble else now_s
        until_s = now_s + pause_s(failures, self._chance)
        self._trouble = _Trouble(text, is_denied, since_s, until_s, failures)
        return self._trouble.error(now_s)


def _note(listing: _Listing[T], name: str, entity: T | None) -> None:
    if entity is None:
        listing.pop(name, None)
    else:
        listing[name] = entity


def _topic_call(
    stream: str, action: UpdateTopic | AddPartitions | RemovePartitions | DeleteTopic
) -> Call[None]:
    match action:
        case UpdateTopic(name, options):
            return calls.update_topic(stream, name, name, options)
        case AddPartitions(name, count):
            return calls.create_partitions(stream, name, count)
        case RemovePartitions(name, count):
            return calls.delete_partitions(stream, name, count)
        case DeleteTopic(name):
            return calls.delete_topic(stream, name)
