"""Options of `topic create` and `topic update`, as the broker takes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from iggy_operator import units
from iggy_wire.options import TOPIC_OPTION_KINDS, Value, ValueKind
from iggy_wire.primitives import EXPIRY_NEVER, SIZE_UNLIMITED
from iggykube.option_types import Parsed, size

SIZE_MAX: Final = SIZE_UNLIMITED - 1
_EXTRA: Final = sorted(TOPIC_OPTION_KINDS)


def _expiry(text: str) -> int:
    if text == "never":
        return EXPIRY_NEVER
    try:
        return units.duration_us(text)
    except ValueError:
        raise ValueError("is no expiry: never, or a duration such as 7d or 12h") from None


def _limit(text: str) -> int:
    return SIZE_UNLIMITED if text == "unlimited" else size(SIZE_MAX)(text)


def _extra(text: str) -> tuple[str, Value]:
    """NAME=VALUE of an option of the protocol."""
    name, equals, value = text.partition("=")
    if not equals or name not in TOPIC_OPTION_KINDS:
        raise ValueError(f"must be NAME=VALUE with one of {', '.join(_EXTRA)}")
    kind = TOPIC_OPTION_KINDS[name]
    if kind == ValueKind.STRING:
        return name, value
    if kind == ValueKind.BOOL:
        if value not in ("true", "false"):
            raise ValueError(f"must be {name}=true or {name}=false")
        return name, value == "true"
    if not value.isdecimal():
        raise ValueError(f"must be {name}=NUMBER")
    return name, int(value)


_OPTIONS: Final = (
    click.option(
        "--expiry",
        type=Parsed("duration", _expiry),
        metavar="DURATION",
        help="How long messages are kept: never, or such as 7d. Else the broker's setting.",
    ),
    click.option(
        "--max-size",
        type=Parsed("size", _limit),
        metavar="SIZE",
        help="The oldest messages go above it: unlimited, or such as 10GiB. Else the broker's "
        "setting.",
    ),
    click.option(
        "--segment-size",
        type=Parsed("size", size(SIZE_MAX)),
        metavar="SIZE",
        help="How large a file of messages grows, such as 256MiB: what retention removes at once.",
    ),
    click.option(
        "--durability",
        type=click.Choice(["replicated", "persisted"]),
        help="persisted: on the disk for good before the answer. replicated: outlives the process.",
    ),
    click.option(
        "--option",
        "extra",
        multiple=True,
        type=Parsed("name=value", _extra),
        metavar="NAME=VALUE",
        help="Any other option of the protocol, such as messages_required_to_save=100. Repeatable.",
    ),
)


def topic_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add them; the command gets `options`, those that were given. To be put directly above it."""

    @wraps(command)
    def with_options(
        expiry: int | None,
        max_size: int | None,
        segment_size: int | None,
        durability: str | None,
        extra: tuple[tuple[str, Value], ...],
        **values: Any,
    ) -> Any:
        given: dict[str, Value | None] = {
            "message_expiry": expiry,
            "max_topic_size": max_size,
            "segment_size": segment_size,
            "durability": durability,
        }
        options = {name: value for name, value in given.items() if value is not None}
        return command(options=options | dict(extra), **values)

    made: Callable[..., Any] = with_options
    for option in reversed(_OPTIONS):
        made = option(made)
    return made
