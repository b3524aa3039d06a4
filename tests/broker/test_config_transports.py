"""Settings of transports: limits that belong together, and QUIC without its library."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from iggy_broker import config
from iggy_broker.config import ConfigError
from iggy_broker.config_issuers import TrustedIssuer
from iggy_broker.config_keys import variable_of
from iggy_broker.config_planned import PLANNED, WITHOUT_EFFECT


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"IGGY_WEBSOCKET_MAX_MESSAGE_SIZE": "65 MiB"},
            r"websocket\.max_message_size is above message_bus\.max_message_size",
        ),
        (
            {"IGGY_WEBSOCKET_MAX_MESSAGE_SIZE": "1 MiB", "IGGY_WEBSOCKET_MAX_FRAME_SIZE": "2 MiB"},
            r"websocket\.max_frame_size is above websocket\.max_message_size",
        ),
        (
            {"IGGY_QUIC_RECEIVE_WINDOW": "1 MiB"},
            r"quic\.stream_receive_window is above quic\.receive_window",
        ),
        ({"IGGY_QUIC_RECEIVE_WINDOW": "4 GiB"}, "IGGY_QUIC_RECEIVE_WINDOW.*below 4 GiB"),
        ({"IGGY_QUIC_INITIAL_MTU": "1199 B"}, "IGGY_QUIC_INITIAL_MTU.*from 1200 to 65535"),
        ({"IGGY_QUIC_MAX_CONCURRENT_BIDI_STREAMS": "0"}, "whole number from 1 to"),
        ({"IGGY_WEBSOCKET_MAX_FRAME_SIZE": "much"}, "or none"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config.load(None, settings)


@pytest.mark.parametrize("word", ["none", "unlimited", "0"])
def test_a_size_of_websocket_can_be_left_out(word: str) -> None:
    found = config.load(None, {"IGGY_WEBSOCKET_MAX_FRAME_SIZE": word}).config

    assert found.websocket.max_frame_size_bytes == 0
    assert 'max_frame_size = "none"' in config.effective(found)


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "aioquic" else find(name)
    )


@pytest.mark.usefixtures("no_library")
def test_without_its_library_quic_is_left_out_with_a_warning() -> None:
    loaded = config.load(None, {})

    assert not loaded.config.quic.enabled
    assert loaded.warnings == (
        "QUIC is not served: the Python package aioquic is missing: "
        "pip install 'iggykube[quic]', or write quic.enabled = false",
    )
    assert config.load(None, {"IGGY_QUIC_ENABLED": "false"}).warnings == ()


@pytest.mark.usefixtures("no_library")
def test_quic_that_was_asked_for_is_refused_without_its_library() -> None:
    with pytest.raises(ConfigError, match=r"quic\.enabled = true.*iggykube\[quic\]"):
        config.load(None, {"IGGY_QUIC_ENABLED": "true"})


# Of the original, by table: those of its 0.9 server, then those of its past.
ORIGINAL = {
    "http": "enabled address max_request_size web_ui",
    "http.cors": "enabled allowed_methods allowed_origins allowed_headers exposed_headers "
    "allow_credentials allow_private_network",
    "http.jwt": "algorithm issuer audience valid_issuers valid_audiences access_token_expiry "
    "clock_skew not_before encoding_secret decoding_secret use_base64_secret trusted_issuers",
    "http.metrics": "enabled endpoint",
    "http.tls": "enabled cert_file key_file",
    "tcp": "enabled address ipv6 socket_migration",
    "tcp.tls": "enabled self_signed cert_file key_file certificate password",
    "tcp.socket": "override_defaults recv_buffer_size send_buffer_size keepalive nodelay linger",
    "quic": "enabled address max_concurrent_bidi_streams initial_mtu send_window receive_window "
    "stream_receive_window keep_alive_interval max_idle_timeout datagram_send_buffer_size",
    "quic.certificate": "self_signed cert_file key_file",
    "quic.socket": "override_defaults recv_buffer_size send_buffer_size keepalive",
    "websocket": "enabled address read_buffer_size write_buffer_size max_write_buffer_size "
    "max_message_size max_frame_size accept_unmasked_frames",
    "websocket.tls": "enabled self_signed cert_file key_file",
}


@pytest.mark.parametrize("table", list(ORIGINAL))
def test_every_key_of_the_original_is_read_or_says_why_not(table: str) -> None:
    obeyed = {spelling for key in config.KEYS for spelling in key.spellings}
    for name in ORIGINAL[table].split():
        key = f"{table}.{name}"
        if key in obeyed or key in PLANNED:
            continue
        (warning,) = config.load(None, {variable_of(key): "1"}).warnings
        assert warning == f"{variable_of(key)}: has no effect here: {WITHOUT_EFFECT[key]}"


def test_what_has_no_effect_is_not_told_when_it_is_off() -> None:
    assert config.load(None, {"IGGY_TCP_IPV6": "false"}).warnings == ()


ONE = {"issuer": "a", "audience": "b", "jwks_url": "https://a/keys", "user_id": 7}
PREFIX = "IGGY_HTTP_JWT_TRUSTED_ISSUERS"


def test_issuers_come_from_tables_or_from_variables(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        "[[http.jwt.trusted_issuers]]\n"
        + "\n".join(f"{name} = {value!r}" for name, value in ONE.items())
        + "\n[[http.jwt.trusted_issuers]]\n"
        + "\n".join(f"{name} = {value!r}" for name, value in (ONE | {"audience": "c"}).items())
    )
    found = config.load(path, {}).config.http.jwt.trusted_issuers
    assert found == (TrustedIssuer(**ONE), TrustedIssuer(**ONE | {"audience": "c"}))  # type: ignore[arg-type]

    written = {f"{PREFIX}_12_{name.upper()}": str(value) for name, value in ONE.items()}
    written |= {name.replace("_12_", "_3_"): value for name, value in written.items()}
    written[f"{PREFIX}_3_ISSUER"] = "first"
    loaded = config.load(path, written)
    assert [one.issuer for one in loaded.config.http.jwt.trusted_issuers] == ["first", "a"]
    again = tmp_path / "again.toml"
    again.write_text(config.effective(loaded.config))
    assert config.load(again, {}).config.http.jwt == loaded.config.http.jwt


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user_id": 0}, "other than root"),
        ({"jwks_url": "http://keys.example.com"}, "https://"),
        ({"jwks_url": "file:///etc/passwd"}, "https://"),
        ({"jwks_url": "https://[x"}, "https://"),
        ({"issuer": ""}, "1 to 2048"),
        ({"user_id": "many"}, "issuer, audience, jwks_url and user_id"),
        ({"more": "x"}, "unknown field `more`"),
        ({"issuer": None}, "issuer"),
    ],
)
def test_issuers_that_cannot_be_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=rf"{PREFIX} = .*{words}"):
        config.load(None, {PREFIX: json.dumps([ONE | change])})
    with pytest.raises(ConfigError, match="comes twice"):
        config.load(None, {PREFIX: json.dumps([ONE, ONE])})
