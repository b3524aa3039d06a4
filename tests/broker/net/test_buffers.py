"""Memory for half frames: reused, and of a capped sum."""

from iggy_broker.net.buffers import BufferPool


def test_a_buffer_is_at_least_as_long_as_asked_and_used_again() -> None:
    pool = BufferPool()

    first = pool.take(5000)
    assert first is not None and len(first) >= 5000
    pool.give(first)

    assert pool.take(6000) is first
    assert pool.in_use_bytes == len(first)


def test_beyond_the_cap_nothing_is_given_until_something_comes_back() -> None:
    pool = BufferPool(in_use_bytes_max=64 * 1024)

    one, two = pool.take(32 * 1024), pool.take(32 * 1024)
    assert one is not None and two is not None
    assert pool.take(1) is None
    assert len(pool.take_anyway(1)) > 0
    pool.give(one)

    assert pool.in_use_bytes < 64 * 1024
    assert pool.take(1024) is not None


def test_one_buffer_larger_than_the_cap_is_given_to_an_empty_pool() -> None:
    pool = BufferPool(in_use_bytes_max=1024)

    assert pool.take(1 << 20) is not None
    assert pool.take(1) is None


def test_returned_memory_beyond_its_cap_is_let_go() -> None:
    pool = BufferPool(kept_bytes_max=8192)

    buffers = [pool.take(4096) for _ in range(5)]
    for buffer in buffers:
        assert buffer is not None
        pool.give(buffer)

    assert pool.kept_bytes == 8192
    assert pool.in_use_bytes == 0


def test_large_buffers_leave_a_share_for_small_ones() -> None:
    pool = BufferPool(in_use_bytes_max=16 << 20)

    while pool.take(1 << 20) is not None:
        pass
    assert pool.in_use_bytes == 12 << 20

    assert pool.take(4096) is not None
    assert pool.hold(4096)


def test_bytes_that_lie_elsewhere_count_too() -> None:
    pool = BufferPool(in_use_bytes_max=10_000)

    assert pool.hold(9000)
    assert not pool.hold(2000)
    assert pool.take(4096) is None
    pool.let_go(9000)

    assert pool.in_use_bytes == 0
    assert pool.take(4096) is not None
