"""A local instance whose broker has a certificate: the official client, commands, jobs, renewal."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from apache_iggy import IggyClient, QuicConfig

from cli_program import run_program
from iggy_client import Client
from iggy_operator.documents import DocumentErrors
from iggykube.local import LocalInstance, Ports
from iggykube.local.folders import Folders
from iggykube.local.plan import LocalPlan, make_plan
from iggykube.running import read_snapshot, tls_of
from local_instances import local_instance, resources_of
from resource_documents import document
from server_certificates import server_secret
from waiting import wait_until

NAMES = ("main.shop.svc", "localhost")
TLS: dict[str, Any] = {"tls": {"secretName": "main-tls"}}
TOPIC = (
    document("IggyStream", {}, name="shop"),
    document(
        "IggyTopic",
        {
            "streamRef": {"name": "shop"},
            "sinks": [{"name": "show", "type": "Console", "suspend": True}],
        },
        name="orders",
    ),
)
PLAIN = yaml.safe_dump_all(TOPIC)


def shop(values: Mapping[str, str], **spec: Any) -> str:
    metadata = {"name": "main-tls"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}
    # One shard: each looks at the files by itself.
    given = {"listeners": TLS, "shards": {"count": 1}, **spec}
    broker = document("IggyBroker", given, name="iggy")
    return str(yaml.safe_dump_all([secret, broker, *TOPIC]))


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(type=kind) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def listeners() -> dict[str, Any]:
    ports = {"websocketPort": socket.SOCK_STREAM, "quicPort": socket.SOCK_DGRAM}
    return TLS | {name: free_port(kind) for name, kind in ports.items()}


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, listeners: dict[str, Any]
) -> Iterator[LocalInstance]:
    folder = tmp_path_factory.mktemp("tls")
    with local_instance(folder, shop(server_secret(*NAMES), listeners=listeners)) as instance:
        instance.start()
        instance.step(0)
        yield instance


def shown(port: int) -> bytes:
    """The certificate that a server shows, whoever signed it."""
    pem = ssl.get_server_certificate(("127.0.0.1", port), timeout=10)
    return ssl.PEM_cert_to_DER_cert(pem)


@pytest.mark.parametrize(
    ("scheme", "field"),
    [("iggy+tcp", ""), ("iggy+ws", "websocketPort")],
)
def test_the_official_client_connects_over_tls(
    running: LocalInstance, listeners: dict[str, Any], scheme: str, field: str
) -> None:
    port = listeners[field] if field else running.address.rpartition(":")[2]
    ca_file = running.folders.secret("default", "main-tls") / "ca.crt"
    options = f"tls=true&tls_domain=localhost&tls_ca_file={ca_file}"
    login = f"{running.username}:{running.password}"

    async def streams() -> list[str]:
        client = IggyClient.from_connection_string(f"{scheme}://{login}@127.0.0.1:{port}?{options}")
        await client.connect()
        return [stream.name for stream in await client.get_streams()]

    assert asyncio.run(streams()) == ["shop"]


def test_the_official_client_connects_over_quic(
    running: LocalInstance, listeners: dict[str, Any]
) -> None:
    async def streams() -> list[str]:
        client = IggyClient(QuicConfig(server_address=f"127.0.0.1:{listeners['quicPort']}"))
        await client.connect()
        await client.login_user(running.username, running.password)
        return [stream.name for stream in await client.get_streams()]

    assert asyncio.run(streams()) == ["shop"]


def test_commands_find_the_instance_and_its_certificate(running: LocalInstance) -> None:
    done = run_program("stream", "list", "--output", "json", "--data", str(running.folders.root))

    assert done.returncode == 0, done.stderr.decode()
    assert [row["name"] for row in json.loads(done.stdout)["streams"]] == ["shop"]
    snapshot = read_snapshot(running.folders)
    assert snapshot.tls is not None
    assert snapshot.tls.server_name == "main.shop.svc", "127.0.0.1 is not in it"


def test_a_renewed_certificate_counts_without_a_restart(
    running: LocalInstance, listeners: dict[str, Any], tmp_path: Path
) -> None:
    port = int(running.address.rpartition(":")[2])
    before = shown(port)
    renewed = server_secret("127.0.0.1", by="renewed")

    running.change(resources_of(tmp_path, shop(renewed, listeners=listeners)))

    expected = ssl.PEM_cert_to_DER_cert(renewed["tls.crt"])
    wait_until(lambda: shown(port) == expected, "the broker shows it")
    assert before != expected
    snapshot = running.step(0)
    tls = tls_of(snapshot)
    assert tls is not None
    assert (tls.ca_pem, tls.server_name) == (renewed["ca.crt"], "")
    with Client.connect(running.address, running.username, running.password, tls=tls) as client:
        assert client.get_stream("shop") is not None


def plan(folder: Path, text: str, *, running: LocalPlan | None = None) -> LocalPlan:
    resources = resources_of(folder, text)
    return make_plan(resources, Folders.at(folder / "data"), Ports(8090, 9099), running=running)


def test_jobs_are_told_how_the_broker_is_trusted(tmp_path: Path) -> None:
    secret = tmp_path / "data" / "secrets" / "sinks" / "default" / "main-tls"
    own = plan(tmp_path, shop(server_secret(*NAMES, by="")))
    public = server_secret("127.0.0.1")
    del public["ca.crt"]

    found = [item.job["broker"].get("tls") for item in own.jobs]
    assert found == [{"caPath": str(secret / "tls.crt"), "serverName": "main.shop.svc"}]
    for_all = plan(tmp_path, shop(public))
    assert [item.job["broker"]["tls"] for item in for_all.jobs] == [{}], "the system's"
    assert [item.job["broker"].get("tls") for item in plan(tmp_path, PLAIN).jobs] == [None]


def test_a_running_broker_is_spoken_to_as_before_until_it_starts_anew(tmp_path: Path) -> None:
    plain, encrypted = plan(tmp_path, PLAIN), plan(tmp_path, shop(server_secret(*NAMES)))

    assert plan(tmp_path, PLAIN, running=encrypted).tls == encrypted.tls
    assert plan(tmp_path, shop(server_secret(*NAMES)), running=plain).tls is None


@pytest.mark.parametrize(
    ("values", "spec", "words"),
    [
        ({"tls.crt": "x"}, {}, "Secret main-tls lacks tls.key"),
        (
            {"tls.crt": "x", "tls.key": "x"},
            {},
            "listeners.tls.secretName: Secret main-tls: tls.crt holds no certificate",
        ),
        ({}, {"listeners": {"tls": {"secretName": "other"}}}, "there is no Secret other"),
        (
            server_secret(*NAMES),
            {"config": {"tcp.tls.ca_file": "x"}},
            "tcp.tls.ca_file is set by the operator",
        ),
    ],
    ids=["key", "certificate", "secret", "setting"],
)
def test_what_cannot_be_had_is_told_at_its_place(
    tmp_path: Path, values: Mapping[str, str], spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(DocumentErrors) as raised:
        plan(tmp_path, shop(values, **spec))

    assert words in str(raised.value)
