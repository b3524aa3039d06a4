"""What a client of the protocol up to 0.8 asks, said in 0.11. Sans-IO.

`Dialogue.serve` is a conversation: it yields frames of 0.11, is sent the reply to each, and returns
the one reply that the client gets. There a server chose which of its partitions a member of a group
reads; in 0.11 the client does, so here it is this side of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

import msgspec

from iggy_wire.buffer import Buffer
from iggy_wire.codes import (
    OPERATION_OF_COMMAND,
    Command,
    FrameKind,
    Operation,
    is_result_framed,
)
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    HEADER_BYTES,
    EvictionHeader,
    ReplyHeader,
    RequestHeader,
    eviction_error,
    frame_kind,
)
from iggy_wire.primitives import (
    PARTITION_NOT_OWNED,
    Consumer,
    ConsumerKind,
    Identifier,
)
from iggy_wire.replies import GroupAssignment, LoginReply, Polled
from iggy_wire.requests import (
    DeleteConsumerOffset,
    FlushUnsavedBuffer,
    GetConsumerOffset,
    Login,
    LoginWithToken,
    PollMessages,
    StoreConsumerOffset,
    SyncConsumerGroup,
)
from iggy_wire.results import split_result
from iggy_wire.v08 import bodies, frames, messages

GROUPS_MAX: Final = 64
"""Of one client, of which is known what it read last; the one not used for longest is forgotten."""

_USER_BYTES: Final = 4
_Steps = Generator[bytearray, Buffer, bytes]
_GroupKey = tuple[Identifier, Identifier, Identifier]


class _Refused(Exception):
    """The broker says no."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Dialogue:
    """Of one connection."""

    def __init__(self, client: bytes) -> None:
        """`client` is its id in 0.11: 16 random bytes."""
        self._client = client
        self._session = 0  # number; 0: not logged in
        self._requests = 0  # that have a number of their own
        self._last: dict[_GroupKey, int] = {}  # partition that was read last
        self._is_v06 = False  # messages are laid out as up to 0.6; a login or a send tells

    def serve(self, request: Buffer) -> _Steps:
        """One whole request of the client; see above."""
        code = frames.request_code(request)
        try:
            if code not in frames.COMMANDS:
                return frames.encode_error(ErrorCode.INVALID_COMMAND)
            answer = self._HANDLERS.get(Command(code), Dialogue._plain)
            payload = yield from answer(self, Command(code), request[frames.HEAD_BYTES :])
        except (_Refused, WireError) as refusal:
            return frames.encode_error(refusal.code)
        return frames.encode_reply(payload)

    def evicted(self) -> None:
        """The broker has ended the session: the next request is told."""
        self._session = 0

    # -- one request of 0.11 -------------------------------------------------------------------

    def _ask(self, command: Command, body: Buffer) -> Generator[bytearray, Buffer, memoryview]:
        """The payload of its reply. _Refused."""
        frame = self._frame(command, body)
        reply = memoryview((yield frame))
        if frame_kind(reply) == FrameKind.EVICTION:
            self._session = 0
            raise _Refused(eviction_error(EvictionHeader.decode(reply).reason))
        header = ReplyHeader.decode(reply)
        if header.status:
            raise _Refused(header.status)
        payload = reply[HEADER_BYTES:]
        if is_result_framed(header.operation, len(payload)):
            code, payload = split_result(payload)
            if code:
                raise _Refused(code)
        return payload

    def _frame(self, command: Command, body: Buffer) -> bytearray:
        operation = OPERATION_OF_COMMAND.get(command, Operation.NON_REPLICATED)
        if command in (Command.LOGIN, Command.LOGIN_WITH_TOKEN):
            operation = Operation.REGISTER
        is_read = operation == Operation.NON_REPLICATED
        number, session = self._requests + 1, self._session
        if operation == Operation.REGISTER:
            number = session = 0
        elif not is_read:
            self._requests += 1
        code = int(command) if is_read else 0
        size = HEADER_BYTES + len(body)
        header = RequestHeader(operation, self._client, size, number, session, code)
        return bytearray().join((header.encode(), body))

    # -- commands ------------------------------------------------------------------------------

    def _plain(self, command: Command, payload: Buffer) -> _Steps:
        body = yield from self._ask(command, bodies.request_body(command, payload))
        return bodies.reply_payload(command, body)

    def _login(self, command: Command, payload: Buffer) -> _Steps:
        request = bodies.login(payload)
        self._is_v06 = bodies.is_v06_login(payload)
        return self._logged_in(request)

    def _token_login(self, command: Command, payload: Buffer) -> _Steps:
        return self._logged_in(bodies.token_login(payload))

    def _logged_in(self, request: Login | LoginWithToken) -> _Steps:
        body = yield from self._ask(request.command, request.encode())
        self._session = LoginReply.decode(body).session
        return bytes(body[:_USER_BYTES])

    def _logout(self, command: Command, payload: Buffer) -> _Steps:
        if not self._session:
            raise _Refused(ErrorCode.UNAUTHENTICATED)
        yield from self._ask(command, b"")
        self._session = 0
        self._last.clear()
        return b""

    def _not_clustered(self, command: Command, payload: Buffer) -> _Steps:
        raise _Refused(ErrorCode.FEATURE_UNAVAILABLE)
        yield  # as all of them it is a generator

    def _flush(self, command: Command, payload: Buffer) -> _Steps:
        """What was acknowledged is with the kernel. That it is on the disk nobody has asked for."""
        if FlushUnsavedBuffer.decode(payload).fsync:
            raise _Refused(ErrorCode.FEATURE_UNAVAILABLE)
        yield from self._ask(Command.GET_ME, b"")  # is anybody logged in?
        return b""

    def _send(self, command: Command, payload: Buffer) -> _Steps:
        sent = messages.Sent.decode(payload)
        self._is_v06 = sent.is_v06
        for request in sent.requests():
            yield from self._ask(command, request.encode())
        return b""

    def _poll(self, command: Command, payload: Buffer) -> _Steps:
        request = PollMessages.decode(payload)
        if request.consumer.kind != ConsumerKind.GROUP:
            return self._polled((yield from self._ask(command, payload)))
        key = (request.stream, request.topic, request.consumer.id)
        for _ in range(2):  # once more when a partition went to somebody else just now
            partition = request.partition_id
            if partition is None:
                partition = yield from self._next_partition(key)
            if partition is None:
                break
            asked = msgspec.structs.replace(request, partition_id=partition)
            body = yield from self._ask(command, asked.encode())
            if Polled.decode(body).partition_id != PARTITION_NOT_OWNED:
                self._remember(key, partition)
                return self._polled(body)
        return messages.empty_poll()

    def _polled(self, body: Buffer) -> bytes:
        return messages.polled_payload(body, is_v06=self._is_v06)

    def _next_partition(self, key: _GroupKey) -> Generator[bytearray, Buffer, int | None]:
        """Of those that this member has the one whose turn it is; None if it has none."""
        body = yield from self._ask(Command.SYNC_CONSUMER_GROUP, SyncConsumerGroup(*key).encode())
        mine = sorted(GroupAssignment.decode(body).partitions) if len(body) else []
        last = self._last.get(key, -1)
        return next((one for one in mine if one > last), mine[0] if mine else None)

    def _remember(self, key: _GroupKey, partition: int) -> None:
        self._last.pop(key, None)
        self._last[key] = partition
        if len(self._last) > GROUPS_MAX:
            del self._last[next(iter(self._last))]

    def _store_offset(self, command: Command, payload: Buffer) -> _Steps:
        return self._offset(StoreConsumerOffset.decode(bodies.request_body(command, payload)))

    def _delete_offset(self, command: Command, payload: Buffer) -> _Steps:
        return self._offset(DeleteConsumerOffset.decode(bodies.request_body(command, payload)))

    def _get_offset(self, command: Command, payload: Buffer) -> _Steps:
        return self._offset(GetConsumerOffset.decode(payload))

    def _offset(
        self, request: StoreConsumerOffset | DeleteConsumerOffset | GetConsumerOffset
    ) -> _Steps:
        """Without a partition, that is the first one, and for a member the one it read last."""
        if request.partition_id is None:
            partition = self._read_last(request.consumer, request.stream, request.topic)
            request = msgspec.structs.replace(request, partition_id=partition)
        return bytes((yield from self._ask(request.command, request.encode())))

    def _read_last(self, consumer: Consumer, stream: Identifier, topic: Identifier) -> int:
        if consumer.kind != ConsumerKind.GROUP:
            return 0
        return self._last.get((stream, topic, consumer.id), 0)

    _HANDLERS: Final[dict[Command, Callable[[Dialogue, Command, Buffer], _Steps]]] = {
        Command.LEGACY_LOGIN: _login,
        Command.LEGACY_LOGIN_WITH_TOKEN: _token_login,
        Command.LOGOUT: _logout,
        Command.GET_CLUSTER_METADATA: _not_clustered,
        Command.FLUSH_UNSAVED_BUFFER: _flush,
        Command.SEND_MESSAGES: _send,
        Command.POLL_MESSAGES: _poll,
        Command.STORE_CONSUMER_OFFSET: _store_offset,
        Command.DELETE_CONSUMER_OFFSET: _delete_offset,
        Command.GET_CONSUMER_OFFSET: _get_offset,
    }
