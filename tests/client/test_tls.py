"""Both clients through TLS that ends in front of a real broker."""

import re
import socket
import threading
from collections.abc import Iterator
from itertools import count

import pytest

from both_clients import Clients
from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_client import LinkError, LinkTimeoutError, Tls, messages
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning, PollingStrategy
from tls_front import Authority, TlsFront, authority, tls_front

STREAMS = count()
NAME = "iggy.example"
LARGE = 3 << 20  # more than one record, and more than one read


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker"), shards=1) as running:
        yield running


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("known"), NAME, "127.0.0.1")


@pytest.fixture(scope="module")
def front(broker: BrokerProcess, known: Authority) -> Iterator[TlsFront]:
    with tls_front(broker.address, known) as running:
        yield running


@pytest.fixture(params=["blocking", "async"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made = Clients(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("name", ["", NAME], ids=["by address", "by name"])
def test_messages_of_any_size_go_both_ways_and_a_connection_is_made_anew(
    clients: Clients, front: TlsFront, known: Authority, name: str
) -> None:
    client = clients.open(front.address, tls=Tls(known.pem, name))
    client.login(USERNAME, PASSWORD)
    stream = f"stream {next(STREAMS)}"
    client.create_stream(stream)
    client.create_topic(stream, "t", 1)
    sent = [b"small", bytes(LARGE), b"last"]

    client.send(stream, "t", Partitioning.partition(0), [Message(part) for part in sent])
    client.reconnect()
    polled = client.poll(stream, "t", 0, strategy=PollingStrategy.offset(0), count=10)

    assert [message.payload for message in messages(polled)] == sent
    assert client.is_open


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        (Tls(), "self.signed"),
        (Tls(server_name="other.example"), "self.signed|not valid for"),
        (Tls("-----BEGIN NOTHING"), "no certificate"),
    ],
    ids=["unknown authority", "unknown authority and name", "no certificate"],
)
def test_a_server_that_cannot_be_trusted_is_not_talked_to(
    clients: Clients, front: TlsFront, tls: Tls, words: str
) -> None:
    before = front.connections

    with pytest.raises(LinkError, match=words):
        clients.open(front.address, tls=tls)

    assert front.connections == before, "nobody has logged in"


def test_a_certificate_of_another_name_is_refused(
    clients: Clients, front: TlsFront, known: Authority
) -> None:
    with pytest.raises(LinkError, match=r"other\.example.*the name that it is for"):
        clients.open(front.address, tls=Tls(known.pem, "other.example"))


def test_a_server_without_tls_is_said_to_be_one(
    clients: Clients, broker: BrokerProcess, known: Authority
) -> None:
    with pytest.raises(LinkError, match="does the server speak TLS"):
        clients.open(broker.address, tls=Tls(known.pem))


def test_a_server_that_never_shakes_hands_costs_no_more_than_the_time_limit(
    clients: Clients, known: Authority
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())

        with pytest.raises(LinkTimeoutError, match=re.escape(address)):
            clients.open(address, timeout_s=0.2, tls=Tls(known.pem))


def test_a_reply_that_never_comes_is_a_timeout(clients: Clients, known: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        held: list[socket.socket] = []
        accepting = threading.Thread(target=lambda: held.append(mute.accept()[0]))
        accepting.start()
        with tls_front("{}:{}".format(*mute.getsockname()), known) as front:
            client = clients.open(front.address, timeout_s=0.3, tls=Tls(known.pem))
            with pytest.raises(LinkTimeoutError, match="did not answer"):
                client.ping()
            accepting.join()
        for connection in held:
            connection.close()
