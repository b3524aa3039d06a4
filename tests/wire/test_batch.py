"""Building batches and going through their messages."""

import mmap
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import Body, make_batch
from iggy_wire import kernel
from iggy_wire.batch import (
    HEADERS_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    BatchHeader,
    Message,
    build,
    messages,
)
from iggy_wire.errors import ErrorCode, WireError

VECTORS = Path(__file__).parent / "vectors" / "batches"


def test_a_built_batch_is_admitted_and_has_the_broker_fields_zero() -> None:
    batch = build(
        [Message(b"a"), Message(b"b", id=5), Message(b"c", headers=b"hh")], origin_timestamp_us=9
    )

    assert kernel.verify(batch) == 0
    header = BatchHeader.decode(batch)
    assert (header.partition_id, header.base_offset, header.base_timestamp_us) == (0, 0, 0)
    assert (header.origin_timestamp_us, header.length, header.count) == (9, len(batch), 3)


def test_building_gives_the_bytes_of_an_independent_builder() -> None:
    contents = [(b"one", b"", 1, 0), (b"two", b"h", (1 << 128) - 1, 30)]
    expected = make_batch([Body(p, h, i, t) for p, h, i, t in contents])
    kernel.admit(expected, 0, 0, 0)

    built = build(
        [
            Message(p, id=i, headers=h, origin_timestamp_us=77 + t if t else 0)
            for p, h, i, t in contents
        ],
        origin_timestamp_us=77,
    )

    assert built == expected


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            Message,
            payload=st.binary(min_size=1, max_size=50),
            id=st.integers(0, (1 << 128) - 1),
            headers=st.binary(max_size=20),
            origin_timestamp_us=st.integers(1000, 1000 + (1 << 32) - 1),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_messages_come_back_as_they_were_built(sent: list[Message]) -> None:
    batch = build(sent, origin_timestamp_us=1000)
    assert kernel.admit(batch, 1, 500, 7) == 0

    read = list(messages(batch))

    assert read == [
        Message(m.payload, m.id, m.headers, 500 + index, 7, m.origin_timestamp_us)
        for index, m in enumerate(sent)
    ]


def test_recorded_messages_are_read() -> None:
    read = list(messages((VECTORS / "polled_two_batches.bin").read_bytes()))

    assert [(m.offset, m.timestamp_us) for m in read] == [
        (2, 1795813671491016),
        (3, 1795813671495355),
    ]
    assert [len(m.payload) for m in read] == [5, 6]


def test_a_header_is_read_anywhere_in_any_buffer() -> None:
    batch = build([Message(b"x")], origin_timestamp_us=3)
    with mmap.mmap(-1, 4096) as memory:
        memory[100 : 100 + len(batch)] = bytes(batch)
        assert BatchHeader.decode(memory, 100) == BatchHeader.decode(batch)


@pytest.mark.parametrize("at", [-1, 1, 305])
def test_a_header_that_is_not_there_is_refused(at: int) -> None:
    with pytest.raises(WireError, match="batch header") as caught:
        BatchHeader.decode(bytes(256), at)
    assert caught.value.code == ErrorCode.INVALID_FORMAT


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ([], ErrorCode.INVALID_MESSAGES_COUNT),
        ([Message(b"")], ErrorCode.INVALID_MESSAGE_PAYLOAD_LENGTH),
        ([Message(bytes(PAYLOAD_BYTES_MAX + 1))], ErrorCode.TOO_BIG_MESSAGE_PAYLOAD),
        ([Message(b"x", headers=bytes(HEADERS_BYTES_MAX + 1))], ErrorCode.TOO_BIG_USER_HEADERS),
        ([Message(b"x", id=1 << 128)], ErrorCode.INVALID_FORMAT),
        ([Message(b"x", id=-1)], ErrorCode.INVALID_FORMAT),
        ([Message(b"x", origin_timestamp_us=9)], ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA),
        (
            [Message(b"x", origin_timestamp_us=10 + (1 << 32))],
            ErrorCode.INVALID_MESSAGE_TIMESTAMP_DELTA,
        ),
    ],
)
def test_what_cannot_be_a_batch_is_refused(content: list[Message], code: ErrorCode) -> None:
    with pytest.raises(WireError) as caught:
        build(content, origin_timestamp_us=10)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (32, struct.pack("<Q", 1 << 40)),
        (32, struct.pack("<Q", 256)),
        (48, struct.pack("<I", 3)),
        (48, struct.pack("<I", 1)),
        (256 + 36, struct.pack("<I", 100)),
    ],
)
def test_lengths_that_do_not_fit_are_refused(at: int, value: bytes) -> None:
    batch = build([Message(b"a"), Message(b"b")], origin_timestamp_us=0)
    batch[at : at + len(value)] = value

    with pytest.raises(WireError, match="batch at byte 0"):
        list(messages(batch))
