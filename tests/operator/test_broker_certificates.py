"""What is read of a certificate in a Secret."""

import pytest

from iggy_operator.certificates import CertificateProblem, read_certificate
from server_certificates import authority, server_secret

NOW_S = 1_800_000_000.0
GOOD = server_secret("main.shop.svc", "192.0.2.7")
OTHER = server_secret("main.shop.svc")


def encoded(values: dict[str, str]) -> dict[str, bytes]:
    return {key: text.encode() for key, text in values.items()}


def test_names_end_and_authority_are_read() -> None:
    found = read_certificate(encoded(GOOD))

    assert found.names == ("main.shop.svc", "192.0.2.7")
    assert found.authority_pem == authority().pem
    assert not found.is_authority
    assert found.refused_by_clients(found.not_before_s) == ""
    assert "renew it" in found.refused_by_clients(found.not_after_s)
    assert "begins at" in found.refused_by_clients(found.not_before_s - 1)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({**GOOD, "tls.crt": ""}, "no key tls.crt: add it"),
        ({"tls.crt": GOOD["tls.crt"]}, "no key tls.key: add it"),
        ({**GOOD, "tls.crt": "nonsense"}, "tls.crt holds no certificate"),
        ({**GOOD, "tls.key": "nonsense"}, "tls.key holds no private key"),
        ({**GOOD, "tls.key": OTHER["tls.key"]}, "tls.key belongs to another certificate"),
        ({**GOOD, "ca.crt": "nonsense"}, "ca.crt holds no certificate"),
        (server_secret("a", passphrase="geheim"), "tls.key has a passphrase"),
        ({**GOOD, "tls.key": "x" * (1 << 20) + "y"}, "leave out the rest"),
    ],
    ids=["no certificate", "no key", "none", "key", "pair", "authority", "passphrase", "large"],
)
def test_what_no_broker_starts_with_is_said_without_a_value(
    values: dict[str, str], words: str
) -> None:
    with pytest.raises(CertificateProblem, match=words) as raised:
        read_certificate(encoded(values))

    assert "BEGIN" not in str(raised.value).replace("with BEGIN CERTIFICATE", "")


@pytest.mark.parametrize(
    ("values", "words"),
    [(server_secret(), "subjectAltName"), (server_secret("a", is_authority=True), "authority's")],
    ids=["no names", "of an authority"],
)
def test_what_clients_refuse_is_said(values: dict[str, str], words: str) -> None:
    found = read_certificate(encoded(values))

    assert words in found.refused_by_clients(found.not_before_s)


def test_one_that_signed_itself_is_its_own_authority() -> None:
    own = server_secret("main.shop.svc", by="")
    foreign = {key: GOOD[key] for key in ("tls.crt", "tls.key")}

    assert read_certificate(encoded(own)).authority_pem == own["tls.crt"]
    assert read_certificate(encoded(foreign)).authority_pem == "", "the system's are asked"


@pytest.mark.parametrize(
    ("names", "host", "asked"),
    [
        (("other", "main.shop.svc"), "main.shop.svc", ""),
        (("Main.Shop.svc",), "main.shop.svc", ""),
        (("*.shop.svc",), "main.shop.svc", ""),
        (("*.svc",), "main.shop.svc", "iggy.svc"),
        (("iggy.example", "b.example"), "main.shop.svc", "iggy.example"),
        (("*.example",), "127.0.0.1", "iggy.example"),
        (("localhost", "127.0.0.1"), "127.0.0.1", ""),
        (("192.0.2.7",), "main.shop.svc", "192.0.2.7"),
    ],
)
def test_clients_ask_for_a_name_that_the_certificate_has(
    names: tuple[str, ...], host: str, asked: str
) -> None:
    assert read_certificate(encoded(server_secret(*names))).server_name(host) == asked
