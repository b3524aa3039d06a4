"""What a Secret of type kubernetes.io/tls holds: certificates that are good, and bad ones."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOUR = datetime.timedelta(hours=1)
PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


@dataclass(frozen=True)
class Authority:
    """Signs certificates of servers."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()


def authority(name: str = "authority") -> Authority:
    """The same one for the same name, in one run."""
    return _made(name)


@cache
def _made(name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    days = (now - HOUR, now + 48 * HOUR)
    return Authority(key, _signed(key, _named(name), None, (), days, is_authority=True))


def server_secret(
    *names: str,
    by: str = "authority",
    hours: float = 48,
    now: datetime.datetime | None = None,
    is_authority: bool = False,
    passphrase: str = "",
) -> dict[str, str]:
    """tls.crt, tls.key and ca.crt, as cert-manager writes them. `by` empty: it signed itself.

    `hours`: how long from `now` it is good.
    """
    key, signer = ec.generate_private_key(ec.SECP256R1()), authority(by) if by else None
    now = now or datetime.datetime.now(datetime.UTC)
    end = now + hours * HOUR
    days = (min(now, end) - HOUR, end)
    made = _signed(key, _named("server"), signer, names, days, is_authority=is_authority)
    lock = (
        serialization.BestAvailableEncryption(passphrase.encode())
        if passphrase
        else serialization.NoEncryption()
    )
    values = {
        "tls.crt": made.public_bytes(PEM).decode(),
        "tls.key": key.private_bytes(PEM, PKCS8, lock).decode(),
    }
    return values | ({"ca.crt": signer.pem} if signer else {})


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(
    key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    signer: Authority | None,
    names: tuple[str, ...],
    days: tuple[datetime.datetime, datetime.datetime],
    *,
    is_authority: bool,
) -> x509.Certificate:
    """Without a `signer` it signs itself."""
    by = signer.key if signer else key
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.certificate.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(days[0])
        .not_valid_after(days[1])
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if signer:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key())
        made = made.add_extension(identifier, critical=False)
    if names:
        alternative = x509.SubjectAlternativeName([_general(name) for name in names])
        made = made.add_extension(alternative, critical=False)
    return made.sign(by, hashes.SHA256())


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
