"""How input is cut and how messages are shown: plain functions."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_wire.batch import Message
from iggy_wire.errors import WireError
from iggy_wire.options import Option, ValueKind, pair_bytes
from iggykube import headers, records, sheet
from iggykube.producer import Report
from iggykube.records import InputProblem, Splitter


@given(st.lists(st.binary(max_size=20), max_size=20), st.sampled_from([b"\n", b"\0"]))
def test_records_are_what_stands_between_separators(chunks: list[bytes], separator: bytes) -> None:
    splitter = Splitter(separator)

    found = [record for chunk in chunks for record in splitter.feed(chunk)]
    found.append(splitter.finish())

    assert found == b"".join(chunks).split(separator)


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 6, b"xxxxx\nrest"]])
def test_a_record_that_is_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch, chunks: list[bytes]
) -> None:
    monkeypatch.setattr(records, "RECORD_BYTES_MAX", 10)
    splitter = Splitter(b"\n")

    with pytest.raises(InputProblem, match="at most 10 bytes"):
        for chunk in chunks:
            splitter.feed(chunk)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=60).filter(lambda text: len(text.encode()) < 256),
        st.text(min_size=1, max_size=60).filter(lambda text: len(text.encode()) < 256),
        max_size=5,
    )
)
def test_headers_of_text_come_back(values: dict[str, str]) -> None:
    assert headers.decode(headers.encode(values)) == values


def block(kind: ValueKind, value: bytes) -> bytes:
    return pair_bytes(ValueKind.STRING, b"k", kind, value)


@pytest.mark.parametrize(
    ("encoded", "shown"),
    [
        (b"", {}),
        (block(ValueKind.BOOL, b"\1"), {"k": True}),
        (block(ValueKind.BOOL, b"\2"), {"k": {"base64": "Ag=="}}),
        (block(ValueKind.INT8, b"\xff"), {"k": -1}),
        (block(ValueKind.UINT64, b"\xff" * 8), {"k": (1 << 64) - 1}),
        (block(ValueKind.FLOAT32, b"\0\0\x80\x7f"), {"k": "inf"}),
        (block(ValueKind.FLOAT64, b"\0" * 8), {"k": 0.0}),
        (block(ValueKind.STRING, b"\xff"), {"k": {"base64": "/w=="}}),
        (pair_bytes(ValueKind.INT8, b"\7", ValueKind.STRING, b"v"), {"int8:07": "v"}),
        (pair_bytes(99, b"\7", 99, b"v"), {"99:07": {"base64": "dg=="}}),
    ],
)
def test_headers_of_every_kind_are_shown(encoded: bytes, shown: dict[str, Any]) -> None:
    assert headers.decode(encoded) == shown


@pytest.mark.parametrize("encoded", [b"\1", b"\2\1\0\0\0k\2\xff\0\0\0v", b"garbage of some length"])
def test_headers_that_are_none_are_refused(encoded: bytes) -> None:
    with pytest.raises(WireError):
        headers.decode(encoded)


def test_headers_have_a_limit() -> None:
    with pytest.raises(WireError, match="100000"):
        headers.encode({f"{number:0>250}": "v" * 250 for number in range(200)})


def test_an_option_of_the_same_layout_is_read_alike() -> None:
    option = Option.of("k", "v")

    assert headers.encode({"k": "v"}) == block(ValueKind(option.kind), option.value)


@given(st.binary(max_size=40))
def test_every_payload_is_one_line_of_json_and_comes_back(payload: bytes) -> None:
    line = sheet.json_line(3, Message(payload, id=7, offset=1, timestamp_us=2))

    assert line.count(b"\n") == 1
    shown = json.loads(line)
    if shown["payload_encoding"] == "utf8":
        assert shown["payload"].encode() == payload
    else:
        assert base64.b64decode(shown["payload"]) == payload


@given(st.binary(max_size=40))
def test_text_is_one_line_that_a_terminal_shows(payload: bytes) -> None:
    line = sheet.text_line(0, Message(payload)).decode()

    assert line.endswith("\n")
    assert line[:-1].isprintable()


@pytest.mark.parametrize(
    ("timestamp_us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_774_745_999_999_999, "2026-03-29T00:59:59.999999Z"),
        ((1 << 64) - 1, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_exact(timestamp_us: int, text: str) -> None:
    assert sheet.moment(timestamp_us) == text


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Report(), "0 messages acknowledged"),
        (Report(acknowledged=1), "1 message acknowledged"),
        (
            Report(acknowledged=1000, unanswered=24, left_out=2),
            "1,000 messages acknowledged, 24 messages sent without an answer, 2 empty lines "
            "left out",
        ),
    ],
)
def test_what_became_of_the_messages_is_a_line(report: Report, words: str) -> None:
    assert report.told() == words
