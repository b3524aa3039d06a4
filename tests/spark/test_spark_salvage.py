"""Stored batches of which one is damaged: all of the others are read, and the hole is exact."""

import pytest

from iggy_spark.salvage import Hole, salvaged
from iggy_wire import kernel
from iggy_wire.batch import Message, build

BATCHES, MESSAGES = 5, 10


def batch(first: int) -> bytes:
    made = build([Message(b"m%d" % n) for n in range(MESSAGES)], origin_timestamp_us=5)
    assert kernel.admit(made, 3, first, 1_000_000) == 0
    return bytes(made)


def found_in(region: bytes, first: int, end: int) -> tuple[list[int], list[Hole]]:
    offsets: list[int] = []
    holes: list[Hole] = []
    for item in salvaged(region, first, end):
        if isinstance(item, Hole):
            holes.append(item)
        else:
            offsets += memoryview(item.offsets).cast("q")
    return offsets, holes


@pytest.mark.parametrize("number", range(BATCHES))
@pytest.mark.parametrize("at", [8, 40, 250, 300, 400])  # base offset, checksum, zeros, frames
def test_one_batch_is_left_out(number: int, at: int) -> None:
    batches = [bytearray(batch(100 + MESSAGES * n)) for n in range(BATCHES)]
    batches[number][at] ^= 1
    bad = range(100 + MESSAGES * number, 100 + MESSAGES * (number + 1))

    for first, end in [(100, 150), (bad.start, 150), (103, 147)]:
        offsets, holes = found_in(b"".join(batches[(first - 100) // MESSAGES :]), first, end)
        assert offsets == [n for n in range(first, end) if n not in bad]
        assert holes == [Hole(max(first, bad.start), min(end, bad.stop))]


def test_without_a_length_all_that_follows_is_lost() -> None:
    batches = [bytearray(batch(100 + MESSAGES * n)) for n in range(BATCHES)]
    batches[2][32:40] = bytes(8)

    assert found_in(b"".join(batches), 100, 150) == (list(range(100, 120)), [Hole(120, 150)])
    assert found_in(b"".join(batches[:2])[:-1], 100, 120) == (
        list(range(100, 110)), [Hole(110, 120)],
    )  # fmt: skip
