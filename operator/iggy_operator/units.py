"""Durations and quantities as resources write them, as exact numbers."""

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

_DURATION_UNITS_US: Final = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_DURATION: Final = re.compile(r"(?:[0-9]+(?:ms|s|m|h|d|w))+")
_DURATION_PART: Final = re.compile(r"([0-9]+)(ms|s|m|h|d|w)")

# Kubernetes quantities: a decimal number with a binary suffix, a decimal suffix or an exponent.
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", start=1)},
    **{f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", start=1)},
}


def duration_us(text: str) -> int:
    """Microseconds of a duration such as `1h30m`. Raises ValueError for anything else."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration, such as 10s, 5m or 1h30m")
    parts = _DURATION_PART.findall(text)
    return sum(int(number) * _DURATION_UNITS_US[unit] for number, unit in parts)


def is_quantity(text: str) -> bool:
    """Whether this is a Kubernetes quantity."""
    return _QUANTITY.fullmatch(text) is not None


def quantity(text: str) -> Fraction:
    """The exact number of a quantity such as `20Gi`. Raises ValueError for anything else."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity, such as 10Gi")
    number = Fraction(match["number"].rstrip("."))
    if match["suffix"]:
        return number * _SUFFIXES[match["suffix"]]
    return number * Fraction(10) ** int(match["exponent"] or 0)


def quantity_bytes(text: str) -> int:
    """Whole bytes of a quantity, rounded up as Kubernetes does."""
    exact = quantity(text)
    return -(-exact.numerator // exact.denominator)


def time_text(seconds: float) -> str:
    """Whole seconds since 1970 as Kubernetes writes times: `2026-05-01T12:00:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(text: str) -> float:
    """Seconds since 1970 of such a text. Raises ValueError for anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone: write 2026-05-01T12:00:00Z")
    return moment.timestamp()
