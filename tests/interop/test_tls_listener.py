"""TLS of the broker's own: what the official client's test_tls.py checks, certificates that change.

That file of the official client starts its server in a container; the same things are checked here
against a broker process with a certificate of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_iggy import Consumer, IggyClient, PollingStrategy, SendMessage, TcpConfig
from cryptography.hazmat.primitives import hashes

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_client import Client, Tls, messages
from iggy_wire.batch import Message
from iggy_wire.header import ReplyHeader
from iggy_wire.primitives import Consumer as WireConsumer
from iggy_wire.primitives import Identifier, Partitioning
from iggy_wire.primitives import PollingStrategy as Strategy
from iggy_wire.requests import PollMessages
from raw_frames import RawClient
from raw_quic import raw_quic
from tls_front import Authority, authority
from v08_transports import V08WebSocket

PARTITIONS = 4  # both shards own some
LARGE = 3 << 20  # more than one record, and than a socket holds
WAIT_S = 20.0
POLLS = 24  # replies of more than all buffers hold


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"IGGY_TCP_TLS_ENABLED": "true", "IGGY_WEBSOCKET_TLS_ENABLED": "true"}
    folder, transports = tmp_path_factory.mktemp("broker"), ["websocket"]
    with running_broker(
        folder, settings=settings, monitoring=True, transports=transports
    ) as running:
        yield running


@pytest.fixture(scope="module")
def own_cert(broker: BrokerProcess) -> Path:
    return broker.data / "tls" / "self_signed_cert.pem"


def connection_string(broker: BrokerProcess, scheme: str, ca_file: Path) -> str:
    port = broker.tcp_port if scheme == "iggy+tcp" else broker.ports["websocket"]
    tls = f"tls=true&tls_domain=localhost&tls_ca_file={ca_file}"
    return f"{scheme}://{USERNAME}:{PASSWORD}@localhost:{port}?{tls}"


@pytest.mark.parametrize("scheme", ["iggy+tcp", "iggy+ws"])
def test_the_official_client_sends_and_polls_over_tls(
    broker: BrokerProcess, own_cert: Path, scheme: str
) -> None:
    stream = f"stream-{uuid.uuid4().hex[:8]}"
    texts = [*(f"tls-message-{n}" for n in range(3)), "x" * LARGE]

    async def run() -> list[str]:
        client = IggyClient.from_connection_string(connection_string(broker, scheme, own_cert))
        await client.connect()
        await client.ping()
        await client.create_stream(stream)
        assert await client.get_stream(stream) is not None
        await client.create_topic(stream, "t", partitions_count=1)
        sent = [SendMessage(text) for text in texts]
        await client.send_messages(stream=stream, topic="t", partitioning=0, messages=sent)
        polled = await client.poll_messages(
            stream=stream,
            topic="t",
            consumer=Consumer.Single(1),
            partition_id=0,
            polling_strategy=PollingStrategy.First(),
            count=10,
            auto_commit=True,
        )
        return [message.payload().decode() for message in polled]

    assert asyncio.run(run()) == texts


def test_the_official_client_without_tls_is_not_served(broker: BrokerProcess) -> None:
    async def run() -> None:
        address = f"{USERNAME}:{PASSWORD}@localhost:{broker.tcp_port}"
        client = IggyClient.from_connection_string(f"iggy+tcp://{address}")
        await asyncio.wait_for(client.connect(), timeout=2)

    with pytest.raises((RuntimeError, TimeoutError)):
        asyncio.run(run())


def test_the_official_client_that_does_not_validate_is_served(broker: BrokerProcess) -> None:
    async def run() -> None:
        config = TcpConfig(
            server_address=broker.address, tls_enabled=True, tls_validate_certificate=False
        )
        client = IggyClient(config)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        await client.get_streams()

    asyncio.run(run())


def test_a_client_up_to_0_8_is_served_by_websocket_over_tls(
    broker: BrokerProcess, own_cert: Path
) -> None:
    stream, large = f"stream-{uuid.uuid4().hex[:8]}", b"x" * LARGE
    with tls_client(broker, own_cert.read_text()) as admin:
        admin.create_stream(stream)
        admin.create_topic(stream, "t", 1)
    context = ssl.create_default_context(cafile=str(own_cert))
    with V08WebSocket(broker.ports["websocket"], context) as old:
        old.login()
        old.send(stream, "t", Partitioning.partition(0), [large, b"last"])
        polled = old.poll(stream, "t", 0, strategy=Strategy.first())
    assert [one.payload for one in polled.messages] == [large, b"last"]


def test_large_messages_go_both_ways_to_the_partitions_of_all_shards(
    broker: BrokerProcess, own_cert: Path
) -> None:
    stream = f"stream-{uuid.uuid4().hex[:8]}"
    parts = [os.urandom(LARGE), b"small", os.urandom(LARGE)]
    with tls_client(broker, own_cert.read_text()) as client:
        client.create_stream(stream)
        client.create_topic(stream, "t", PARTITIONS)
        for partition in range(PARTITIONS):
            target = Partitioning.partition(partition)
            client.send(stream, "t", target, [Message(part) for part in parts])
            polled = client.poll(stream, "t", partition, strategy=Strategy.offset(0), count=10)

            assert [message.payload for message in messages(polled)] == parts


def tls_client(broker: BrokerProcess, ca: str) -> Client:
    return Client.connect(broker.address, USERNAME, PASSWORD, tls=Tls(ca))


def test_replies_wait_for_a_client_that_does_not_read(
    broker: BrokerProcess, own_cert: Path
) -> None:
    stream, payload = f"stream-{uuid.uuid4().hex[:8]}", os.urandom(LARGE)
    with tls_client(broker, own_cert.read_text()) as client:
        client.create_stream(stream)
        client.create_topic(stream, "t", PARTITIONS)
        for partition in range(PARTITIONS):
            client.send(stream, "t", Partitioning.partition(partition), [Message(payload)])
    consumer, names = WireConsumer.plain(1), (Identifier(stream), Identifier("t"))
    context = ssl.create_default_context(cafile=str(own_cert))
    with RawClient(broker.tcp_port) as raw:
        raw.socket = context.wrap_socket(raw.socket, server_hostname="localhost")
        raw.login()
        for number in range(POLLS):
            where = (*names, number % PARTITIONS)
            raw.send(raw.frame(PollMessages(consumer, *where, Strategy.offset(0), 10)))

        for _ in range(POLLS):
            header, body = raw.receive()
            assert isinstance(header, ReplyHeader)
            assert payload in body


def served_fingerprint(broker: BrokerProcess) -> str:
    """SHA-256 of the certificate that a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", broker.tcp_port), WAIT_S) as sock,
        context.wrap_socket(sock) as wrapped,
    ):
        shown = wrapped.getpeercert(binary_form=True)
    assert shown is not None
    return hashlib.sha256(shown).hexdigest()


def fingerprint_by_quic(broker: BrokerProcess) -> str:
    async def run() -> str:
        async with raw_quic(broker.ports["quic"]) as client:
            shown = client.protocol._quic.tls._peer_certificate
            assert shown is not None
            return shown.fingerprint(hashes.SHA256()).hex()

    return asyncio.run(run())


def of_file(path: Path) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(path.read_text())).hexdigest()


def wait_for_event(broker: BrokerProcess, name: str, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while sum(record.get("event") == name for record in broker.records()) < count:
        assert time.monotonic() < deadline, broker.text()
        time.sleep(0.05)


def project(folder: Path, made: Authority, number: int) -> None:
    """As Kubernetes fills the volume of a Secret: the files are links through one link."""
    version = folder / f"..{number}"
    version.mkdir()
    (version / "tls.crt").write_bytes(made.certificate.read_bytes())
    (version / "tls.key").write_bytes(made.key.read_bytes())
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").replace(folder / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def test_a_changed_secret_counts_for_new_connections_and_a_bad_one_does_not(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    first, second, bad = (
        authority(tmp_path / name, "127.0.0.1") for name in ("first", "second", "bad")
    )
    bad.key.write_bytes(first.key.read_bytes())
    project(secret, first, 1)
    settings = {
        "IGGY_TCP_TLS_ENABLED": "true",
        "IGGY_TCP_TLS_SELF_SIGNED": "false",
        "IGGY_TCP_TLS_CERT_FILE": str(secret / "tls.crt"),
        "IGGY_TCP_TLS_KEY_FILE": str(secret / "tls.key"),
        "IGGY_QUIC_CERTIFICATE_CERT_FILE": str(secret / "tls.crt"),
        "IGGY_QUIC_CERTIFICATE_KEY_FILE": str(secret / "tls.key"),
    }
    folder, transports = tmp_path / "broker", ["quic"]
    with (
        running_broker(folder, settings=settings, shards=1, transports=transports) as broker,
        tls_client(broker, first.pem) as old,
    ):
        assert served_fingerprint(broker) == of_file(first.certificate)
        assert fingerprint_by_quic(broker) == of_file(first.certificate)
        assert not (broker.data / "tls").exists(), "nobody asked for one of our own"

        project(secret, bad, 2)
        wait_for_event(broker, "certificate_refused", 2)
        assert served_fingerprint(broker) == of_file(first.certificate)

        project(secret, second, 3)
        wait_for_event(broker, "certificate_loaded", 4)
        assert served_fingerprint(broker) == of_file(second.certificate)
        assert fingerprint_by_quic(broker) == of_file(second.certificate)
        old.ping()
        with tls_client(broker, second.pem) as new:
            new.ping()
    assert first.key.read_text().splitlines()[1] not in broker.text()
