"""Messages for decoders, without a broker."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from iggy_spark.messages import Messages
from iggy_wire.kernel import Columns

STREAM, TOPIC, INCARNATION, PARTITION = "shop", "orders", "7-1795812995756186", 3
FIRST_OFFSET = 100
TIMESTAMP_US = 1_774_746_000_123_456  # 2026-03-29T01:00:00.123456Z
ORIGIN_US = TIMESTAMP_US - 1500


def messages(count: int, *, headers: Sequence[bytes] = ()) -> Messages:
    """`count` messages, one offset, one microsecond and one id after another."""
    blocks = [*headers, *[b""] * (count - len(headers))]
    ends = [sum(map(len, blocks[:at])) for at in range(count + 1)]
    columns = Columns(
        count=count,
        offsets=_int64(FIRST_OFFSET, count),
        timestamps_us=_int64(TIMESTAMP_US, count),
        origin_timestamps_us=_int64(ORIGIN_US, count),
        ids=b"".join(number.to_bytes(16, "little") for number in range(1, count + 1)),
        payload_offsets=b"",  # payloads are given beside it
        payloads=b"",
        header_offsets=struct.pack(f"<{count + 1}i", *ends),
        headers=b"".join(blocks),
    )
    return Messages(columns, STREAM, TOPIC, INCARNATION, PARTITION)


def _int64(first: int, count: int) -> bytes:
    return struct.pack(f"<{count}q", *range(first, first + count))
