"""Both clients against a scripted server: what they send, and what they make of every answer."""

import inspect

import pytest

from both_clients import Clients
from iggy_client import (
    AsyncClient,
    Client,
    ClientError,
    LinkError,
    SessionLostError,
    messages,
)
from iggy_wire import kernel
from iggy_wire.batch import Message, build
from iggy_wire.codes import Operation
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import (
    ZERO_16,
    EvictionReason,
    encode_eviction,
    encode_reply,
)
from iggy_wire.primitives import Consumer, Identifier, Partitioning, PollingStrategy
from iggy_wire.replies import Polled, Stream, confirmation_bytes, rejection_bytes, success_bytes
from iggy_wire.requests import (
    CreateTopic,
    Login,
    LoginWithToken,
    PollMessages,
    SendMessages,
)
from scripted_server import ScriptedServer, after_login, polite

BATCH = bytes(build([Message(b"one", id=1), Message(b"two", id=2)], origin_timestamp_us=5))


def test_a_login_says_who_and_which_version(server: ScriptedServer, clients: Clients) -> None:
    clients.connect(server.address)

    (header, body) = server.seen[0]
    assert (header.operation, header.request, header.session) == (Operation.REGISTER, 0, 0)
    assert header.client != ZERO_16
    assert header.request_checksum == kernel.xxh3_64(body).to_bytes(16, "little")
    assert server.requests() == [Login(11264, "iggykube", "0.1.0", "iggy", "iggy")]


def test_reads_do_not_spend_request_numbers(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    client.ping()
    client.get_topic("s", "t")
    client.delete_stream("s")
    client.ping()
    client.store_offset("me", "s", "t", 0, 5)
    client.ping()

    numbers = [header.request for header, _ in server.seen[1:]]
    assert numbers == [1, 1, 1, 2, 2, 3]
    assert {header.session for header, _ in server.seen[1:]} == {7}
    stamped = [header.request_checksum != ZERO_16 for header, _ in server.seen[1:]]
    assert stamped == [False, False, True, False, False, False]


def test_a_batch_travels_unchanged(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, confirmation_bytes(1, 2, 3, 9)))

    assert client.send_batch("s", 2, 3, BATCH) == 9

    target = (Identifier("s"), Identifier(2), Partitioning.partition(3))
    assert server.requests()[1:] == [SendMessages(*target, 2, BATCH)]


def test_messages_become_a_batch_with_ids(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, confirmation_bytes(1, 2, 0, 9)))

    confirmed = client.send("s", "t", Partitioning.key("k"), [Message(b"x"), Message(b"y", id=5)])

    sent = server.requests()[1]
    assert isinstance(sent, SendMessages)
    assert kernel.verify(sent.batch) == 0
    decoded = list(messages(Polled(0, 0, 2, sent.batch)))
    assert [message.payload for message in decoded] == [b"x", b"y"]
    assert decoded[0].id
    assert decoded[1].id == 5
    assert (confirmed.partition_id, confirmed.base_offset) == (0, 9)


def test_a_large_batch_is_sent_whole(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, confirmation_bytes(1, 2, 3, 9)))
    large = bytes(build([Message(bytes(20_000_000), id=1)], origin_timestamp_us=5))

    client.send_batch("s", "t", 0, large)

    assert server.seen[1][1].endswith(large)


def test_a_poll_gives_whole_batches_that_stay(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(
        lambda header: encode_reply(header, Polled(4, 11, 2, BATCH).encode())
    )

    strategy = PollingStrategy.offset(10)
    polled = client.poll("s", "t", 4, consumer="me", strategy=strategy, count=2, auto_commit=True)
    client.poll("s", "t", 4, count=1)

    assert (polled.partition_id, polled.current_offset, polled.count) == (4, 11, 2)
    assert bytes(polled.region) == BATCH
    assert [message.payload for message in messages(polled)] == [b"one", b"two"]
    target = (Identifier("s"), Identifier("t"), 4)
    assert server.requests()[1:] == [
        PollMessages(Consumer.plain("me"), *target, strategy, 2, True),
        PollMessages(Consumer.plain(0), *target, PollingStrategy.next(), 1, False),
    ]


def test_options_go_out_sorted_and_typed(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, status=5))

    with pytest.raises(ClientError):
        client.create_topic("s", "t", 3, {"segment_size": 1 << 20, "durability": "persisted"})

    request = server.requests()[1]
    assert isinstance(request, CreateTopic)
    told = [(option.key, option.get()) for option in request.options]
    assert told == [("durability", "persisted"), ("segment_size", 1 << 20)]


def test_what_is_absent_is_none(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)

    assert client.get_stream("s") is None
    assert client.get_topic("s", "t") is None
    assert client.get_group("s", "t", "g") is None
    assert client.get_offset(1, "s", "t", 0) is None


def test_a_payload_behind_the_result_section_is_read(
    server: ScriptedServer, clients: Clients
) -> None:
    stream = Stream(3, 4, 0, 0, 0, "shop")
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, success_bytes(stream.encode())))

    assert client.create_stream("shop") == stream


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_ID_NOT_FOUND, 64_999])
def test_a_refusal_by_status_names_what_was_asked(
    server: ScriptedServer, clients: Clients, code: int
) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, status=code))

    with pytest.raises(ClientError, match="poll_messages stream=shop topic=orders") as refusal:
        client.poll("shop", "orders", 0, count=1)

    assert refusal.value.code == code
    assert str(code) in str(refusal.value)
    assert client.is_open


def test_a_refusal_in_the_result_section(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    server.answer = after_login(lambda header: encode_reply(header, rejection_bytes(1012)))

    with pytest.raises(ClientError, match=r"name=shop.*choose another name") as refusal:
        client.create_stream("shop")

    assert refusal.value.code == ErrorCode.STREAM_NAME_ALREADY_EXISTS


def test_a_refused_login_keeps_the_connection(server: ScriptedServer, clients: Clients) -> None:
    client = clients.open(server.address)
    server.answer = lambda header, _: [
        encode_eviction(header.client, EvictionReason.INVALID_CREDENTIALS)
    ]

    with pytest.raises(ClientError, match="check username and password") as refusal:
        client.login("iggy", "wrong-secret")

    assert refusal.value.code == ErrorCode.INVALID_CREDENTIALS
    assert "wrong-secret" not in str(refusal.value)
    server.answer = polite
    assert client.login("iggy", "iggy").session == 7


def test_an_incompatible_server_says_which_versions_it_takes(
    server: ScriptedServer, clients: Clients
) -> None:
    server.answer = lambda header, _: [
        encode_eviction(
            header.client,
            EvictionReason.INCOMPATIBLE_PROTOCOL,
            version_min=12290,
            version_max=12291,
        )
    ]

    with pytest.raises(ClientError, match=r"0\.11\.0, the server 0\.12\.2 to 0\.12\.3"):
        clients.connect(server.address)


def test_an_evicted_session_closes_and_reconnects(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)
    client.delete_stream("s")
    server.answer = after_login(
        lambda header: encode_eviction(header.client, EvictionReason.STALE_CLIENT)
    )

    with pytest.raises(SessionLostError, match="reconnect") as lost:
        client.ping()
    assert lost.value.code == ErrorCode.STALE_CLIENT
    assert not client.is_open
    with pytest.raises(LinkError, match="reconnect"):
        client.ping()

    server.answer = polite
    client.reconnect()
    client.delete_stream("s")

    first, again = server.seen[0][0], server.seen[-2][0]
    assert again.operation == Operation.REGISTER
    assert again.client != first.client
    assert server.seen[-1][0].request == 1


def test_logging_in_as_someone_else_logs_out_first(
    server: ScriptedServer, clients: Clients
) -> None:
    client = clients.connect(server.address)

    client.login_with_token("a-token")
    client.logout()

    operations = [header.operation for header, _ in server.seen]
    assert operations == [1, 3, 1, 3]
    assert isinstance(server.requests()[2], LoginWithToken)
    assert server.seen[0][0].client != server.seen[2][0].client


def test_a_value_that_does_not_fit_is_refused_before_it_is_sent(
    server: ScriptedServer, clients: Clients
) -> None:
    client = clients.connect(server.address)

    with pytest.raises(WireError, match="stream name"):
        client.create_stream("x" * 256)
    with pytest.raises(WireError, match="batch"):
        client.send_batch("s", "t", 0, b"short")

    assert len(server.seen) == 1
    client.ping()


def test_memory_may_be_reused(server: ScriptedServer) -> None:
    server.answer = after_login(
        lambda header: encode_reply(header, Polled(0, 1, 2, BATCH * 1000).encode())
    )
    with Client.connect(server.address, "iggy", "iggy", reuse_memory=True) as client:
        first = client.poll("s", "t", 0, count=1).region
        second = client.poll("s", "t", 0, count=1).region

        assert isinstance(first, memoryview)
        assert isinstance(second, memoryview)
        assert first.obj is second.obj
        assert bytes(second) == BATCH * 1000


def test_both_clients_offer_the_same() -> None:
    own = {"open", "connect"}  # how each is made
    offered = {
        kind: {
            name: list(inspect.signature(value).parameters)
            for name, value in vars(kind).items()
            if callable(value) and not name.startswith("_") and name not in own
        }
        for kind in (Client, AsyncClient)
    }

    assert offered[Client] == offered[AsyncClient]


def test_a_call_costs_one_frame_each_way(server: ScriptedServer, clients: Clients) -> None:
    client = clients.connect(server.address)

    for _ in range(50):
        client.ping()

    assert len(server.seen) == 51
    assert all(len(body) == 0 for _, body in server.seen[1:])
