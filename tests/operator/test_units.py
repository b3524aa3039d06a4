from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_operator import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [("500ms", 500_000), ("10s", 10_000_000), ("1h30m", 5_400_000_000), ("1w", 604_800_000_000)],
)
def test_a_duration_is_microseconds(text: str, expected: int) -> None:
    assert units.duration_us(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1Ki", 1024), ("20Gi", 20 << 30), ("1G", 10**9), ("1.5k", 1500), ("1e3", 1000), ("2.", 2),
     ("100m", Fraction(1, 10)), ("-1", -1), (".5Mi", 1 << 19)],
)  # fmt: skip
def test_a_quantity_is_exact(text: str, expected: Fraction) -> None:
    assert units.quantity(text) == expected


@pytest.mark.parametrize("text", ["", "10XB", "1 Gi", "Gi", "1e999999999", "lots", "10Gi\n", "1ki"])
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    assert not units.is_quantity(text)
    with pytest.raises(ValueError, match="such as 10Gi"):
        units.quantity(text)


@pytest.mark.parametrize("text", ["", "1 fortnight", "7 days", "10", "-1s", "1.5h", "10s\n"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 10s"):
        units.duration_us(text)


def test_bytes_are_rounded_up() -> None:
    assert units.quantity_bytes("1500m") == 2


@settings(deadline=None)
@given(st.text(max_size=20))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    assert units.is_quantity(text) == _is_number(text)


def _is_number(text: str) -> bool:
    try:
        return isinstance(units.quantity(text), Fraction)
    except ValueError:
        return False
