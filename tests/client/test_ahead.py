"""The client that asks before it takes the answer, against a scripted server."""

from collections.abc import Iterable, Iterator

import pytest

from iggy_client import ClientError, LinkError, calls
from iggy_client.ahead import AheadClient
from iggy_client.session import Call
from iggy_wire.dialect import P11
from iggy_wire.errors import ErrorCode
from iggy_wire.header import RequestHeader, encode_reply
from iggy_wire.primitives import Consumer, PollingStrategy
from iggy_wire.replies import Polled
from iggy_wire.requests import PollMessages, decode_request
from scripted_server import HangUp, ScriptedServer, after_login, polite


def answer(header: RequestHeader, body: bytes) -> Iterable[bytes]:
    """A poll is answered with the partition that it names."""
    request = decode_request(P11, header, body)
    if not isinstance(request, PollMessages):
        return polite(header, body)
    return [encode_reply(header, Polled(request.partition_id or 0, 1, 0, b"").encode())]


def poll(partition: int) -> Call[Polled]:
    return calls.poll(
        "s", "t", partition,
        consumer=Consumer.plain("me"), strategy=PollingStrategy.first(), count=1, auto_commit=False,
    )  # fmt: skip


@pytest.fixture
def client(server: ScriptedServer) -> Iterator[AheadClient]:
    server.answer = answer
    with AheadClient.connect(server.address, "iggy", "iggy", reuse_memory=True) as connected:
        yield connected


def test_an_answer_is_taken_later(server: ScriptedServer, client: AheadClient) -> None:
    for partition in (1, 2, 3):
        later = client.ask(poll(partition))
        assert later().partition_id == partition

    assert len(server.seen) == 4


def test_what_is_asked_meanwhile_gets_its_own_answer(
    server: ScriptedServer, client: AheadClient
) -> None:
    first = client.ask(poll(1))
    assert client.call(poll(2)).partition_id == 2
    second, third = client.ask(poll(3)), client.ask(poll(4))

    assert third().partition_id == 4
    assert (first().partition_id, second().partition_id) == (1, 3)
    assert len(server.seen) == 1 + 4 + 2, "what was thrown away was sent again"


def test_a_refusal_is_told_when_the_answer_is_taken(
    server: ScriptedServer, client: AheadClient
) -> None:
    code = ErrorCode.TOPIC_ID_NOT_FOUND
    server.answer = after_login(lambda header: encode_reply(header, status=code))
    later = client.ask(poll(1))

    with pytest.raises(ClientError) as refused:
        later()
    assert refused.value.code == code
    server.answer = answer
    assert client.call(poll(2)).partition_id == 2


def test_a_lost_connection_is_told_when_the_answer_is_taken(
    server: ScriptedServer, client: AheadClient
) -> None:
    def hang_up(header: RequestHeader, body: bytes) -> Iterable[bytes]:
        raise HangUp

    server.answer = hang_up
    later = client.ask(poll(1))
    with pytest.raises(LinkError, match="closed the connection"):
        later()
    assert not client.is_open

    server.answer = answer
    client.reconnect()
    later = client.ask(poll(2))
    client.reconnect()
    assert later().partition_id == 2, "asked again on the new connection"
