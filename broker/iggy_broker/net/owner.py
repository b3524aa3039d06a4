"""What a shard does for the others: serve the frames and changes that come over its links."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata.replica import Follower, Writer
from iggy_broker.net import dispatch
from iggy_broker.net.context import Context, Services
from iggy_broker.net.handlers import messages
from iggy_broker.net.handlers.fetching import fetch
from iggy_broker.net.handlers.messages import whole
from iggy_broker.net.handlers.offsets import PARTITION_COMMANDS
from iggy_broker.net.late_polls import poll_late
from iggy_broker.net.observer import QUESTION as OBSERVE
from iggy_broker.net.outbox import Part
from iggy_broker.net.peers import POLL_REPLY_BYTES_MAX
from iggy_broker.net.session import Session
from iggy_broker.net.targets import ReadTarget, Target, owned_target, poll_target
from iggy_broker.net.waiting import answer
from iggy_broker.storage.older import NotHere
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import HEADER_BYTES, RequestHeader, encode_reply_header
from iggy_wire.replies_p12 import POLL_HEAD_BYTES
from iggy_wire.replies_waiting import sections_bytes
from iggy_wire.requests import PollMessages
from iggy_wire.requests_waiting import FetchMessages, PollMessagesDeferred

_POLLS = (Command.POLL_MESSAGES, Command.POLL_MESSAGES_DEFERRED, Command.FETCH_MESSAGES)


class ShardOwner:
    """Serves the partitions of this shard, and its copy of the metadata, to the other shards."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        """For all links of one shard."""
        self._services = services

    async def answer_question(self, question: bytes) -> bytes:
        """Another shard asks about the sessions of this one, or shard 0 for a scrape."""
        if question == OBSERVE:
            return await self._services.observer.answer()
        if self._services.http.hear(question):
            return b""
        return await self._services.clients.answer(question)

    def serve_frame(
        self, packed: int, incarnation: int, frame: memoryview
    ) -> Sequence[Part] | asyncio.Future[bytes]:
        """Serve a client's frame that another shard checked and resolved."""
        header = RequestHeader.decode(frame)
        session = Session(client_number=0, address="")
        session.number = header.session
        context = Context(self._services, session, header)
        try:
            target = self._owned(packed, incarnation, header)
            if header.operation == Operation.SEND_MESSAGES:
                return self._send(target, header, frame)
            if header.operation == Operation.NON_REPLICATED and header.code in _POLLS:
                return self._poll(context, target, frame)
        except Reject as refusal:
            return (dispatch.refuse(context, refusal),)
        return asyncio.ensure_future(self._serve_offsets(context, target, bytes(frame)))

    def watch(self, packed: int, incarnation: int, wish: bytes) -> asyncio.Future[int]:
        """Tell how many messages a partition has for a poll, once they are enough."""
        return answer(owned_target(self._services, packed, incarnation), wish)

    async def serve_wish(self, request: bytes) -> bytes:
        """Shard 0: make the change that a client of another shard asked for."""
        writer = self._services.replica
        assert isinstance(writer, Writer), "only shard 0 is asked for changes"
        return await writer.serve(request)

    async def apply_change(self, record: bytes) -> None:
        """Other shards: follow shard 0."""
        follower = self._services.replica
        assert isinstance(follower, Follower), "shard 0 is told of no changes"
        await follower.follow(record)

    def _owned(self, packed: int, incarnation: int, header: RequestHeader) -> Target:
        target = owned_target(self._services, packed, incarnation)
        if target is None:
            raise Deny(_gone(header), "the partition was deleted while the frame was on its way")
        return target

    def _send(
        self, target: Target, header: RequestHeader, frame: memoryview
    ) -> Sequence[Part] | asyncio.Future[bytes]:
        partition = target.partition
        assert partition is not None, "an owned target has its partition"
        start = messages.batch_start(frame)
        base_offset = messages.store(self._services, target, frame, start)
        reply = messages.send_reply(target, base_offset, header.client, header.request)
        if not partition.must_wait:
            return (reply,)
        return asyncio.ensure_future(_after(partition.wait_durable(), reply))

    def _poll(
        self, context: Context, target: Target, frame: memoryview
    ) -> Sequence[Part] | asyncio.Future[bytes]:
        code, body = context.header.code, frame[HEADER_BYTES:]
        bytes_max = POLL_REPLY_BYTES_MAX
        try:
            if code == Command.FETCH_MESSAGES:
                return self._fetch(context, target, FetchMessages.decode(body))
            if code == Command.POLL_MESSAGES_DEFERRED:
                deferred = PollMessagesDeferred.decode(body)
                request, bytes_max = (
                    deferred.poll,
                    min(bytes_max, deferred.max_bytes - POLL_HEAD_BYTES),
                )
            else:
                request = PollMessages.decode(body)
        except WireError as malformed:
            raise Reject(malformed.code, malformed.detail) from None
        try:
            parts, read, tail = self._polled(context.header, target, request, bytes_max)
        except NotHere as missing:
            packed, incarnation = target.packed, target.incarnation

            def again() -> tuple[Sequence[Part], ReadTarget, messages.PollTail]:
                there = self._owned(packed, incarnation, context.header)
                return self._polled(context.header, there, request, bytes_max)

            return asyncio.ensure_future(_whole(poll_late(context, again, missing)))
        durable = messages.commit_wait(read, tail)
        return parts if durable is None else asyncio.ensure_future(_after(durable, whole(parts)))

    def _polled(
        self, header: RequestHeader, target: Target, request: PollMessages, bytes_max: int
    ) -> tuple[Sequence[Part], ReadTarget, messages.PollTail]:
        read = self._read_target(header, target, request)
        tail = (request.strategy, request.count, request.auto_commit)
        # The other shard holds the reply in memory until the client has taken it.
        parts = messages.poll(self._services, read, tail, header, bytes_max=bytes_max)
        return parts, read, tail

    def _read_target(
        self, header: RequestHeader, target: Target, request: PollMessages
    ) -> ReadTarget:
        read = poll_target(self._services, request, header.session)
        if read.target is not None and read.target.packed != target.packed:
            # A rename met the frame on its way. The other shard permitted the first one only.
            raise Deny(_gone(header), "another partition has this name by now")
        return read

    def _fetch(
        self, context: Context, target: Target, request: FetchMessages
    ) -> Sequence[Part] | asyncio.Future[bytes]:
        """A fetch of one partition; the other shard puts several together."""
        (one,) = request.targets
        poll = PollMessages(
            request.consumer, request.stream, request.topic, one.partition_id, one.strategy,
            request.count, request.auto_commit,
        )  # fmt: skip
        read = self._read_target(context.header, target, poll)
        if read.key is None:
            raise Reject(ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED, "sync the group again")
        tail = (one.strategy, request.count, request.auto_commit)
        section, batches = fetch(
            self._services, read, tail, min(one.max_bytes, POLL_REPLY_BYTES_MAX)
        )
        head = sections_bytes((section,))
        header = encode_reply_header(context.header, len(head) + section.records_bytes)
        parts: list[Part] = [header + head, *batches]
        durable = messages.commit_wait(read, tail)
        return parts if durable is None else asyncio.ensure_future(_after(durable, whole(parts)))

    async def _serve_offsets(self, context: Context, target: Target, frame: bytes) -> bytes:
        row = PARTITION_COMMANDS[dispatch.command_of(context.header)]
        try:
            request = row.request.decode(frame[HEADER_BYTES:])
            return dispatch.reply(context, await row.serve(context, target, request))
        except Reject as refusal:
            return dispatch.refuse(context, refusal)


async def _whole(parts: Awaitable[Sequence[Part]]) -> bytes:
    return whole(await parts)


async def _after(durable: asyncio.Future[None], reply: bytes) -> bytes:
    await durable
    return reply


def _gone(header: RequestHeader) -> ErrorCode:
    read = header.operation == Operation.NON_REPLICATED
    return ErrorCode.PARTITION_NOT_FOUND if read else ErrorCode.RESOURCE_NOT_FOUND
