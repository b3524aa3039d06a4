"""What the pre-release client of 0.12 sent to a throwaway server, played to our broker.

The answers that it took then were made up, so only this is compared: whether each request succeeds,
what fails and how, that the reply has the layout of its command, and what it echoes. What our
broker gives out itself (session, incarnations of partitions) is put into the requests first.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from broker_process import running_broker
from iggy_wire.codes import Command, Operation, is_result_framed
from iggy_wire.dialect import P12_0
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    HEADER_BYTES,
    EvictionReason,
    PartitionContext,
    ReplyHeader,
    RequestHeader,
    frame_kind,
    outcome,
)
from iggy_wire.replies import LoginReply
from iggy_wire.replies_p12 import TopicDetails
from iggy_wire.requests import command_of
from iggy_wire.requests_p12 import BindSession
from iggy_wire.results import split_result
from raw_frames import RawClient
from recorded import Exchange, exchanges

EVICTED = 13
# The throwaway server let read who was in no group.
OTHERWISE = {"p12/040_poll_group_not_member": "CONSUMER_GROUP_PARTITION_NOT_OWNED"}
# A second connection, with a token of that server.
ELSEWHERE = ("p12/056", "p12/057", "p12/058")


def told(request: RequestHeader, reply: bytes) -> str:
    """Success or the name of an error; the body of a success has the layout of its command."""
    if frame_kind(reply) == EVICTED:
        return EvictionReason(reply[HEADER_BYTES - 1]).name
    header, body = ReplyHeader.decode(reply), memoryview(reply)[HEADER_BYTES:]
    if header.status:
        return ErrorCode(header.status).name
    if is_result_framed(header.operation, len(body)):
        code, body = split_result(body)
        if code:
            return ErrorCode(code).name
    if body:
        assert P12_0.replies[command_of(request)].decode(body).encode() == body
    return "success"


class Player:
    """Plays one connection after the other to the broker."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.client = RawClient(port)
        self.session = self.incarnation = 0

    def play(self, one: Exchange) -> tuple[RequestHeader, bytes]:
        assert one.request is not None
        header, body = RequestHeader.decode(one.request), one.request[HEADER_BYTES:]
        if header.code == Command.BIND_SESSION:
            self.client.socket.close()
            self.client = RawClient(self.port)
            bind = BindSession.decode(body)
            body = msgspec.structs.replace(bind, session=self.session).encode()
        if header.session:
            header = msgspec.structs.replace(header, session=self.session)
        context = PartitionContext.of_request(one.request)
        if context.incarnation:
            context = context._replace(incarnation=self.incarnation)
        self.client.send(header.encode()[:200] + context.encode() + bytes(32) + body)
        head, answer = self.client.receive_bytes()
        self._learn(header, answer)
        return header, head + answer

    def _learn(self, header: RequestHeader, answer: bytes) -> None:
        if header.operation == Operation.REGISTER and answer:
            self.session = LoginReply.decode(answer[4:]).session
        elif header.operation == Operation.CREATE_TOPIC:
            self.incarnation = TopicDetails.decode(answer[4:]).partitions[0].incarnation


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[tuple[Exchange, RequestHeader, bytes]]]:
    """Every exchange, the request that we sent, and our reply."""
    folder: Path = tmp_path_factory.mktemp("p12")
    # One shard: the recorded client asks for a connection by its number.
    with running_broker(folder, shards=1, settings={"IGGY_ROOT_PASSWORD": "iggy"}) as broker:
        player = Player(broker.tcp_port)
        chosen = [one for one in exchanges(P12_0) if not one.name.startswith(ELSEWHERE)]
        yield [(one, *player.play(one)) for one in chosen]
        player.client.socket.close()


def test_each_request_is_answered_as_the_client_expects(
    played: list[tuple[Exchange, RequestHeader, bytes]],
) -> None:
    assert len(played) == 56
    for one, request, reply in played:
        assert one.reply is not None
        expected = OTHERWISE.get(one.name) or told(request, one.reply)
        try:
            assert told(request, reply) == expected, one.name
        except WireError as wrong:
            pytest.fail(f"{one.name}: {wrong}")


def test_what_a_client_checks_in_each_reply(
    played: list[tuple[Exchange, RequestHeader, bytes]],
) -> None:
    for one, request, reply in played:
        assert one.reply is not None
        if frame_kind(reply) == EVICTED:
            continue
        header, theirs = ReplyHeader.decode(reply), ReplyHeader.decode(one.reply)
        committed, incarnation = outcome(reply)

        assert committed == outcome(one.reply)[0], one.name
        assert (header.client, header.request) == (request.client, request.request)
        assert header.request_checksum == request.request_checksum
        assert header.size == len(reply)
        if committed:
            assert header.op == header.commit > 0
            asked = {request.operation, theirs.operation}
            assert header.operation in asked, "as it is, or as the server logs it"
        if outcome(one.reply)[1] and not header.status:
            assert incarnation > 0, one.name
