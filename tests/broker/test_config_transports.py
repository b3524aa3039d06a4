"""Settings of transports: limits that belong together, and QUIC without its library."""

from __future__ import annotations

import importlib.util

import pytest

from iggy_broker import config
from iggy_broker.config import ConfigError


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
