"""What a command handler sees, and the two ways in which it ends. Handlers never touch a socket.

A handler is `async def create_stream(context: Context, request: requests.CreateStream) -> Answer`.
It gets the decoded body and returns the reply's payload *without* the result section: `dispatch`
puts that in front where the operation asks for one (Iggy protocol 0.11: operations 128-159 and
161-162 start with one, reads and sends do not).

Refusals are raised. `Reject` on a metadata operation (128-159) becomes a result section with the
code, as a business outcome; on every other operation it becomes the reply's status word. `Deny`
always becomes the status word: use it for what is refused before anything could be logged (an
option key that nobody knows, a partition count of 0).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from iggy_broker.errors import Deny
from iggy_broker.metadata.model import Caller
from iggy_broker.net.members import Members
from iggy_broker.net.passwords import Passwords
from iggy_wire.errors import ErrorCode

if TYPE_CHECKING:
    from iggy_broker.clock import Clock
    from iggy_broker.config import Config
    from iggy_broker.metadata.replica import Replica
    from iggy_broker.metrics import Counters
    from iggy_broker.net.clients import LoggedIn
    from iggy_broker.net.observer import Heard
    from iggy_broker.net.session import Session
    from iggy_broker.net.tls import ListenerTls
    from iggy_broker.storage.partition import Partition
    from iggy_broker.storage.partition_table import PartitionTable
    from iggy_wire.dialect import Dialect
    from iggy_wire.header import RequestHeader
    from iggy_wire.request_base import Request


__all__ = [
    "DONE",
    "Answer",
    "ClientTable",
    "Context",
    "Deny",
    "Handler",
    "NoClients",
    "Row",
    "Services",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """A handler's success: the payload, and for a logged change where and when it was logged."""

    body: bytes = b""
    op: int = 0  # journal position of the change; 0 for reads
    timestamp_us: int = 0  # when the change was logged; 0 for reads


DONE = Answer()


class ClientTable(Protocol):
    """The sessions of all shards, as `clients.Clients` knows them."""

    async def all(self) -> list[LoggedIn]:
        """Every session of the broker, ascending by the number of its connection."""
        ...

    async def answer(self, question: bytes) -> bytes:
        """What another shard is told of the sessions of this one."""
        ...


class NoClients:
    """Before the shard accepts clients."""

    async def all(self) -> list[LoggedIn]:
        """None."""
        return []

    async def answer(self, question: bytes) -> bytes:
        """Shards ask each other for clients only, and accept none before all are wired."""
        raise AssertionError("asked before this shard accepts clients")


class Observes(Protocol):
    """What metrics need of all shards, as `observer.Observer` gets it."""

    async def answer(self) -> bytes:
        """For shard 0, which collects."""
        ...

    async def everywhere(self) -> Heard:
        """Of all shards, which publish what they count."""
        ...


class ServesHttp(Protocol):
    """The HTTP server of this shard."""

    def hear(self, question: bytes) -> bool:
        """Another shard tells something: whether it was about a logout."""
        ...

    async def close(self, timeout_s: float) -> None:
        """Let nobody in any more, and answer what is being served for so long."""
        ...


class NoHttp:
    """HTTP is off."""

    def hear(self, question: bytes) -> bool:
        """No."""
        return False

    async def close(self, timeout_s: float) -> None:
        """Nothing is served."""


class NoObserver:
    """Before the shard is wired."""

    async def answer(self) -> bytes:
        """Shard 0 asks when all are wired."""
        raise AssertionError("asked before this shard accepts clients")

    async def everywhere(self) -> Heard:
        """The monitoring listener opens later."""
        raise AssertionError("asked before this shard accepts clients")


@dataclass(slots=True)
class Services:
    """One shard's parts, as `shard.py` wires them. One object per process."""

    shard_id: int
    shards_count: int
    config: Config
    clock: Clock
    replica: Replica  # metadata: `.state` to read, its methods to change
    table: PartitionTable  # numbers of every partition of the broker, whoever owns it
    partitions: dict[int, Partition]  # owned by this shard, by packed key (placement.pack)
    counters: Counters  # shared by all shards
    started_at_us: int
    ports: Mapping[str, int]  # as bound, by the listener's name; tcp always
    poll_bytes_max: int = 63 << 20  # batches of one poll reply; official clients stop at 64 MiB
    rotations: dict[int, int] = field(default_factory=dict)  # round robin, by incarnation
    passwords: Passwords = field(default_factory=Passwords)
    clients: ClientTable = field(default_factory=NoClients)
    observer: Observes = field(default_factory=NoObserver)
    http: ServesHttp = field(default_factory=NoHttp)
    certificates: Mapping[str, ListenerTls] = field(default_factory=dict)  # by listener
    members: Members = field(init=False)  # of consumer groups

    def __post_init__(self) -> None:
        """What works with the metadata only."""
        self.members = Members(self.replica)


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of one request. Keep nothing of it after the handler returns."""

    services: Services
    session: Session  # user_id, client_number, address, transport
    header: RequestHeader
    dialect: Dialect = field(init=False, repr=False)
    _caller: Caller | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Whoever asked stays who asked, also when the session moves while the request runs."""
        user_id, since_us = self.session.user_id, self.session.user_since_us
        caller = None if user_id is None else Caller(user_id, since_us)
        object.__setattr__(self, "_caller", caller)
        object.__setattr__(self, "dialect", self.session.dialect)

    @property
    def user_id(self) -> int:
        """The id of who asks. Deny with UNAUTHENTICATED if that is nobody."""
        return self.caller.user_id

    @property
    def caller(self) -> Caller:
        """Who asks, for a change. Deny with UNAUTHENTICATED if that is nobody."""
        if self._caller is None:
            raise Deny(ErrorCode.UNAUTHENTICATED, "log in first")
        return self._caller


Handler = Callable[[Context, Any], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a command table: which class decodes the body, and who serves it.

    Each handler module has `COMMANDS: dict[int, Row]` with `iggy_wire.codes.Command` numbers as
    keys, e.g. `{Command.CREATE_STREAM: Row(create_stream, CreateStream)}`; `dispatch` joins them.
    """

    handler: Handler
    request: type[Request] | None = None  # None: the body is ignored, the handler gets None
