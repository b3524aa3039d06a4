"""Whatever the bytes say: no crash, no read past the end, and three opinions that agree.

The bytes lie in front of a page that may not be touched, so the compiled kernel, whose bounds
checks are its own, would take the process down at the first byte too far.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batches import Body, expected_fault, make_batch, read_all, reseal
from iggy_wire import _kernel_plain
from iggy_wire import batch as batches
from iggy_wire import kernel as facade
from iggy_wire.errors import WireError
from kernels import Fence, compiled, on_both

FENCE = Fence(1 << 20)
FIELDS_64 = [0, 8, 16, 24, 32, 40, 256, 256 + 40]
FIELDS_32 = [48, 256 + 24, 256 + 28, 256 + 32, 256 + 36]
VALUES = [
    0,
    1,
    2,
    47,
    48,
    255,
    256,
    303,
    304,
    1 << 31,
    (1 << 32) - 1,
    1 << 62,
    1 << 63,
    (1 << 64) - 1,
]

bodies = st.lists(
    st.builds(
        Body,
        payload=st.binary(max_size=300),
        headers=st.binary(max_size=20),
        id=st.integers(0, (1 << 128) - 1),
        time_delta=st.integers(0, (1 << 32) - 1),
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def whole_regions(draw: st.DrawFn) -> bytes:
    """Whole, valid batches with dense offsets; the first one may have been cut."""
    delta = draw(st.integers(0, 3))
    base = draw(st.sampled_from([0, 1, 1000, (1 << 62) - 100]))
    region = bytearray()
    for number in range(draw(st.integers(0, 4))):
        content = draw(bodies)
        region += make_batch(content, offset=base, timestamp_us=number * 10, first_delta=delta)
        base += delta + len(content)
        delta = 0
    return bytes(region)


@st.composite
def damaged_regions(draw: st.DrawFn) -> bytes:
    """Batches with fields overwritten, perhaps resealed, cut short, and with bytes behind."""
    region = bytearray()
    for _ in range(draw(st.integers(1, 3))):
        batch = make_batch(draw(bodies), offset=draw(st.sampled_from([0, 1, 7])))
        for at in draw(st.lists(st.sampled_from(FIELDS_64), max_size=1)):
            struct.pack_into("<Q", batch, at, draw(st.sampled_from([*VALUES, len(batch)])))
        for at in draw(st.lists(st.sampled_from(FIELDS_32), max_size=1)):
            value = draw(st.sampled_from(VALUES)) & 0xFFFFFFFF
            struct.pack_into("<I", batch, at, value)
        for at in draw(st.lists(st.integers(0, len(batch) - 1), max_size=2)):
            batch[at] = draw(st.integers(0, 255))
        region += reseal(batch) if draw(st.booleans()) else batch
    region += draw(st.sampled_from([b"", b"\x00", bytes(300)]))
    return bytes(region[: draw(st.integers(0, len(region)) | st.just(len(region)))])


anything = st.binary(max_size=700) | damaged_regions() | whole_regions()
offsets = st.integers(-2, 1010) | st.sampled_from([1 << 62, (1 << 62) - 98, 1 << 63, 1 << 64])
counts = st.integers(-1, 30) | st.just(1 << 40)


def answer(call: Callable[[], object]) -> object:
    """What came back, or which refusal did."""
    try:
        return call()
    except (ValueError, WireError) as refusal:
        return type(refusal).__name__, str(refusal)


def calls(
    kernel: ModuleType, data: memoryview, offset: int, other: int, count: int
) -> list[Callable[[], object]]:
    """Every function, on the same bytes."""
    return [
        lambda: kernel.verify(data),
        lambda: kernel.scan(data, offset, frames=True, index_bytes=count),
        lambda: kernel.scan(data, -1, frames=False, index_bytes=0),
        lambda: kernel.locate(data, offset),
        lambda: kernel.locate_time(data, offset),
        lambda: kernel.select(data, offset, count),
        lambda: kernel.columns(data, offset, other),
        lambda: kernel.columns(data, offset, other, verify=True),
        lambda: (kernel.admit(data, 1, 2, 3), bytes(data)),
        lambda: (kernel.seal(data), bytes(data)),
        lambda: bytes(data),
    ]


@pytest.mark.skipif(compiled is None, reason="the kernel is not compiled")
@settings(deadline=None, max_examples=150)
@given(data=anything, offset=offsets, other=offsets, count=counts)
def test_both_kernels_give_the_same_answers(
    data: bytes, offset: int, other: int, count: int
) -> None:
    assert compiled is not None
    answers = [
        [answer(call) for call in calls(kernel, FENCE.place(data), offset, other, count)]
        for kernel in (compiled, _kernel_plain)
    ]

    assert answers[0] == answers[1]


@on_both
@settings(deadline=None, max_examples=80)
@given(data=anything)
def test_admission_agrees_with_the_reference(kernel: ModuleType, data: bytes) -> None:
    code = expected_fault(data)
    view = FENCE.place(data)

    assert kernel.verify(view) == code
    assert kernel.admit(view, 3, 4, 5) == code
    assert (bytes(view) == data) if code else (bytes(view[:24]) == struct.pack("<QQQ", 3, 4, 5))


@on_both
@settings(deadline=None, max_examples=80)
@given(region=whole_regions(), offset=offsets, count=counts, end=offsets)
def test_good_regions_are_read_as_the_reference_reads_them(
    kernel: ModuleType, region: bytes, offset: int, count: int, end: int
) -> None:
    everything = read_all(region)
    view = FENCE.place(region)

    chosen = kernel.select(view, offset, count)
    wanted = [message for message in everything if message.offset >= offset][: max(0, count)]
    assert read_all(chosen.head + region[chosen.start : chosen.end] + chosen.tail) == wanted
    assert kernel.columns(view, offset, end, verify=True).count == sum(
        offset <= message.offset < end for message in everything
    )
    behind = region[kernel.locate(view, offset) :]
    assert [m for m in read_all(behind) if m.offset >= offset] == [
        m for m in everything if m.offset >= offset
    ]
    walk = kernel.scan(view, -1, frames=True, index_bytes=0)
    assert (walk.end, walk.messages, walk.reason) == (len(region), len(everything), 0)


@pytest.mark.skipif(compiled is None, reason="the kernel is not compiled")
def test_damaged_batches_never_make_it_write_behind_its_own_memory() -> None:
    script = Path(__file__).parents[1] / "support" / "kernel_damage.py"
    package = Path(facade.__file__).parents[1]

    done = subprocess.run(
        [sys.executable, str(script), "1", "1500"],
        env={**os.environ, "PYTHONMALLOC": "debug", "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert set(literal_eval(done.stdout)) == {0, 4, 4009, 4024, 4027, 4039, 4101}


@on_both
def test_a_frame_that_takes_the_room_of_the_next_is_refused(kernel: ModuleType) -> None:
    batch = make_batch([Body(bytes(500)) for _ in range(8)])
    struct.pack_into("<I", batch, 256 + 36, len(batch) - 256 - 48)

    for call in (
        lambda: kernel.columns(batch, 0, 9),
        lambda: kernel.select(batch, 1, 1),
        lambda: kernel.seal(batch),
    ):
        with pytest.raises(facade.BrokenBatchError, match="run over"):
            call()


@settings(deadline=None)
@given(data=anything)
def test_going_through_messages_gives_messages_or_a_refusal(data: bytes) -> None:
    found = answer(lambda: list(batches.messages(FENCE.place(data))))

    if isinstance(found, list) and facade.scan(data, -1, frames=False, index_bytes=0).reason == 0:
        assert [message.payload for message in found] == [m.payload for m in read_all(data)]
    else:
        assert found
