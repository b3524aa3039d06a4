"""Messages, consumer offsets and consumer groups over HTTP."""

from __future__ import annotations

from typing import Final

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.net.handlers import messages
from iggy_broker.net.http import bodies, sending, shapes
from iggy_broker.net.http.call import Call
from iggy_broker.net.http.commands import header_of
from iggy_broker.net.http.limits import POLL_BYTES_MAX
from iggy_broker.net.http.polled import polled_json
from iggy_broker.net.http.problems import NOT_FOUND, Refusal
from iggy_broker.net.http.query import BadQuery, Kind, Parameter, identifier
from iggy_broker.net.http.replies import JSON, NO_CONTENT, Reply, json_reply
from iggy_broker.net.http.routes_streams import checked_name
from iggy_broker.net.http.routing import Route, Success
from iggy_broker.net.p12 import check_life, check_owner, served_in
from iggy_broker.net.targets import ReadTarget, Target, poll_target, read_target, send_target
from iggy_broker.storage.partition import NOTHING_NEW
from iggy_wire import replies, requests
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import HEADER_BYTES, PartitionContext
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy, StrategyKind
from iggy_wire.replies_messages import POLL_HEAD_BYTES
from iggy_wire.requests_waiting import PollMessagesDeferred

_STRATEGIES: Final[dict[str, StrategyKind]] = {
    word: kind for kind in StrategyKind for word in (kind.name.lower(), kind.name[0].lower())
}
_NO_ACK: Final = "none"
_DURABILITY: Final = "iggy-durability"
_DEFAULT_CONSUMER: Final = Identifier(1)
_STREAM_OR_TOPIC: Final = (ErrorCode.STREAM_ID_NOT_FOUND, ErrorCode.TOPIC_ID_NOT_FOUND)


async def send(call: Call) -> Reply:
    """Append to one partition; confirmed when consumers see it, or at once with `ack=none`."""
    asked: bodies.OriginalSendMessages = call.body
    found = sending.check(asked)
    commands = call.app.commands
    stream, topic = call.topic()
    head = requests.SendMessages(stream, topic, _ANYWHERE, len(found), b"")
    commands.check_access(call.asker, Command.SEND_MESSAGES, head)
    where = sending.partitioning(asked.partitioning)
    batch = sending.build(found, now_us=commands.services.clock.now_us())
    chosen = send_target(commands.services, stream, topic, where)
    target = chosen if isinstance(chosen, Target) else chosen.next()
    if isinstance(asked, bodies.SendMessages) and asked.context:
        check_life(target, PartitionContext(*msgspec.structs.astuple(asked.context)))
    waits = call.query["ack"] != _NO_ACK
    if target.partition is None:
        # By number: a rename on the way must not matter.
        numbers = Identifier(target.stream_id), Identifier(target.topic_id)
        where = Partitioning.partition(target.partition_id)
        sent = requests.SendMessages(*numbers, where, len(found), b"")
        reply = await commands.forward(
            target, Command.SEND_MESSAGES, Operation.SEND_MESSAGES, sent.encode_head() + batch
        )
        confirmations = [
            shapes.Confirmation(one.stream_id, one.topic_id, one.partition_id, one.base_offset)
            for one in replies.Confirmations.decode(reply).confirmations
        ]
    else:
        confirmations = await _append(call, target, batch, len(found), waits=waits)
    if not waits:
        return Reply(202, headers=((_DURABILITY, "none"),))
    made = json_reply(shapes.Confirmations(confirmations), 201)
    return Reply(201, made.body, JSON, ((_DURABILITY, "replicated-memory"),))


async def poll(call: Call) -> Reply:
    """Messages of one partition, for a consumer of its own."""
    request = poll_of(call)
    return await read_now(call, request, poll_place(call, request))


def poll_of(call: Call) -> requests.PollMessages:
    """What the query asks for."""
    query = call.query
    strategy = PollingStrategy(_STRATEGIES[query["kind"]], query["value"])
    consumer = Consumer.plain(query["consumer_id"])
    return requests.PollMessages(
        consumer, *call.topic(), query["partition_id"], strategy, query["count"],
        query["auto_commit"],
    )  # fmt: skip


def poll_place(call: Call, request: requests.PollMessages) -> ReadTarget:
    """Where that is, if the asker may read it, in the life that the client knows, if it does."""
    commands = call.app.commands
    known = None if call.is_strict else _known(call.query["context"])
    commands.check_access(call.asker, Command.POLL_MESSAGES, request)
    try:
        read = poll_target(commands.services, request, 0)
    except Reject as refusal:
        if refusal.code in _STREAM_OR_TOPIC:
            raise Refusal(NOT_FOUND) from None
        raise
    assert read.target is not None, "only a group may have no partition"
    if known is not None:
        check_owner(read, known)
        check_life(read.target, known)
    return read


async def read_now(
    call: Call,
    request: requests.PollMessages,
    read: ReadTarget,
    deferred: PollMessagesDeferred | None = None,
) -> Reply:
    """The answer to a poll. `deferred`: one that has waited."""
    commands, target = call.app.commands, read.target
    assert target is not None, "only a group may have no partition"
    header = header_of(Command.POLL_MESSAGES, Operation.NON_REPLICATED)
    bytes_max = POLL_BYTES_MAX if deferred is None else min(POLL_BYTES_MAX, deferred.max_bytes)
    context = None if call.is_strict else served_in(commands.services.replica.state, read)
    if target.partition is None:
        asked = deferred or request
        answer = await commands.forward(
            target, asked.command, Operation.NON_REPLICATED, asked.encode()
        )
        body = memoryview(answer)
    else:
        tail = (request.strategy, request.count, request.auto_commit)
        parts = messages.poll(commands.services, read, tail, header, bytes_max=bytes_max)
        body = memoryview(messages.whole(parts))[HEADER_BYTES:]
        durable = messages.commit_wait(read, tail)
        if durable is not None:
            await durable
    polled = replies.Polled.decode(body)
    if not polled.count and not call.is_strict:
        await _check_damage(call, target, request, polled.current_offset)
    region = body[POLL_HEAD_BYTES:]
    numbers = polled.partition_id, polled.current_offset, polled.count
    return Reply(200, polled_json(*numbers, region, context), JSON)


async def store_offset(call: Call) -> Reply:
    """Of a consumer of its own."""
    body: bodies.StoreOffset = call.body
    given = body.consumer_id
    who = _DEFAULT_CONSUMER if given is None else _consumer(given)
    if body.context is not None:
        services, (stream, topic) = call.app.commands.services, call.topic()
        target = read_target(services, stream.value, topic.value, body.partition_id)
        check_life(target, PartitionContext(*msgspec.structs.astuple(body.context)))
    await call.run(
        requests.StoreConsumerOffset(
            Consumer.plain(who), *call.topic(), body.partition_id, body.offset
        )
    )
    return NO_CONTENT


async def get_offset(call: Call) -> Reply:
    """Of a consumer of its own."""
    request = requests.GetConsumerOffset(
        Consumer.plain(call.query["consumer_id"]), *call.topic(), call.query["partition_id"]
    )
    found = await call.find(request, replies.StoredOffset)
    return json_reply(
        shapes.OffsetInfo(found.partition_id, found.current_offset, found.stored_offset)
    )


async def delete_offset(call: Call) -> Reply:
    """Of a consumer of its own."""
    consumer = Consumer.plain(call.reference(2, "consumer"))
    partition_id = call.query["partition_id"]
    await call.run(requests.DeleteConsumerOffset(consumer, *call.topic(), partition_id))
    return NO_CONTENT


async def get_groups(call: Call) -> Reply:
    """All of a topic."""
    found = replies.Groups.decode(await call.run(requests.GetConsumerGroups(*call.topic())))
    return json_reply([shapes.group(one) for one in found.groups])


async def create_group(call: Call) -> Reply:
    """The new one, without members: those join over the binary protocol."""
    name = checked_name(call.body.name, ErrorCode.INVALID_CONSUMER_GROUP_NAME)
    body = await call.run(requests.CreateConsumerGroup(*call.topic(), name))
    return json_reply(shapes.group_details(replies.GroupDetails.decode(body)))


async def get_group(call: Call) -> Reply:
    """One with its members."""
    request = requests.GetConsumerGroup(*call.topic(), call.reference(2, "group"))
    return json_reply(shapes.group_details(await call.find(request, replies.GroupDetails)))


async def delete_group(call: Call) -> Reply:
    """With the offsets that it stored."""
    await call.run(requests.DeleteConsumerGroup(*call.topic(), call.reference(2, "group")))
    return NO_CONTENT


async def _append(
    call: Call, target: Target, batch: bytearray, count: int, *, waits: bool
) -> list[shapes.Confirmation]:
    partition = target.partition
    assert partition is not None, "owned here"
    base_offset = partition.append(memoryview(batch))
    counters = call.app.commands.services.counters
    counters.sends_total += 1
    counters.messages_received_total += count
    counters.bytes_received_total += len(batch)
    if waits and partition.must_wait:
        await partition.wait_durable()
    if base_offset == NOTHING_NEW:
        return []
    return [
        shapes.Confirmation(target.stream_id, target.topic_id, target.partition_id, base_offset)
    ]


def _known(text: str | None) -> PartitionContext | None:
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=bodies.PartitionContext)
    except msgspec.DecodeError as error:
        raise BadQuery(f"context: write it as in answers, as JSON: {error}") from None
    return PartitionContext(*msgspec.structs.astuple(found))


def _consumer(given: int | str) -> Identifier:
    return Identifier(given) if isinstance(given, int) else identifier(given, "consumer_id")


async def _check_damage(
    call: Call, target: Target, request: requests.PollMessages, current_offset: int
) -> None:
    """INVALID_BATCH_CHECKSUM where nothing came although there is something to come."""
    end = current_offset + 1
    if not current_offset:  # the last offset of one message, or of none
        partition = target.partition
        end = 0 if partition is None else partition.visible_next_offset
    kind, start = request.strategy.kind, 0
    if kind is StrategyKind.OFFSET:
        start = request.strategy.value
    elif kind is StrategyKind.NEXT and end:
        asked = request.consumer, request.stream, request.topic, request.partition_id
        stored = await call.run(requests.GetConsumerOffset(*asked))
        start = replies.StoredOffset.decode(stored).stored_offset + 1 if stored else 0
    # A time may lie behind all messages: nobody can tell.
    if request.count and start < end and kind is not StrategyKind.TIMESTAMP:
        detail = f"the messages from offset {start} on are damaged; see the log of the broker"
        raise Reject(ErrorCode.INVALID_BATCH_CHECKSUM, detail)


_ANYWHERE: Final = Partitioning.balanced()
_TOPIC: Final = "/streams/{stream_id}/topics/{topic_id}"
MESSAGES: Final = _TOPIC + "/messages"
_OFFSETS: Final = _TOPIC + "/consumer-offsets"
_GROUPS: Final = _TOPIC + "/consumer-groups"
_DONE: Final = Success(204)
_CONSUMER: Final = Parameter("consumer_id", Kind.NAME, "Number or name.", _DEFAULT_CONSUMER)
_PARTITION: Final = Parameter("partition_id", Kind.U32, "Number of the partition.", 0)
_ACK: Final = Parameter(
    "ack", ("replicated", _NO_ACK), "Whether the answer waits for the messages.", "replicated"
)
POLL_QUERY: Final = (
    _CONSUMER,
    _PARTITION,
    Parameter("kind", tuple(_STRATEGIES), "Where to start.", "offset"),
    Parameter("value", Kind.U64, "An offset, or a time in microseconds.", 0),
    Parameter("count", Kind.U32, "How many messages at most.", 10),
    Parameter("context", Kind.TEXT, "The `context` of an earlier answer, as JSON."),
    Parameter("auto_commit", Kind.BOOL, "Store the last offset for the consumer.", False),
)

ROUTES: Final = (
    Route("POST", MESSAGES, send, "Send messages.", Success(201, shapes.Confirmations),
          bodies.SendMessages, (_ACK,), original_body=bodies.OriginalSendMessages),
    Route("GET", MESSAGES, poll, "Poll messages.", Success(200, shapes.Polled),
          query=POLL_QUERY),
    Route("PUT", _OFFSETS, store_offset, "Store the offset of a consumer.", _DONE,
          bodies.StoreOffset),
    Route("GET", _OFFSETS, get_offset, "The stored offset of a consumer.",
          Success(200, shapes.OffsetInfo), query=(_CONSUMER, _PARTITION)),
    Route("DELETE", _OFFSETS + "/{consumer_id}", delete_offset,
          "Forget the offset of a consumer.", _DONE,
          query=(Parameter("partition_id", Kind.U32, "Number of the partition."),)),
    Route("GET", _GROUPS, get_groups, "The consumer groups of a topic.",
          Success(200, list[shapes.Group])),
    Route("POST", _GROUPS, create_group, "Create a consumer group.",
          Success(200, shapes.GroupDetails), bodies.Named),
    Route("GET", _GROUPS + "/{group_id}", get_group, "One consumer group with its members.",
          Success(200, shapes.GroupDetails)),
    Route("DELETE", _GROUPS + "/{group_id}", delete_group, "Delete a consumer group.", _DONE),
)  # fmt: skip
