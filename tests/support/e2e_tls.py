"""A broker with a certificate, in a scenario: its Secret, who connects, which one it shows."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

from apache_iggy import IggyClient

from e2e_broker import BROKER
from e2e_kubectl import Document, Kubectl
from e2e_producer import Login, service_address

SECRET = "main-tls"
SCHEMES = {"iggy+tcp": 8090, "iggy+ws": 8092}


def host(kubectl: Kubectl) -> str:
    """The broker's name in the cluster."""
    return f"{BROKER}.{kubectl.namespace}.svc"


def tls_secret(values: Mapping[str, str]) -> Document:
    metadata = {"name": SECRET}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
    return {**kind, "metadata": metadata, "stringData": dict(values)}


def streams(kubectl: Kubectl, login: Login, scheme: str, ca_file: Path) -> list[str]:
    """What the official client finds over TLS, which checks certificate and name."""
    address = service_address(kubectl, BROKER, SCHEMES[scheme])
    options = f"tls=true&tls_domain={host(kubectl)}&tls_ca_file={ca_file}"
    text = f"{scheme}://{login.username}:{login.password}@{address}?{options}"

    async def listed() -> list[str]:
        client = IggyClient.from_connection_string(text)
        await client.connect()
        return [stream.name for stream in await client.get_streams()]

    return asyncio.run(listed())


def shown(kubectl: Kubectl, port: int = 8090) -> bytes:
    """The certificate that a port shows, whoever signed it."""
    name, _, number = service_address(kubectl, BROKER, port).rpartition(":")
    return der(ssl.get_server_certificate((name, int(number)), timeout=10))


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem)
