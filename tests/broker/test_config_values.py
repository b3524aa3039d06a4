"""Sizes, durations and addresses as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_broker import config_values as values
from iggy_broker.config_values import UNLIMITED, Address, Secret

HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        (0, 0), (1048576, 1048576), ("1048576", 1048576), ("0", 0), ("12 B", 12),
        ("2 MB", 2_000_000), ("2mb", 2_000_000), ("512MiB", 512 << 20), ("1 gib", 1 << 30),
        ("1 GB", 10**9), ("1.5 KiB", 1536), ("0.1 KB", 100), ("1 TiB", 1 << 40), ("4K", 4000),
        ("4Ki", 4096), (" 7 b ", 7),
    ],
)  # fmt: skip
def test_sizes(text: object, size_bytes: int) -> None:
    assert values.size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1 PiB", "1,5 GB", "1 GiB x", "99999 TiB TiB",
                                  "99999999999 TiB", True, 1.5, None, [], -1, 1 << 64])  # fmt: skip
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(ValueError, match="write a size"):
        values.size(text)


def test_a_frame_is_larger_than_its_header_and_fits_into_memory() -> None:
    assert values.frame_size("1 KiB") == 1024
    assert values.frame_size("1 GiB") == 1 << 30
    for text in ("256 B", "0", "1025 MiB"):
        with pytest.raises(ValueError, match="from 1 KiB to 1 GiB"):
            values.frame_size(text)


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        ("5 s", 5_000_000), ("5s", 5_000_000), ("1h 30m", HOUR_US * 3 // 2), ("50 ms", 50_000),
        ("2 days 4 hours 15 minutes", 52 * HOUR_US + 900_000_000), ("7 days", 168 * HOUR_US),
        ("10 us", 10), ("1500 ns", 1), ("1 week", 168 * HOUR_US), ("1 M", 60_000_000),
        ("0", 0), ("none", 0), ("Unlimited", 0), ("disabled", 0), (0, 0),
        ("1month", 2_630_016_000_000),
        ("1 year", 31_557_600_000_000),
    ],
)  # fmt: skip
def test_durations(text: object, duration_us: int) -> None:
    assert values.duration(text) == duration_us


@pytest.mark.parametrize("text", ["", "5", 5, "5 parsecs", "s", "1.5 s", "5 s -", True, None, []])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        values.duration(text)


def test_a_period_of_nothing_is_refused() -> None:
    assert values.positive_duration("1 ms") == 1000
    with pytest.raises(ValueError, match="above 0"):
        values.positive_duration("0")


@pytest.mark.parametrize(
    ("text", "expiry_us"),
    [("1 h", HOUR_US), ("never_expire", UNLIMITED), ("Never_expire", UNLIMITED),
     ("none", UNLIMITED), ("unlimited", UNLIMITED), ("server_default", 0), ("default", 0),
     ("0", 0)],
)  # fmt: skip
def test_expiries(text: str, expiry_us: int) -> None:
    assert values.expiry(text) == expiry_us


def test_an_expiry_beyond_what_clients_know_is_refused() -> None:
    with pytest.raises(ValueError, match="136 years"):
        values.expiry("200 years")


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("unlimited", UNLIMITED), ("none", UNLIMITED), ("server_default", 0), ("0", 0),
     ("1 GiB", 1 << 30), (UNLIMITED, UNLIMITED)],
)  # fmt: skip
def test_topic_sizes(text: object, size_bytes: int) -> None:
    assert values.topic_size(text) == size_bytes


@given(st.one_of(st.integers(0, 1 << 50), st.just(UNLIMITED)))
def test_what_is_shown_reads_back(number: int) -> None:
    assert values.topic_size(values.show_size(number)) == number
    if number:
        parse = values.expiry if number > values.EXPIRY_US_MAX else values.duration
        shown = values.show_duration(number)
        assert number == UNLIMITED or values.duration(shown) == number
        assert number != UNLIMITED or parse(shown) == number


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8090", Address("127.0.0.1", 8090)), ("[::1]:0", Address("::1", 0)),
     ("broker.iggy.svc:65535", Address("broker.iggy.svc", 65535))],
)  # fmt: skip
def test_addresses(text: str, address: Address) -> None:
    assert values.address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "8090", ":8090", "host:", "host:65536", "::1:80", "h:x", 1])
def test_what_is_no_address(text: object) -> None:
    with pytest.raises(ValueError, match="host"):
        values.address(text)


@pytest.mark.parametrize(
    ("text", "cores"),
    [("all", 0), ("ALL", 0), (4, 4), ("4", 4), ("0..3", 3), ("2..8", 6), ("numa:auto", 0)],
)
def test_cpu_allocations(text: object, cores: int) -> None:
    assert values.cores_wanted(values.cpu_allocation(text)) == cores


@pytest.mark.parametrize("text", ["0", "3..3", "4..1", "some", "-1", "", True, 1.5])
def test_what_is_no_cpu_allocation(text: object) -> None:
    with pytest.raises(ValueError, match="write all"):
        values.cpu_allocation(text)


@pytest.mark.parametrize(
    ("parse", "good", "bad"),
    [
        (values.boolean, [True, "true", "FALSE"], ["yes", 1, "", None]),
        (values.whole(1, 10), [1, "10"], [0, 11, "x", True, "1.0", 1.0]),
        (values.choice("disk", "s3"), ["disk", "S3"], ["tape", 3]),
        (values.text, ["5", ""], [5, None]),
        (values.path, ["data"], ["", 5]),
    ],
)
def test_the_simple_ones(
    parse: Callable[[object], object], good: list[object], bad: list[object]
) -> None:
    assert [parse(value) for value in good]
    for value in bad:
        with pytest.raises(ValueError, match="write"):
            parse(value)


def test_a_secret_does_not_show() -> None:
    assert repr(Secret("hunter2")) == "'***'"
    assert f"{[Secret('hunter2')]}" == "['***']"
    assert Secret("hunter2") == "hunter2"
