"""`python bench/kernel.py`: both kernels side by side, in microseconds a call and as ratios.

CPU time of this process, the implementations taking turns, the best of several rounds each: other
work on the machine changes such short calls by more than anything else.
"""

import sys
import time
from collections.abc import Callable
from types import ModuleType

from iggy_wire import _kernel_plain
from iggy_wire.batch import Message, build

try:
    from iggy_wire import _kernel
except ImportError:
    sys.exit("the kernel is not compiled: python setup.py build_ext --inplace")

ROUNDS = 7
ROUND_S = 0.04
Call = Callable[[ModuleType], object]


def region_of(batches: int, messages: int, payload_bytes: int) -> bytes:
    """Stored batches with dense offsets."""
    content = [Message(bytes(payload_bytes), id=index + 1) for index in range(messages)]
    region = bytearray()
    for number in range(batches):
        batch = build(content, origin_timestamp_us=1)
        assert _kernel.admit(batch, 1, number * messages, number) == 0
        region += batch
    return bytes(region)


def cases() -> list[tuple[str, int, Call]]:
    """(name, bytes it works on, call)."""
    one, hundred, thousand = (
        bytearray(region_of(1, *shape)) for shape in ((1, 100), (100, 100), (1000, 1000))
    )
    small, large = region_of(2000, 1, 100), region_of(4, 1000, 1000)
    middling = region_of(40, 100, 100)
    everything = 1 << 62
    return [
        ("admit 1 x 100 B", len(one), lambda k: k.admit(one, 1, 2, 3)),
        ("admit 100 x 100 B", len(hundred), lambda k: k.admit(hundred, 1, 2, 3)),
        ("admit 1,000 x 1,000 B", len(thousand), lambda k: k.admit(thousand, 1, 2, 3)),
        ("locate in 2,000 batches", len(small), lambda k: k.locate(small, 1999)),
        ("select 1 of 1 x 100 B", len(one), lambda k: k.select(one, 0, 1)),
        ("select 500 of 1,000, cut", len(large), lambda k: k.select(large, 250, 500)),
        ("select 4,000 in 4 whole", len(large), lambda k: k.select(large, 0, 4000)),
        ("select 2,000 in 2,000", len(small), lambda k: k.select(small, 0, 2000)),
        (
            "scan 2,000 x 1 x 100 B",
            len(small),
            lambda k: k.scan(small, 0, frames=False, index_bytes=4096),
        ),
        (
            "scan 4 x 1,000 x 1,000 B",
            len(large),
            lambda k: k.scan(large, 0, frames=False, index_bytes=4096),
        ),
        (
            "scan the same with frames",
            len(large),
            lambda k: k.scan(large, 0, frames=True, index_bytes=4096),
        ),
        ("columns 4,000 x 1,000 B", len(large), lambda k: k.columns(large, 0, everything)),
        (
            "columns, checked",
            len(large),
            lambda k: k.columns(large, 0, everything, verify=True),
        ),
        ("columns 4,000 x 100 B", len(middling), lambda k: k.columns(middling, 0, everything)),
    ]


def round_us(call: Call, kernel: ModuleType, calls: int) -> float:
    """Microseconds of CPU a call, over one round."""
    start = time.process_time_ns()
    for _ in range(calls):
        call(kernel)
    return (time.process_time_ns() - start) / calls / 1000


def measure(call: Call) -> tuple[float, float]:
    """Best microseconds of (compiled, plain)."""
    best = [float("inf"), float("inf")]
    kernels = (_kernel, _kernel_plain)
    calls = [max(1, int(ROUND_S * 1e6 / round_us(call, kernel, 3))) for kernel in kernels]
    for _ in range(ROUNDS):
        for index, kernel in enumerate(kernels):
            best[index] = min(best[index], round_us(call, kernel, calls[index]))
    return best[0], best[1]


def main() -> None:
    """Print the table."""
    print(f"hash code: {('every machine', 'AVX2', 'AVX-512')[_kernel.hash_level()]}")
    print(f"{'':28}{'compiled':>12}{'plain':>12}{'ratio':>8}{'GB/s':>8}")
    for name, size, call in cases():
        compiled_us, plain_us = measure(call)
        print(
            f"{name:28}{compiled_us:9.2f} µs{plain_us:9.1f} µs"
            f"{plain_us / compiled_us:8.0f}{size / compiled_us / 1000:8.1f}"
        )


if __name__ == "__main__":
    main()
