"""Certificates: the files of one that is given, and one of our own for trying out.

Our own is an ECDSA P-256 leaf that no authority signed: official clients take nothing else over
QUIC when they do not validate, and refuse a certificate authority as a server over TLS. It stays
in the data directory until it nears its end, so that who trusts it once may go on.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from iggy_broker.errors import CertificateError

FOLDER: Final = "tls"  # in the data directory
CERT_NAME: Final = "self_signed_cert.pem"  # what clients are told to trust
KEY_NAME: Final = "self_signed_key.pem"
LIFE: Final = datetime.timedelta(days=365)
RENEW_BEFORE: Final = datetime.timedelta(days=30)  # looked at when the broker starts
PEM_BYTES_MAX: Final = 1 << 20  # of one file
_BACKDATED: Final = datetime.timedelta(hours=1)  # for clients whose clock is behind


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate's files."""

    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Facts:
    """What people ask of a certificate."""

    fingerprint: str  # SHA-256 of its DER form, in hex
    expires_s: int  # since 1970
    subject: str


def own_pair(root: Path) -> Pair:
    """Where our own certificate is, made or not."""
    folder = root / FOLDER
    return Pair(folder / CERT_NAME, folder / KEY_NAME)


def facts_of(cert_file: Path) -> Facts:
    """Of the first certificate in a PEM file. Raises CertificateError."""
    try:
        with cert_file.open("rb") as file:
            data = file.read(PEM_BYTES_MAX)
        found = x509.load_pem_x509_certificate(data)
    except OSError as error:
        raise CertificateError(f"{cert_file}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise CertificateError(f"{cert_file}: no PEM certificate") from None
    return Facts(
        found.fingerprint(hashes.SHA256()).hex(),
        int(found.not_valid_after_utc.timestamp()),
        found.subject.rfc4514_string(),
    )


def names_of(hosts: Iterable[str]) -> tuple[str, ...]:
    """Names and addresses that our own certificate is for: this machine's, and `hosts`."""
    wildcards = ("", "0.0.0.0", "::")
    own = ("localhost", "127.0.0.1", "::1", socket.gethostname())
    wanted = dict.fromkeys(host for host in (*own, *hosts) if host not in wildcards)
    return tuple(host for host in wanted if host.isascii())


def ensure_own(root: Path, names: tuple[str, ...], now: datetime.datetime) -> Pair:
    """Our own certificate for `names`: the one that is there, or a new one. Raises OSError."""
    pair = own_pair(root)
    if not _is_good(pair, names, now):
        key = ec.generate_private_key(ec.SECP256R1())
        pair.cert.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        _write(pair.key, secret, 0o600)
        public = _certificate(key, names, now).public_bytes(serialization.Encoding.PEM)
        _write(pair.cert, public, 0o644)
    return pair


def _certificate(
    key: ec.EllipticCurvePrivateKey, names: tuple[str, ...], now: datetime.datetime
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "iggykube self-signed")])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .sign(key, hashes.SHA256())
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _is_good(pair: Pair, names: tuple[str, ...], now: datetime.datetime) -> bool:
    """Whether what is there is whole, for all of `names`, and not about to end."""
    try:
        found = x509.load_pem_x509_certificate(pair.cert.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
        alternative = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    is_pair = found.public_key() == key.public_key()
    is_for_all = {_general(name) for name in names} <= set(alternative.value)
    return is_pair and is_for_all and found.not_valid_after_utc - now > RENEW_BEFORE


def _write(path: Path, data: bytes, mode: int) -> None:
    """Whole or not at all, and never readable for more than `mode` says."""
    aside = path.with_suffix(".new")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    aside.replace(path)
