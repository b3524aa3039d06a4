"""Settings of deduplication: which topics have it, and how long a message is known in which.

    [[system.message_deduplication.windows]]
    topics = "shop/orders"
    max_entries = 1_000_000
    expiry = "1 h"

The list may be written as text, too: in JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from iggy_broker import config_values as values
from iggy_broker.config_data import flag
from iggy_broker.config_keys import Section, Setting
from iggy_broker.config_values import SECOND_US

ENTRIES_MAX: Final = 10_000_000  # messages that one partition knows
WINDOWS_MAX: Final = 256

_entries = values.whole(0, ENTRIES_MAX)


class TopicWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How long messages are known in topics of these names. `None`: as everywhere on the node."""

    topics: str
    max_entries: int | None = None
    expiry: str | int | None = None  # as it is written

    @property
    def patterns(self) -> tuple[str, ...]:
        """Of stream/topic."""
        return patterns(self.topics)

    @property
    def expiry_us(self) -> int | None:
        """How long a message is known."""
        return None if self.expiry is None else values.duration(self.expiry)

    def check(self) -> None:
        """ValueError says which field cannot be, and what to write."""
        for one in self.patterns or ("",):
            if "/" not in one and "*" not in one:
                raise ValueError(f"topics = {one!r}: write patterns of stream/topic, like shop/*")
        for name, parse in (("max_entries", _entries), ("expiry", values.duration)):
            value = getattr(self, name)
            try:
                parse(0 if value is None else value)
            except ValueError as error:
                raise ValueError(f"{name} = {value!r}: {error}") from None


def patterns(topics: str) -> tuple[str, ...]:
    """Those of a text with commas between them."""
    return tuple(pattern for one in topics.split(",") if (pattern := one.strip()))


def topic_windows(value: object) -> tuple[TopicWindow, ...]:
    """Tables, or the text that `show_windows` makes. ValueError says what to change."""
    try:
        given = msgspec.json.decode(value or "[]") if isinstance(value, str) else value
        found = msgspec.convert(given, tuple[TopicWindow, ...])
    except msgspec.MsgspecError as error:
        fix = "write topics for each, and max_entries or expiry or both"
        raise ValueError(f"{fix}: {error}") from None
    if len(found) > WINDOWS_MAX:
        raise ValueError(f"write at most {WINDOWS_MAX} windows")
    seen: set[str] = set()
    for one in found:
        one.check()
        for pattern in one.patterns:
            if pattern in seen:
                raise ValueError(f"topics = {pattern!r} comes twice: keep one, the first counts")
            seen.add(pattern)
    return found


def show_windows(windows: Sequence[TopicWindow]) -> str:
    """Text that `topic_windows` reads back; empty if there are none."""
    return msgspec.json.encode(windows).decode() if windows else ""


class MessageDeduplication(Section, frozen=True):
    """Messages that a partition was sent before, by their ids, are left out."""

    enabled: Annotated[
        bool,
        flag("Leave them out. Costs memory and time for every message: for topics that need it."),
    ] = False
    topics: Annotated[
        str,
        Setting(
            values.text,
            "Which topics: patterns of stream/topic with * and ?, and commas between them.",
        ),
    ] = "*/*"
    max_entries: Annotated[
        int,
        Setting(
            values.whole(0, ENTRIES_MAX),
            "How many of a partition's newest messages are known, some 200 bytes each; 0 is the "
            "most there can be.",
        ),
    ] = 10_000
    expiry_us: Annotated[
        int,
        Setting(
            values.duration,
            "How long a message is known, by the broker's clock; 0: as long as it is among the "
            "newest.",
            name="expiry",
            show=values.show_duration,
        ),
    ] = 60 * SECOND_US
    windows: Annotated[
        tuple[TopicWindow, ...],
        Setting(
            topic_windows,
            "Topics with a window of their own, in `topics` or not: a list of tables, each with "
            "`topics`, and `max_entries`, `expiry` or both; or that list as JSON. Of several that "
            "match the first counts.",
            show=show_windows,
        ),
    ] = ()
