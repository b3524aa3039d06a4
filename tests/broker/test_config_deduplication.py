"""Windows of single topics: how they are written, what is refused, and which topic has which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iggy_broker import config
from iggy_broker.config import ConfigError
from iggy_broker.config_deduplication import (
    ENTRIES_MAX,
    WINDOWS_MAX,
    MessageDeduplication,
    TopicWindow,
)
from iggy_broker.partition_host import window_of
from iggy_broker.storage.deduplication import WindowOptions

VARIABLE = "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_WINDOWS"
HOUR_US = 3_600_000_000
ORDERS = {"topics": "shop/orders", "max_entries": 1_000_000, "expiry": "1 h"}


def test_windows_come_from_tables_or_from_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        """
        [[system.message_deduplication.windows]]
        topics = "shop/orders"
        max_entries = 1_000_000
        expiry = "1 h"
        [[system.message_deduplication.windows]]
        topics = "iot/*, logs/*"
        expiry = 0
        """
    )
    windows = (TopicWindow(**ORDERS), TopicWindow("iot/*, logs/*", expiry=0))  # type: ignore[arg-type]
    loaded = config.load(path, {})
    assert loaded.config.system.message_deduplication.windows == windows

    again = tmp_path / "again.toml"
    again.write_text(config.effective(loaded.config))
    assert config.load(again, {}).config == loaded.config

    found = config.load(path, {VARIABLE: json.dumps([ORDERS])}).config
    assert found.system.message_deduplication.windows == windows[:1], "none of the file's"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topics": ""}, "topics = ''.*like shop/"),
        ({"topics": "shop/*, orders"}, "topics = 'orders'.*like shop/"),
        ({"topics": None}, "write topics for each"),
        ({"max_entries": -1}, f"max_entries = -1: .* from 0 to {ENTRIES_MAX}"),
        ({"max_entries": ENTRIES_MAX + 1}, f"from 0 to {ENTRIES_MAX}"),
        ({"max_entries": "many"}, "max_entries or expiry.*`str` - at `.*max_entries`"),
        ({"expiry": "5"}, "expiry = '5': write a duration with its unit"),
        ({"entries": 5}, "unknown field `entries`"),
    ],
)
def test_windows_that_cannot_be_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=rf"{VARIABLE} = .*{words}"):
        config.load(None, {VARIABLE: json.dumps([ORDERS | change])})


def test_so_are_a_pattern_that_comes_twice_too_many_and_what_is_no_list() -> None:
    with pytest.raises(ConfigError, match="'shop/orders' comes twice"):
        config.load(None, {VARIABLE: json.dumps([ORDERS, {"topics": "a/*, shop/orders"}])})
    many = [{"topics": f"shop/{number}"} for number in range(WINDOWS_MAX + 1)]
    with pytest.raises(ConfigError, match=f"at most {WINDOWS_MAX} windows"):
        config.load(None, {VARIABLE: json.dumps(many)})
    with pytest.raises(ConfigError, match="write topics for each"):
        config.load(None, {VARIABLE: "shop/*"})


SETTINGS = MessageDeduplication(
    enabled=True,
    topics="shop/*, all/*",
    max_entries=10,
    expiry_us=HOUR_US,
    windows=(
        TopicWindow("shop/few", max_entries=3),
        TopicWindow("shop/f*, iot/*", max_entries=0, expiry="2 h"),
        TopicWindow("all/*", expiry="none"),
    ),
)


@pytest.mark.parametrize(
    ("stream", "topic", "window"),
    [
        ("shop", "few", WindowOptions(3, HOUR_US)),  # the first; what it does not say, the node
        ("shop", "fine", WindowOptions(ENTRIES_MAX, 2 * HOUR_US)),
        ("iot", "a", WindowOptions(ENTRIES_MAX, 2 * HOUR_US)),  # `topics` need not have it
        ("all", "a", WindowOptions(10, None)),
        ("shop", "other", WindowOptions(10, HOUR_US)),
        ("Shop", "few", None),
    ],
)  # fmt: skip
def test_the_first_window_that_matches_counts(
    stream: str, topic: str, window: WindowOptions | None
) -> None:
    assert window_of(SETTINGS, stream, topic) == window


def test_no_topic_has_one_where_deduplication_is_off() -> None:
    off = MessageDeduplication(windows=SETTINGS.windows)
    assert window_of(off, "shop", "few") is None
