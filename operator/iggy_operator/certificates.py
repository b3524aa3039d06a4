"""A broker's certificate as a Secret holds it: whether it is one, and whom it fits.

Pure. Nothing here ever shows a value of a Secret.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from iggy_operator.desired.transports import CERT_KEY, PRIVATE_KEY
from iggy_operator.names import CA_KEY
from iggy_operator.units import time_text

NAMES_MAX: Final = 32  # as the schema says
PEM_BYTES_MAX: Final = 1 << 20  # as the broker reads
_WILDCARD: Final = "*."


class CertificateProblem(ValueError):
    """What is wrong with a key of a Secret, and what to do: no value is in it."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """One with its key, as a server shows it."""

    names: tuple[str, ...]
    """Names and addresses that clients may use."""
    not_before_s: float
    not_after_s: float
    """Seconds since 1970."""
    is_authority: bool
    """Of an authority: official clients refuse it as a server's."""
    authority_pem: str
    """What clients need to trust it; empty: what the system trusts."""

    def refused_by_clients(self, now_s: float) -> str:
        """Why, and what to do; empty if they take it."""
        if not self.names:
            return f"{CERT_KEY} names nobody: make one with subjectAltName"
        if self.is_authority:
            return f"{CERT_KEY} is an authority's own: make one for the server, signed by it"
        if now_s >= self.not_after_s:
            return f"{CERT_KEY} ended at {time_text(self.not_after_s)}: renew it"
        if now_s < self.not_before_s:
            return f"{CERT_KEY} begins at {time_text(self.not_before_s)}: wait, or make another"
        return ""

    def server_name(self, host: str) -> str:
        """What clients of `host` must ask for; empty if it is the host itself."""
        if any(_fits(name, host) for name in self.names):
            return ""
        first = next(iter(self.names), "")
        # Any label does in place of the star.
        return f"iggy.{first.removeprefix(_WILDCARD)}" if first.startswith(_WILDCARD) else first


def read_certificate(values: Mapping[str, bytes]) -> Certificate:
    """From the values of a Secret of type kubernetes.io/tls. Raises CertificateProblem."""
    chain = _chain(values)
    _check_key(values, chain[0])
    leaf = chain[0]
    authority = values.get(CA_KEY, b"").decode(errors="replace")
    if authority.strip():
        check_authority(authority)
    elif _signed_itself(leaf):
        authority = leaf.public_bytes(serialization.Encoding.PEM).decode()
    return Certificate(
        names=_names(leaf)[:NAMES_MAX],
        not_before_s=leaf.not_valid_before_utc.timestamp(),
        not_after_s=leaf.not_valid_after_utc.timestamp(),
        is_authority=_is_authority(leaf),
        authority_pem=authority,
    )


def check_authority(pem: str) -> None:
    """Whether clients can trust it. Raises CertificateProblem."""
    try:
        x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        raise CertificateProblem(f"{CA_KEY} holds no certificate: write it as PEM") from None


def _chain(values: Mapping[str, bytes]) -> list[x509.Certificate]:
    pem = _value(values, CERT_KEY)
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        text = f"{CERT_KEY} holds no certificate: write it as PEM, with BEGIN CERTIFICATE"
        raise CertificateProblem(text) from None


def _check_key(values: Mapping[str, bytes], leaf: x509.Certificate) -> None:
    pem = _value(values, PRIVATE_KEY)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        text = f"{PRIVATE_KEY} has a passphrase: write it without"
        raise CertificateProblem(text) from None
    except ValueError:
        text = f"{PRIVATE_KEY} holds no private key: write it as PEM"
        raise CertificateProblem(text) from None
    if key.public_key() != leaf.public_key():
        text = f"{PRIVATE_KEY} belongs to another certificate than the first one of {CERT_KEY}"
        raise CertificateProblem(f"{text}: write both anew")


def _value(values: Mapping[str, bytes], key: str) -> bytes:
    value = values.get(key, b"")
    if not value.strip():
        raise CertificateProblem(f"it has no key {key}: add it")
    if len(value) > PEM_BYTES_MAX:
        raise CertificateProblem(f"{key} has more than {PEM_BYTES_MAX} bytes: leave out the rest")
    return value


def _names(leaf: x509.Certificate) -> tuple[str, ...]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = found.get_values_for_type(x509.IPAddress)
    return (*found.get_values_for_type(x509.DNSName), *map(str, addresses))


def _is_authority(leaf: x509.Certificate) -> bool:
    try:
        return leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _signed_itself(leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(leaf)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _fits(name: str, host: str) -> bool:
    """As clients compare (RFC 6125): a star stands for one whole label, the first."""
    name, host = name.lower(), host.lower()
    if _is_address(host) or not name.startswith(_WILDCARD):
        return name == host
    return host.partition(".")[2] == name.removeprefix(_WILDCARD)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
