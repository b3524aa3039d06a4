"""User headers of clients up to 0.6, and how such a client is told."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_wire.errors import WireError
from iggy_wire.v08 import v06

STRING = b"\x02"
PAIRS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=9), st.integers(1, 15), st.binary(max_size=9))
)


def pair(key: bytes, kind: int, value: bytes) -> bytes:
    sized = [len(one).to_bytes(4, "little") + one for one in (key, value)]
    return sized[0] + bytes((kind,)) + sized[1]


@given(PAIRS)
def test_headers_go_there_and_back(given: list[tuple[bytes, int, bytes]]) -> None:
    theirs = b"".join(pair(*one) for one in given)
    stored = v06.with_key_kinds(theirs)
    assert stored == b"".join(STRING + pair(*one) for one in given)
    assert v06.without_key_kinds(stored) == theirs


@given(st.binary(max_size=60))
def test_any_bytes_are_headers_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireError):
        assert v06.without_key_kinds(v06.with_key_kinds(data)) == data
    v06.without_key_kinds(data)


def test_a_key_that_is_no_text_is_left_out() -> None:
    text, number = STRING + pair(b"k", 2, b"v"), b"\x04" + pair(b"\x07", 2, b"v")
    assert v06.without_key_kinds(number + text + number) == text[1:]
    assert v06.without_key_kinds(text + b"\x02\xff") == b""


@pytest.mark.parametrize(
    ("version", "context", "expected"),
    [
        ("0.7.0", "", True),  # Python 0.5
        ("0.8.0", "", True),  # Python 0.6
        ("0.8.2-edge.1", "", True),
        ("0.9.0", "", False),  # Python 0.7
        ("0.10.0", "", False),  # Python 0.8
        ("0.8.0", "java", False),
        ("1.8.0", "", False),
        ("unknown", "", False),
        ("", "", False),
    ],
)
def test_which_login_tells(version: str, context: str, expected: bool) -> None:
    assert v06.is_v06(version, context) is expected
