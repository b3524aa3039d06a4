"""Damaged batches through both kernels: `python tests/support/kernel_damage.py SEED ROUNDS`.

Run it with PYTHONMALLOC=debug: then a byte written behind an allocation ends the process. The
inputs lie before a forbidden page, so a byte read behind them does the same.
"""

import random
import struct
import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType

from batches import Body, expected_fault, make_batch, reseal
from iggy_wire import _kernel_plain
from kernels import Fence, compiled

FIELDS_64 = [0, 8, 16, 24, 32, 40, 256, 296]
FIELDS_32 = [48, 280, 284, 288, 292]
VALUES = [0, 1, 2, 3, 47, 48, 49, 96, 144, 255, 256, 257, 303, 304, 305, 1 << 31, (1 << 32) - 1]
VALUES += [(1 << 62) - 1, 1 << 62, 1 << 63, (1 << 64) - 1]
FENCE = Fence(1 << 16)


def damage(batch: bytearray, rng: random.Random) -> None:
    """Overwrite one field or byte."""
    if rng.random() < 0.4:
        value = rng.choice([*VALUES, len(batch)])
        struct.pack_into("<Q", batch, rng.choice(FIELDS_64), value)
    elif rng.random() < 0.6:
        value = rng.choice([*VALUES, rng.randrange(len(batch))]) & 0xFFFFFFFF
        struct.pack_into("<I", batch, rng.choice(FIELDS_32), value)
    else:
        batch[rng.randrange(len(batch))] = rng.getrandbits(8)


def make_region(rng: random.Random) -> bytes:
    """Up to three batches, most of them wrong somewhere, perhaps torn or followed by zeros."""
    region = bytearray()
    for _ in range(rng.randint(0, 3)):
        content = [
            Body(
                rng.randbytes(rng.choice([0, 1, 30, 250])),
                rng.randbytes(rng.choice([0, 0, 5])),
                rng.getrandbits(128),
                rng.getrandbits(32),
            )
            for _ in range(rng.randint(1, 4))
        ]
        batch = make_batch(
            content,
            offset=rng.choice([0, 5, (1 << 62) - 3]),
            timestamp_us=rng.getrandbits(rng.choice([3, 64])),
            first_delta=rng.choice([0, 0, 0, 2]),
        )
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            damage(batch, rng)
        region += reseal(batch) if rng.random() < 0.6 else batch
    if rng.random() < 0.3:
        region = region[: rng.randint(0, len(region))]
    return bytes(region + bytes(rng.choice([0, 0, 0, 0, 1, 400])))


def answer(call: Callable[[], object]) -> object:
    """What came back, or which refusal did."""
    try:
        return call()
    except ValueError as refusal:
        return type(refusal).__name__, str(refusal)


def answers(kernel: ModuleType, region: bytes, rng: random.Random) -> list[object]:
    """Every function on the same bytes; the writing ones last."""
    data = FENCE.place(region)
    offset = rng.choice([0, 1, 3, 5, 7, (1 << 62) - 3, 1 << 62, -1])
    end = offset + rng.choice([0, 1, 3, 100, -2])
    count = rng.randint(-1, 8)
    calls: list[Callable[[], object]] = [
        lambda: kernel.verify(data),
        lambda: kernel.scan(data, offset, frames=True, index_bytes=count),
        lambda: kernel.scan(data, -1, frames=False, index_bytes=0),
        lambda: kernel.locate(data, offset),
        lambda: kernel.locate_time(data, count),
        lambda: kernel.select(data, offset, count),
        lambda: kernel.columns(data, offset, end),
        lambda: kernel.columns(data, 0, 1 << 62, verify=True),
        lambda: (kernel.admit(data, 1, 2, 3), bytes(data)),
        lambda: (kernel.seal(data), bytes(data)),
    ]
    return [answer(call) for call in calls]


def main(seed: int, rounds: int) -> Counter[int]:
    """How often each admission code came out. AssertionError names the input that differs."""
    assert compiled is not None, "compile the kernel first"
    codes: Counter[int] = Counter()
    for number in range(rounds):
        region = make_region(random.Random(f"{seed}/{number}"))
        both = [
            answers(kernel, region, random.Random(f"{seed}/{number}/calls"))
            for kernel in (compiled, _kernel_plain)
        ]
        assert both[0] == both[1], (number, region.hex(), both)
        assert both[0][0] == expected_fault(region), (number, region.hex())
        codes[expected_fault(region)] += 1
    return codes


if __name__ == "__main__":
    sys.stdout.write(f"{dict(main(int(sys.argv[1]), int(sys.argv[2])))}\n")
