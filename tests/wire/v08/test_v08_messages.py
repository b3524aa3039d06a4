"""Messages of the protocol up to 0.8, from and to batches."""

from __future__ import annotations

from struct import Struct

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_wire import batch, kernel
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.primitives import Identifier, Partitioning
from iggy_wire.replies import Polled
from iggy_wire.v08 import messages
from iggy_wire.v08.messages import Sent

HEADER = Struct("<Q16sQQQIIQ")
INDEX = Struct("<IIQ")
PLACE = Identifier("shop").encode() + Identifier(7).encode() + Partitioning.key("ada").encode()


def message_bytes(
    payload: bytes, *, id: int = 0, headers: bytes = b"", origin_us: int = 0
) -> bytes:
    """As a client of 0.8 sends it: without a checksum, offset and time."""
    raw_id = id.to_bytes(16, "little")
    head = HEADER.pack(0, raw_id, 0, 0, origin_us, len(headers), len(payload), 0)
    return head + payload + headers


def request(*sent: bytes, place: bytes = PLACE) -> bytes:
    metadata = place + len(sent).to_bytes(4, "little")
    index, end = b"", 0
    for one in sent:
        end += len(one)
        index += INDEX.pack(0, end, 0)
    return len(metadata).to_bytes(4, "little") + metadata + index + b"".join(sent)


def test_a_request_becomes_one_batch() -> None:
    sent = Sent.decode(
        request(
            message_bytes(b"one", id=5, origin_us=1_000),
            message_bytes(b"two", headers=b"raw", origin_us=400),
        )
    )
    assert (sent.stream, sent.topic) == (Identifier("shop"), Identifier(7))
    assert sent.partitioning == Partitioning.key("ada")
    (made,) = sent.requests()
    assert kernel.verify(made.batch) == 0
    first, second = batch.messages(made.batch)
    assert (first.payload, first.id, first.origin_timestamp_us) == (b"one", 5, 1_000)
    assert (second.payload, second.headers, second.origin_timestamp_us) == (b"two", b"raw", 400)
    assert second.id, "a message without an id gets one"


def test_messages_that_are_hours_apart_are_more_than_one_batch() -> None:
    hour_us = 3_600_000_000
    times = [0, hour_us, 2 * hour_us, 0]
    sent = Sent.decode(request(*(message_bytes(b"x", id=1, origin_us=at) for at in times)))
    parts = [
        [one.origin_timestamp_us for one in batch.messages(part.batch)] for part in sent.requests()
    ]
    assert parts == [[0, hour_us], [2 * hour_us], [0]]


@pytest.mark.parametrize("cut", range(0, 150, 7))
def test_a_request_that_is_cut_is_refused(cut: int) -> None:
    whole = request(message_bytes(b"one"), message_bytes(b"two"))
    with pytest.raises(WireError):
        Sent.decode(whole[:cut])
    with pytest.raises(WireError) as refused:
        Sent.decode(whole + b"x")
    assert refused.value.code == ErrorCode.INVALID_COMMAND


def test_a_count_that_cannot_be_is_refused_before_anything_is_made() -> None:
    metadata = PLACE + (0xFFFFFFFF).to_bytes(4, "little")
    with pytest.raises(WireError):
        Sent.decode(len(metadata).to_bytes(4, "little") + metadata)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=50), st.integers(1, 1 << 127)), max_size=9)
)
def test_what_is_polled_is_what_was_sent(given: list[tuple[bytes, int]]) -> None:
    origin_us, offset, region = 1_000_000, 70, b""
    if given:
        made = [
            batch.Message(payload, number, b"h" * (number % 3), origin_timestamp_us=origin_us)
            for payload, number in given
        ]
        stored = batch.build(made, origin_timestamp_us=origin_us)
        assert kernel.admit(stored, 3, offset, 2_000_000) == 0
        region = bytes(stored)
    body = Polled(3, offset + max(0, len(given) - 1), len(given), region).encode()
    payload = messages.polled_payload(body)
    at = 16
    for number, (data, message_id) in enumerate(given):
        fields = HEADER.unpack_from(payload, at)
        size = HEADER.size + fields[5] + fields[6]
        checksum, raw_id, found, time_us, origin, headers_bytes, payload_bytes, rest = fields
        assert int.from_bytes(raw_id, "little") == message_id
        assert (found, time_us, origin, rest) == (offset + number, 2_000_000, origin_us, 0)
        assert payload[at + HEADER.size : at + HEADER.size + payload_bytes] == data
        assert headers_bytes == message_id % 3
        assert checksum == xxhash.xxh3_64_intdigest(payload[at + 8 : at + size])
        at += size
    assert at == len(payload)
