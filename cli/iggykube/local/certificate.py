"""The certificate of a local broker with `listeners.tls`: its files, and how it is trusted. Pure.

The Secret stands in the files and becomes a folder, from which the broker reads it again whenever
it changes. Everybody on this machine connects to 127.0.0.1: where the certificate does not have
that address, they ask for a name that it has.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from iggy_client.tls import Tls
from iggy_operator.certificates import (
    Certificate,
    CertificateProblem,
    check_authority,
    read_certificate,
)
from iggy_operator.desired.transports import CERT_KEY, tls_secret
from iggy_operator.names import CA_KEY
from iggy_operator.resources import Broker, Resources
from iggy_operator.secret_documents import Secret
from iggykube.local.folders import HOST, Folders

_FIELD = ("spec", "listeners", "tls")


@dataclass(frozen=True, slots=True)
class LocalTls:
    """How clients on this machine make sure of the broker."""

    folder: Path
    """Where the broker reads its certificate."""
    ca_file: Path | None
    """None: what the system trusts."""
    tls: Tls = field(repr=False)

    @property
    def job_fields(self) -> dict[str, str]:
        """As the file of a job has them."""
        given = {"serverName": self.tls.server_name}
        if self.ca_file is not None:
            given["caPath"] = str(self.ca_file)
        return {name: value for name, value in given.items() if value}


def local_tls(resources: Resources, folders: Folders) -> LocalTls | None:
    """None: nothing is encrypted, or `certificate_problems` says why it cannot be."""
    for broker in resources.brokers:
        if (secret := _secret(resources, broker, tls_secret(broker))) is None:
            continue
        try:
            certificate = read_certificate(secret.values)
        except CertificateProblem:
            continue
        folder = folders.secret(secret.namespace, secret.name)
        other = _secret(resources, broker, _authority_name(broker))
        if other is not None:
            pem = other.values.get(CA_KEY, b"").decode(errors="replace")
            file: Path | None = folders.secret(other.namespace, other.name) / CA_KEY
        else:
            pem = certificate.authority_pem
            file = _authority_file(folder, secret.values, certificate)
        return LocalTls(folder, file, Tls(pem, certificate.server_name(HOST)))
    return None


def certificate_problems(
    secrets: Mapping[tuple[str, str], Secret], broker: Broker
) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong with Secrets that are there: field and sentence. The time says no word."""
    namespace = broker.key.namespace
    if secret := secrets.get((namespace, tls_secret(broker))):
        try:
            certificate = read_certificate(secret.values)
            problem = certificate.refused_by_clients(certificate.not_before_s)
        except CertificateProblem as error:
            problem = str(error)
        if problem:
            yield (*_FIELD, "secretName"), f"Secret {secret.name}: {problem}"
    if other := secrets.get((namespace, _authority_name(broker))):
        try:
            check_authority(other.values.get(CA_KEY, b"").decode(errors="replace"))
        except CertificateProblem as error:
            yield (*_FIELD, "caSecretName"), f"Secret {other.name}: {error}"


def _authority_file(
    folder: Path, values: Mapping[str, bytes], certificate: Certificate
) -> Path | None:
    if values.get(CA_KEY, b"").strip():
        return folder / CA_KEY
    return folder / CERT_KEY if certificate.authority_pem else None


def _authority_name(broker: Broker) -> str:
    return str(broker.spec["listeners"].get("tls", {}).get("caSecretName", ""))


def _secret(resources: Resources, broker: Broker, name: str) -> Secret | None:
    key = (broker.key.namespace, name)
    return next((item for item in resources.secrets if (item.namespace, item.name) == key), None)
