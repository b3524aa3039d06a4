"""Frames that a fuzzer sends: right ones of every command, and the many ways to get one wrong.

Made by a seed and cheaply: bodies are encoded once, then patched, cut, stretched and joined.
"""

from __future__ import annotations

import random
import secrets
from struct import Struct
from typing import Final

from iggy_wire.batch import Message, build
from iggy_wire.codes import Command, Operation
from iggy_wire.dialect import P11
from iggy_wire.header import HEADER_BYTES, ZERO_16
from iggy_wire.kernel import xxh3_64
from iggy_wire.options import make_options
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.primitives import (
    AckLevel,
    Consumer,
    ConsumerKind,
    Identifier,
    Partitioning,
    PollingStrategy,
    StrategyKind,
)
from iggy_wire.request_base import Request
from iggy_wire.requests import (
    ChangePassword,
    CreateConsumerGroup,
    CreatePartitions,
    CreatePersonalAccessToken,
    CreateStream,
    CreateTopic,
    CreateUser,
    DeleteConsumerGroup,
    DeleteConsumerOffset,
    DeletePartitions,
    DeletePersonalAccessToken,
    DeleteSegments,
    DeleteStream,
    DeleteTopic,
    DeleteUser,
    DescribeOptions,
    FlushUnsavedBuffer,
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetConsumerGroup,
    GetConsumerGroups,
    GetConsumerOffset,
    GetMe,
    GetPersonalAccessTokens,
    GetSnapshot,
    GetStats,
    GetStream,
    GetStreams,
    GetTopic,
    GetTopics,
    GetUser,
    GetUsers,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    Login,
    LoginWithToken,
    Logout,
    Ping,
    PollMessages,
    PurgeStream,
    PurgeTopic,
    SendMessages,
    StoreConsumerOffset,
    SyncConsumerGroup,
    UpdatePermissions,
    UpdateStream,
    UpdateTopic,
    UpdateUser,
)

# cluster, size, view, release, command, replica | client, checksum, timestamp, request, operation,
# session, user, code: as `iggy_wire.header` has it, but any value goes.
_HEADER: Final = Struct("<32x16sIIIBB66x16s16sQQB7xQII56x")
_U32_MAX: Final = (1 << 32) - 1
_U64_MAX: Final = (1 << 64) - 1
_ODD_NUMBERS: Final = (0, 1, 2, 127, 128, 255, 1 << 31, _U32_MAX, 1 << 63, _U64_MAX)
BODY_BYTES_MAX: Final = 4096  # of random bodies
VARIANTS: Final = 12  # right bodies kept of each request

# How often each is taken; all others 10 times. What costs a hash or an archive is rare, and more is
# made than deleted, else everything else would meet nothing.
_WEIGHTS: Final = {
    Login: 0.3, CreateUser: 0.5, ChangePassword: 0.3, GetSnapshot: 0.02,
    Logout: 2, LoginWithToken: 20, GetStats: 4,
    DeleteStream: 0.5, PurgeStream: 1, UpdateStream: 4, CreateTopic: 15, CreatePartitions: 3,
    DeleteTopic: 1, PurgeTopic: 1, UpdateTopic: 4, DeletePartitions: 1, DeleteConsumerGroup: 1,
    LeaveConsumerGroup: 4, DeleteUser: 3, UpdateUser: 4,
    SendMessages: 120, PollMessages: 60, StoreConsumerOffset: 30,
}  # fmt: skip


class Sender:
    """What a frame must know of the connection that it is for."""

    __slots__ = ("client", "request", "session")

    def __init__(self) -> None:
        """A client id of its own, and any session number: brokers only ask whether there is one."""
        self.client = secrets.token_bytes(16)
        self.session = 1
        self.request = 0


class Frames:
    """An endless source of frames from one seed."""

    def __init__(self, seed: int, token: str) -> None:
        """`seed` decides everything but the client ids. `token` is one that logs in."""
        self._dice = random.Random(seed)
        self._token = token
        self._bodies: list[list[tuple[int, int, bytes]]] = []
        weights: list[float] = []
        for made in zip(*(self.requests() for _ in range(VARIANTS)), strict=True):
            self._bodies.append([_ready(request) for request in made])
            weights.append(_WEIGHTS.get(type(made[0]), 10))
        self._order = self._dice.choices(range(len(weights)), weights, k=4096)
        missing = set(P11.requests) - {code for found in self._bodies for _, code, _ in found}
        assert not missing, f"no frame of {missing}"

    def burst(self, sender: Sender) -> tuple[bytes, int]:
        """Bytes of some frames, and how many answers are due; -1 if nobody can tell."""
        dice = self._dice
        frames = [self._frame(sender) for _ in range(dice.choice((1, 2, 8, 32, 64)))]
        if dice.random() < 0.02:
            return b"".join(frames) + self._unaligned(sender), -1
        return b"".join(frames), len(frames)

    # -- frames that end where they say ------------------------------------------------------------

    def _frame(self, sender: Sender) -> bytes:
        dice = self._dice
        kind = self._order[int(dice.random() * 4096)]
        operation, code, body = self._bodies[kind][int(dice.random() * VARIANTS)]
        roll = dice.random()
        if roll < 0.5:
            return self._right(sender, operation, code, body)
        if roll < 0.75:
            return self._right(sender, operation, code, self._mutated(body))
        if roll < 0.9:
            return self._wrong_header(sender, operation, code, body)
        if roll < 0.95:
            return self._right(sender, dice.randrange(256), dice.choice(_CODES), body)
        body = dice.randbytes(int(dice.random() ** 4 * BODY_BYTES_MAX))
        return self._right(sender, operation, code, body)

    def _right(self, sender: Sender, operation: int, code: int, body: bytes) -> bytes:
        numbered = operation > Operation.NON_REPLICATED
        if numbered:
            sender.request += 1
        session = 0 if operation == Operation.REGISTER else sender.session
        request = sender.request if numbered else 0
        sealed = self._dice.random() < 0.1
        checksum = xxh3_64(body).to_bytes(16, "little") if sealed else ZERO_16
        length = HEADER_BYTES + len(body)
        header = _HEADER.pack(
            ZERO_16, length, 0, 0, 5, 0, sender.client, checksum, 0, request, operation, session,
            0, code if operation == Operation.NON_REPLICATED else 0,
        )  # fmt: skip
        return header + body

    def _wrong_header(self, sender: Sender, operation: int, code: int, body: bytes) -> bytes:
        dice = self._dice
        frame = bytearray(self._right(sender, operation, code, body))
        for _ in range(dice.choice((1, 1, 1, 2, 8))):
            at = dice.choice((60, 128, 144, 160, 168, 176, 184, 196, dice.randrange(256)))
            if not 48 <= at < 52:  # the length stays right
                frame[at] = dice.choice((0, 1, 255, dice.randrange(256)))
        return bytes(frame)

    def _mutated(self, body: bytes) -> bytes:
        dice = self._dice
        roll = dice.random()
        at = dice.randrange(len(body) + 1)
        if roll < 0.3:
            return body[:at]
        if roll < 0.4:
            return body + dice.randbytes(dice.randrange(1, 64))
        if roll < 0.5:
            return body[:at] + body[dice.randrange(len(body) + 1) :]
        changed = bytearray(body)
        if roll < 0.7 and len(body) >= 8:
            width = dice.choice((1, 2, 4, 8))
            at = dice.randrange(len(body) - width + 1)
            number = dice.choice(_ODD_NUMBERS) & (1 << 8 * width) - 1
            changed[at : at + width] = number.to_bytes(width, "little")
            return bytes(changed)
        for _ in range(dice.choice((1, 1, 2, 4))):
            if changed:
                changed[dice.randrange(len(changed))] = dice.randrange(256)
        return bytes(changed)

    # -- and those that do not ---------------------------------------------------------------------

    def _unaligned(self, sender: Sender) -> bytes:
        dice = self._dice
        frame = bytearray(self._frame(sender))
        roll = dice.random()
        if roll < 0.3:
            return dice.randbytes(dice.randrange(1, 2048))
        if roll < 0.6:
            return bytes(frame[: dice.randrange(1, len(frame))])
        wrong = dice.choice((0, 1, 255, 257, len(frame) + dice.randrange(1, 9999), 1 << 26))
        frame[48:52] = (wrong + dice.randrange(2)).to_bytes(4, "little")
        return bytes(frame)

    # -- right requests ----------------------------------------------------------------------------

    def requests(self) -> list[Request]:
        """One right request of every command."""
        return [*self._of_messages(), *self._of_resources(), *self._of_users()]

    def _of_messages(self) -> list[Request]:
        dice = self._dice
        stream, topic, consumer = self._identifier("s"), self._identifier("t"), self._consumer()
        partition = dice.choice((0, 1, 2, 3, 4, None))
        count = dice.choice((1, 1, 3, 10))
        payload = dice.randbytes(dice.choice((1, 10, 400)))
        batch = bytes(build([Message(payload)] * count, origin_timestamp_us=1))
        to = dice.choice(
            (
                Partitioning.balanced(),
                Partitioning.key(b"k"),
                Partitioning.partition(partition or 0),
            )
        )
        strategy = PollingStrategy(dice.choice(list(StrategyKind)), dice.randrange(20))
        wanted = dice.choice((0, 1, 10, 10, _U32_MAX))
        committed = dice.random() < 0.5
        offset, ack = dice.randrange(20), dice.choice(list(AckLevel))
        return [
            SendMessages(stream, topic, to, count, batch),
            PollMessages(consumer, stream, topic, partition, strategy, wanted, committed),
            StoreConsumerOffset(consumer, stream, topic, partition, offset, ack),
            DeleteConsumerOffset(consumer, stream, topic, partition, ack),
            GetConsumerOffset(consumer, stream, topic, partition),
            FlushUnsavedBuffer(stream, topic, partition or 0, committed),
            DeleteSegments(stream, topic, partition or 0, dice.randrange(3)),
        ]

    def _of_resources(self) -> list[Request]:
        dice = self._dice
        stream, topic, group = (self._identifier(kind) for kind in "stg")
        options = dice.choice(
            ((), make_options({"durability": dice.choice(("persisted", "replicated"))}))
        )
        few = dice.choice((0, 1, 1, 4))
        return [
            GetStream(stream), GetStreams(), CreateStream(self._name("s")), DeleteStream(stream),
            UpdateStream(stream, self._name("s")), PurgeStream(stream),
            GetTopic(stream, topic), GetTopics(stream),
            CreateTopic(stream, few, self._name("t"), options), DeleteTopic(stream, topic),
            UpdateTopic(stream, topic, self._name("t"), options), PurgeTopic(stream, topic),
            CreatePartitions(stream, topic, few), DeletePartitions(stream, topic, few),
            GetConsumerGroup(stream, topic, group), GetConsumerGroups(stream, topic),
            CreateConsumerGroup(stream, topic, self._name("g")),
            DeleteConsumerGroup(stream, topic, group), JoinConsumerGroup(stream, topic, group),
            LeaveConsumerGroup(stream, topic, group), SyncConsumerGroup(stream, topic, group),
        ]  # fmt: skip

    def _of_users(self) -> list[Request]:
        dice = self._dice
        user = Identifier(self._name("user"))  # never root, whom the test needs
        permissions = dice.choice((None, Permissions(GlobalPermissions(*[True] * 10), ())))
        odd = dice.randrange(10)
        token = dice.choice((self._token, self._token, "no such token"))
        return [
            Ping(), GetStats(), GetClusterMetadata(), DescribeOptions(dice.randrange(4)), GetMe(),
            GetClient(odd), GetClients(), GetUser(user), GetUsers(), DeleteUser(user),
            CreateUser(self._name("user"), "secret", 1, permissions),
            UpdateUser(user, self._name("user"), dice.choice((None, 1, 2))),
            UpdatePermissions(user, permissions), ChangePassword(user, "secret", "secret"),
            GetPersonalAccessTokens(), CreatePersonalAccessToken(self._name("token"), odd),
            DeletePersonalAccessToken(self._name("token")), GetSnapshot(1, (1,)), Logout(),
            Login(P11.version, "fuzz", "1", self._name("user"), "secret"),
            LoginWithToken(P11.version, "fuzz", "1", token),
        ]  # fmt: skip

    def _name(self, kind: str) -> str:
        return f"{kind}{self._dice.randrange(4)}"

    def _identifier(self, kind: str) -> Identifier:
        number = self._dice.randrange(4)
        return Identifier(f"{kind}{number}" if self._dice.random() < 0.7 else number)

    def _consumer(self) -> Consumer:
        kind = self._dice.choice(list(ConsumerKind))
        return Consumer(kind, self._identifier("g"))


def _ready(request: Request) -> tuple[int, int, bytes]:
    return request.operation(), request.command, bytes(request.encode())


_CODES: Final = (*Command, 0, 3, 9999, _U32_MAX)
