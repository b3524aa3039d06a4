"""Certificates: which one a listener uses, what is refused and how, and one of our own."""

from __future__ import annotations

import datetime
import os
import ssl
from pathlib import Path

import msgspec
import pytest

from iggy_broker.config import Config
from iggy_broker.config_transports import Tls
from iggy_broker.errors import CertificateError
from iggy_broker.net import certificates
from iggy_broker.net.certificates import (
    RENEW_BEFORE,
    Pair,
    ensure_own,
    facts_of,
    names_of,
    own_pair,
)
from iggy_broker.net.tls import ListenerTls, prepare
from tls_front import Authority, authority

NOW = datetime.datetime.now(datetime.UTC)
NAMES = ("localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("made"), "localhost")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("other"), "localhost")


def settings(cert: Path | str, key: Path | str, **more: object) -> Tls:
    return Tls(enabled=True, cert_file=str(cert), key_file=str(key), **more)  # type: ignore[arg-type]


def config(root: Path, tls: Tls) -> Config:
    replace, default = msgspec.structs.replace, Config()
    return replace(
        default, tcp=replace(default.tcp, tls=tls), system=replace(default.system, path=root)
    )


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """In memory; raises what either side has against the other."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(up, down, server_side=True),
        client.wrap_bio(down, up, server_hostname="localhost"),
    ]
    left = set(sides)
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
                left.discard(side)
            except ssl.SSLWantReadError:
                pass
    assert not left
    for side in sides:  # the last word of a server that asks for a certificate is only read here
        with pytest.raises(ssl.SSLWantReadError):
            side.read(1)


def trusting(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(path))


def test_our_own_is_made_once_and_clients_can_trust_it(tmp_path: Path) -> None:
    wanted = config(tmp_path, Tls(enabled=True))

    prepare(wanted)
    before = facts_of(own_pair(tmp_path).cert)
    prepare(wanted)

    listener = ListenerTls("tcp", wanted.tcp.tls, tmp_path)
    assert listener.facts == before
    handshake(listener.context, trusting(own_pair(tmp_path).cert))
    assert own_pair(tmp_path).key.stat().st_mode & 0o777 == 0o600
    assert own_pair(tmp_path).cert.parent.stat().st_mode & 0o777 == 0o700


def test_our_own_is_made_anew_for_other_names_and_before_its_end(tmp_path: Path) -> None:
    first = facts_of(ensure_own(tmp_path, NAMES, NOW).cert)
    named = facts_of(ensure_own(tmp_path, (*NAMES, "iggy.example"), NOW).cert)
    late = datetime.datetime.fromtimestamp(named.expires_s, datetime.UTC) - RENEW_BEFORE
    renewed = facts_of(ensure_own(tmp_path, NAMES, late).cert)

    assert len({first, named, renewed}) == 3


def test_a_torn_pair_of_our_own_is_made_anew(tmp_path: Path) -> None:
    pair = ensure_own(tmp_path, NAMES, NOW)
    pair.key.write_text("half a k")

    ensure_own(tmp_path, NAMES, NOW)

    assert ListenerTls("tcp", Tls(enabled=True), tmp_path).pair == pair


def test_our_own_is_for_the_names_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates.socket, "gethostname", lambda: "box")

    names = names_of(["0.0.0.0", "::", "127.0.0.1", "iggy.example", "ümlaut"])

    assert names == ("localhost", "127.0.0.1", "::1", "box", "iggy.example")


@pytest.mark.parametrize(
    ("cert", "key", "self_signed", "words"),
    [
        ("", "", False, r"tcp has TLS and no certificate.*tcp\.tls\.cert_file and key_file"),
        ("/a", "", True, r"tcp\.tls\.key_file is not set although its partner is"),
        ("", "/a", True, r"tcp\.tls\.cert_file is not set although its partner is"),
        ("/absent/cert", "/absent/key", False, r"/absent/cert: no such file.*tcp\.tls\.cert_file"),
    ],
)
def test_what_is_missing_stops_the_start(
    tmp_path: Path, cert: str, key: str, self_signed: bool, words: str
) -> None:
    with pytest.raises(CertificateError, match=words):
        prepare(config(tmp_path, settings(cert, key, self_signed=self_signed)))


def test_files_that_exist_win_over_our_own_as_soon_as_they_do(
    tmp_path: Path, made: Authority
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    ensure_own(tmp_path, NAMES, NOW)
    listener = ListenerTls("tcp", settings(cert, key), tmp_path)
    assert listener.pair == own_pair(tmp_path)

    key.write_bytes(made.key.read_bytes())
    listener.look()
    assert listener.pair == own_pair(tmp_path)
    cert.write_bytes(made.certificate.read_bytes())
    listener.look()

    assert listener.facts == facts_of(made.certificate)
    handshake(listener.context, trusting(made.certificate))


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        (b"no certificate", None, "no PEM certificate"),
        (None, b"no key", "a certificate and its own key"),
        (None, "other", "key values mismatch.*its own key"),
    ],
)
def test_files_that_cannot_be_used_are_refused_at_start_and_ignored_later(
    tmp_path: Path,
    made: Authority,
    other: Authority,
    cert: bytes | None,
    key: bytes | str | None,
    words: str,
) -> None:
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.certificate.read_bytes())
    files[1].write_bytes(made.key.read_bytes())
    listener = ListenerTls("tcp", settings(*files), tmp_path)

    if cert is not None:
        files[0].write_bytes(cert)
    if key is not None:
        files[1].write_bytes(other.key.read_bytes() if isinstance(key, str) else key)
    listener.look()
    listener.look()

    assert (listener.reloads, listener.refusals) == (0, 1), "told once"
    handshake(listener.context, trusting(made.certificate))
    with pytest.raises(CertificateError, match=words):
        ListenerTls("tcp", settings(*files), tmp_path)


def test_files_that_are_of_no_use_elsewhere_change_nothing(
    tmp_path: Path, made: Authority, other: Authority
) -> None:
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.certificate.read_bytes())
    files[1].write_bytes(made.key.read_bytes())
    listener = ListenerTls("quic", settings(*files), tmp_path)

    def refuse(pair: Pair) -> None:
        raise CertificateError(f"{pair.key}: of no use")

    listener.on_changed = refuse
    files[0].write_bytes(other.certificate.read_bytes())
    files[1].write_bytes(other.key.read_bytes())
    listener.look()

    assert (listener.reloads, listener.refusals) == (0, 1)
    assert listener.facts == facts_of(made.certificate)
    handshake(listener.context, trusting(made.certificate))


def test_files_that_vanish_change_nothing(tmp_path: Path, made: Authority) -> None:
    cert = tmp_path / "cert.pem"
    cert.write_bytes(made.certificate.read_bytes())
    listener = ListenerTls("tcp", settings(cert, made.key, self_signed=False), tmp_path)

    cert.unlink()
    listener.look()

    assert listener.refusals == 1
    handshake(listener.context, trusting(made.certificate))


def test_a_key_with_a_passphrase_asks_nobody(tmp_path: Path, made: Authority) -> None:
    key = tmp_path / "key.pem"
    convert = f"openssl ec -in {made.key} -aes256 -passout pass:secret -out {key} 2>{os.devnull}"
    assert os.system(convert) == 0

    with pytest.raises(CertificateError, match="without a passphrase"):
        ListenerTls("tcp", settings(made.certificate, key), tmp_path)


def test_clients_need_a_certificate_where_authorities_are_given(
    tmp_path: Path, made: Authority, other: Authority
) -> None:
    ca_file = str(other.certificate)
    listener = ListenerTls("tcp", settings(made.certificate, made.key, ca_file=ca_file), tmp_path)
    with_one = trusting(made.certificate)
    with_one.load_cert_chain(other.certificate, other.key)

    handshake(listener.context, with_one)
    with pytest.raises(ssl.SSLError):
        handshake(listener.context, trusting(made.certificate))
    with pytest.raises(CertificateError, match="no PEM file of authorities"):
        ListenerTls("tcp", settings(made.certificate, made.key, ca_file="/absent"), tmp_path)
