"""Which topics and partitions a query reads. Pure: whether they exist is the broker's to say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from iggy_spark.errors import OffsetFormatError, OptionError
from iggy_spark.offsets import QueryOffsets
from iggy_spark.option_values import fail, json_value, resource_name

TOPICS_MAX = 256  # of one query; each costs a look at the broker per `pollIntervalMs`
PATTERN_CHARS_MAX = 1000
WAYS = ("stream and topic", "subscribe", "subscribePattern", "assign")

_SUBSCRIBE = (
    'stream/topic, with commas between several, or JSON such as [["stream", "topic"]] for names '
    "with a slash or comma"
)
_ASSIGN = (
    'JSON such as {"stream/topic": [0, 2]}, or {"stream": {"topic": [0, 2]}} for names with a slash'
)


class TopicName(NamedTuple):
    """A topic within its stream."""

    stream: str
    topic: str

    def __str__(self) -> str:
        """As offsets and messages name it: "stream/topic"."""
        return f"{self.stream}/{self.topic}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Named topics, or a pattern on "stream/topic"."""

    topics: tuple[TopicName, ...] = ()
    pattern: re.Pattern[str] | None = None
    partitions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By topic, where not all are read."""

    @property
    def only(self) -> TopicName | None:
        """The topic, if it is one by name."""
        return self.topics[0] if len(self.topics) == 1 else None

    def matches(self, name: str) -> bool:
        """Whether a topic "stream/topic" is read."""
        if self.pattern is not None:
            return self.pattern.fullmatch(name) is not None
        return any(str(topic) == name for topic in self.topics)

    def reads(self, name: str, partition: int) -> bool:
        """Whether a partition of a topic that is read is, too."""
        return name not in self.partitions or partition in self.partitions[name]

    def check(self, offsets: QueryOffsets) -> None:
        """Refuse offsets of what is not read: going on without it would lose its place.

        Raises:
            OffsetFormatError: the checkpoint belongs to another query.
        """
        for name, item in offsets.topics.items():
            left = [n for n in item.positions if not self.reads(name, n)]
            if self.matches(name) and not left:
                continue
            what = f"partition {left[0]} of {name}" if self.matches(name) else f"topic {name!r}"
            raise OffsetFormatError(
                f"the checkpoint belongs to a query of {what}, which this one does not read (it "
                f"reads {self}): select it, or use another checkpoint"
            )

    def __str__(self) -> str:
        """For a message."""
        if self.pattern is not None:
            return f"topics that match {self.pattern.pattern!r}"
        names = [
            f"{name} {sorted(self.partitions[str(name)])}"
            if str(name) in self.partitions
            else str(name)
            for name in self.topics
        ]
        return ", ".join(names)


def parse(values: Mapping[str, Any]) -> Selection:
    """From the texts of `stream`, `topic`, `subscribe`, `subscribePattern` and `assign`.

    Raises:
        OptionError: none or several of these ways, or a wrong text.
    """
    named = values["stream"] is not None or values["topic"] is not None
    ways = [named, *(values[name] is not None for name in WAYS[1:])]
    if sum(ways) > 1:
        chosen = " and ".join(way for way, used in zip(WAYS, ways, strict=True) if used)
        raise OptionError(f"{chosen} exclude each other: keep one")
    if values["subscribe"] is not None:
        return Selection(_subscribed(values["subscribe"]))
    if values["subscribePattern"] is not None:
        return Selection(pattern=_pattern(values["subscribePattern"]))
    if values["assign"] is not None:
        return _assigned(values["assign"])
    for required in ("stream", "topic"):
        if values[required] is None:
            raise OptionError(
                f'{required} is missing: add .option("{required}", …), or select with '
                "subscribe, subscribePattern or assign"
            )
    return Selection((TopicName(values["stream"], values["topic"]),))


def _subscribed(text: str) -> tuple[TopicName, ...]:
    if text.lstrip().startswith("["):
        pairs = json_value("subscribe", text, _SUBSCRIBE)
    else:
        pairs = [part.strip().split("/") for part in text.split(",")]
    topics: list[TopicName] = []
    if not pairs:
        raise fail("subscribe", text, _SUBSCRIBE)
    for pair in pairs:
        if not isinstance(pair, list) or [type(part) for part in pair] != [str, str]:
            raise fail("subscribe", text, _SUBSCRIBE)
        topics.append(TopicName(*(resource_name("subscribe", part) for part in pair)))
    return distinct(topics, "subscribe")


def distinct(topics: list[TopicName], option: str) -> tuple[TopicName, ...]:
    """In the order of their names, which must tell them apart.

    Raises:
        OptionError: two have one name, or there are too many.
    """
    if len(topics) > TOPICS_MAX:
        raise OptionError(f"{option}: selects {len(topics)} topics, at most are {TOPICS_MAX}")
    by_name: dict[str, TopicName] = {}
    for topic in topics:
        if str(topic) in by_name:
            raise OptionError(
                f"{option}: {topic} is there twice: keep it once; topics whose streams and names "
                "together read the same cannot be in one query"
            )
        by_name[str(topic)] = topic
    return tuple(topic for _, topic in sorted(by_name.items()))


def _pattern(text: str) -> re.Pattern[str]:
    if not 1 <= len(text) <= PATTERN_CHARS_MAX:
        raise OptionError(f"subscribePattern: use 1 to {PATTERN_CHARS_MAX} characters")
    try:
        return re.compile(text)
    except re.error as error:
        expected = f"a regular expression of Python's re on stream/topic ({error})"
        raise fail("subscribePattern", text, expected) from None


def _assigned(text: str) -> Selection:
    value = json_value("assign", text, _ASSIGN)
    if not isinstance(value, dict) or not value:
        raise fail("assign", text, _ASSIGN)
    found: list[tuple[TopicName, Any]] = []
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            found += [(TopicName(name, topic), numbers) for topic, numbers in inner.items()]
        elif name.count("/") == 1:
            found.append((TopicName(*name.split("/")), inner))
        else:
            raise fail("assign", text, _ASSIGN)
    topics = distinct([name for name, _ in found], "assign")
    for part in (part for name in topics for part in name):
        resource_name("assign", part)
    return Selection(topics, None, {str(name): _numbers(text, numbers) for name, numbers in found})


def _numbers(text: str, numbers: Any) -> frozenset[int]:
    if not isinstance(numbers, list) or not numbers:
        raise fail("assign", text, _ASSIGN)
    if any(type(number) is not int or number < 0 for number in numbers):
        raise fail("assign", text, _ASSIGN)
    return frozenset(numbers)
