"""Three batches as a log holds them, and what the kernel chose of them."""

from batches import Body, make_batch
from iggy_wire import kernel as facade

THREE = [Body(b"one", id=11), Body(b"2", headers=b"hh", id=12), Body(b"three" * 99, time_delta=5)]


def three_batches() -> bytes:
    """Offsets 10..12, 13, 14..16 at times 100, 200, 300."""
    first = make_batch(THREE, offset=10, timestamp_us=100)
    second = make_batch([Body(b"alone")], offset=13, timestamp_us=200)
    return bytes(first + second + make_batch(THREE, offset=14, timestamp_us=300))


def starts() -> list[int]:
    """Where the three batches start, and the region's length."""
    first = len(make_batch(THREE))
    second = first + len(make_batch([Body(b"alone")]))
    return [0, first, second, second + first]


def taken(region: bytes, chosen: facade.Selection) -> bytes:
    return chosen.head + region[chosen.start : chosen.end] + chosen.tail
