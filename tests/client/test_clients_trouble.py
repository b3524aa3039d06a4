"""Both clients against a server that refuses, lies, hangs up or is not there."""

import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from both_clients import Clients
from iggy_client import (
    ClientError,
    LinkError,
    LinkTimeoutError,
    SessionLostError,
    session,
)
from iggy_wire.batch import Message, build
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    ReplyHeader,
    RequestHeader,
    encode_reply,
)
from iggy_wire.replies import Polled, rejection_bytes, success_bytes
from iggy_wire.requests import (
    StoreConsumerOffset,
)
from scripted_server import HangUp, ScriptedServer, after_login, polite

BATCH = bytes(build([Message(b"one", id=1), Message(b"two", id=2)], origin_timestamp_us=5))


def test_a_transient_refusal_is_sent_again_as_it_was(
    server: ScriptedServer, clients: Clients
) -> None:
    client = clients.connect(server.address)
    refusals = iter(
        [
            lambda header: encode_reply(header, rejection_bytes(57)),
            lambda header: encode_reply(header, status=58),
            lambda header: encode_reply(header, success_bytes()),
        ]
    )
    server.answer = lambda header, _: [next(refusals)(header)]

    client.store_offset("me", "s", "t", 0, 5)

    assert server.seen[1] == server.seen[2] == server.seen[3]
    assert isinstance(server.requests()[1], StoreConsumerOffset)


def test_a_transient_refusal_is_not_repeated_for_ever(
    server: ScriptedServer, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(session._RETRY_TIME_S, ErrorCode.TRANSIENT_NOT_ACCEPTED, 0.12)
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, status=58))

    with pytest.raises(ClientError, match="TRANSIENT_NOT_ACCEPTED"):
        client.delete_stream("s")

    assert 3 <= len(server.seen) <= 5


def reply_to_another(header: RequestHeader) -> bytes:
    other = RequestHeader(header.operation, header.client, request=header.request + 1)
    return encode_reply(other)


@pytest.mark.parametrize(
    ("nonsense", "told"),
    [
        (reply_to_another, "answered request 2 instead of 1"),
        (lambda header: encode_reply(header, operation=99), "unknown operation 99"),
        (bytes(48) + b"\x00\x01" + bytes(10) + b"\x05" + bytes(195), "frame of kind 5"),
        (b"HTTP/1.1 400 Bad Request\r\n" + bytes(300), "frame size"),
        (
            lambda header: ReplyHeader(2, header.client, size=(64 << 20) + 1).encode(),
            "frame size: 256 to 67108864",
        ),
    ],
    ids=["other request", "unknown operation", "a request", "not iggy", "too large"],
)
def test_nonsense_closes_the_link(
    server: ScriptedServer, clients: Clients, nonsense: Any, told: str
) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(nonsense)

    with pytest.raises(LinkError, match=told):
        client.ping()

    assert not client.is_open


def test_a_reply_that_does_not_decode_is_a_wire_error(
    server: ScriptedServer, clients: Clients
) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, b"short"))

    with pytest.raises(WireError, match="stats"):
        client.get_stats()

    assert client.is_open


def test_a_server_that_hangs_up_is_a_link_error(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)

    def hang_up(header: RequestHeader, body: bytes) -> Iterable[bytes]:
        raise HangUp

    server.answer = hang_up
    with pytest.raises(LinkError, match=r"closed|broke"):
        client.ping()

    server.answer = polite
    client.reconnect()
    client.ping()


def test_a_silent_server_is_a_timeout(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address, timeout_s=0.2)
    server.answer = after_login()

    with pytest.raises(LinkTimeoutError, match=r"did not answer within 0\.2 s") as timeout:
        client.ping()

    assert isinstance(timeout.value, ConnectionError)
    assert isinstance(timeout.value, TimeoutError)
    assert not client.is_open


def test_a_reply_in_pieces_is_put_together(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    region = BATCH * 2000

    def pieces(header: RequestHeader, body: bytes) -> Iterable[bytes]:
        frame = encode_reply(header, Polled(0, 1, 4000, region).encode())
        for at in range(0, 3000, 100):
            yield frame[at : at + 100]
        yield frame[3000:]

    server.answer = pieces
    polled = client.poll("s", "t", 0, count=4000)

    assert bytes(polled.region) == region


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:x", "h:70000"])
def test_a_bad_address_is_named(clients: Clients, address: str) -> None:
    with pytest.raises(ValueError, match="address: must be HOST:PORT"):
        clients.open(address)


def test_nobody_there(clients: Clients) -> None:
    with ScriptedServer() as server:
        address = server.address

    with pytest.raises(LinkError, match="cannot connect"):
        clients.open(address)


def test_errors_travel_between_processes() -> None:
    for error in (ClientError(1009, "get_topic"), SessionLostError(30, "ping")):
        copied = pickle.loads(pickle.dumps(error))

        assert type(copied) is type(error)
        assert str(copied) == str(error)
