"""The kernel's ways to choose messages of a region, on both implementations."""

import mmap
import struct
from types import ModuleType

import pytest

from batches import Body, make_batch, read_all, reseal
from iggy_wire import kernel as facade
from kernels import on_both
from three_batches import THREE, starts, taken, three_batches

U64_MAX = (1 << 64) - 1


@on_both
class TestLocate:
    @pytest.mark.parametrize(
        ("offset", "which"),
        [(-5, 0), (0, 0), (10, 0), (12, 0), (13, 1), (14, 2), (16, 2), (17, 3), (1 << 70, 3)],
    )
    def test_by_offset(self, kernel: ModuleType, offset: int, which: int) -> None:
        assert kernel.locate(three_batches(), offset) == starts()[which]

    @pytest.mark.parametrize(
        ("time", "which"),
        [(-1, 0), (0, 0), (100, 0), (101, 1), (200, 1), (300, 2), (301, 3), (1 << 70, 3)],
    )
    def test_by_time(self, kernel: ModuleType, time: int, which: int) -> None:
        assert kernel.locate_time(three_batches(), time) == starts()[which]

    def test_cut_batches_count_from_their_first_delta(self, kernel: ModuleType) -> None:
        region = make_batch(THREE, offset=0, first_delta=7)

        assert kernel.locate(region, 9) == 0
        assert kernel.locate(region, 10) == len(region)

    def test_the_last_batch_needs_only_its_headers(self, kernel: ModuleType) -> None:
        region = three_batches()[: starts()[2] + 304]

        assert kernel.locate(region, 16) == starts()[2]
        assert kernel.locate(region, 17) == len(region)
        assert kernel.locate(region[:-1], 16) == len(region) - 1
        assert kernel.locate_time(region, 300) == starts()[2]

    def test_broken_headers_are_refused(self, kernel: ModuleType) -> None:
        second = starts()[1]
        for at, value in [(32, bytes(8)), (48, bytes(4)), (48, b"\xff" * 4), (15, b"\x40")]:
            region = bytearray(three_batches())
            region[second + at : second + at + len(value)] = value
            for find in (kernel.locate, kernel.locate_time):
                with pytest.raises(facade.BrokenBatchError, match=f"byte {second}") as caught:
                    find(region, 1 << 62)
                assert caught.value.position == second
                assert caught.value.code == 4


@on_both
class TestSelect:
    def test_every_range_holds_exactly_its_messages(self, kernel: ModuleType) -> None:
        region = three_batches()
        everything = read_all(region)

        for offset in range(8, 19):
            for count in range(9):
                chosen = kernel.select(region, offset, count)
                wanted = [message for message in everything if message.offset >= offset][:count]
                out = taken(region, chosen)
                assert read_all(out) == wanted
                assert chosen.count == len(wanted)
                assert chosen.last_offset == (wanted[-1].offset if wanted else -1)
                walk = kernel.scan(out, -1, frames=True, index_bytes=0)
                assert (walk.end, walk.reason) == (len(out), 0)

    def test_whole_batches_go_out_unchanged(self, kernel: ModuleType) -> None:
        region = three_batches()
        at = starts()

        assert kernel.select(region, 0, 99) == facade.Selection(b"", 0, len(region), b"", 7, 16)
        assert kernel.select(region, 13, 1) == facade.Selection(b"", at[1], at[2], b"", 1, 13)

    def test_both_ends_are_cut(self, kernel: ModuleType) -> None:
        region = three_batches()
        at = starts()

        chosen = kernel.select(region, 11, 4)

        assert (chosen.start, chosen.end) == (at[1], at[2])
        assert [message.offset for message in read_all(chosen.head)] == [11, 12]
        assert [message.offset for message in read_all(chosen.tail)] == [14]

    def test_one_message_out_of_one_batch(self, kernel: ModuleType) -> None:
        chosen = kernel.select(three_batches(), 15, 1)

        assert (chosen.start, chosen.tail, chosen.count) == (chosen.end, b"", 1)
        assert [message.offset for message in read_all(chosen.head)] == [15]

    def test_a_cut_batch_is_cut_again(self, kernel: ModuleType) -> None:
        once = kernel.select(three_batches(), 11, 2).head

        twice = kernel.select(once, 12, 5)

        assert [message.offset for message in read_all(twice.head)] == [12]

    def test_nothing_chosen_is_empty(self, kernel: ModuleType) -> None:
        for offset, count in [(17, 5), (1 << 70, 1), (0, 0), (0, -3)]:
            assert kernel.select(three_batches(), offset, count) == facade.Selection(
                b"", 0, 0, b"", 0, -1
            )

    def test_an_incomplete_last_batch_is_left_out(self, kernel: ModuleType) -> None:
        region = three_batches()
        at = starts()

        for size in (at[2] + 1, at[2] + 304, len(region) - 1):
            assert kernel.select(region[:size], 10, 99).end == at[2]

    def test_huge_numbers_mean_everything_or_nothing(self, kernel: ModuleType) -> None:
        region = three_batches()

        assert kernel.select(region, -(1 << 70), 1 << 70).count == 7
        assert kernel.select(region, U64_MAX, U64_MAX).count == 0

    def test_frames_that_do_not_tile_are_refused_when_cut(self, kernel: ModuleType) -> None:
        for at, value in [(36, b"\xff"), (51 + 24, b"\x09"), (39, b"\x7f")]:
            region = bytearray(three_batches())
            region[256 + at : 257 + at] = value
            with pytest.raises(facade.BrokenBatchError):
                kernel.select(region, 11, 1)


@on_both
class TestColumns:
    def test_every_range_holds_exactly_its_messages(self, kernel: ModuleType) -> None:
        region = three_batches()
        everything = read_all(region)

        for first in range(8, 19):
            for end in range(8, 19):
                found = kernel.columns(region, first, end, verify=True)
                wanted = [message for message in everything if first <= message.offset < end]
                check_columns(found, wanted)

    def test_growing_headers(self, kernel: ModuleType) -> None:
        bodies = [Body(b"p" * (i % 7), headers=b"h" * (i * 13 % 100)) for i in range(500)]
        region = bytes(make_batch(bodies, offset=5))

        check_columns(kernel.columns(region, 0, 1 << 62), read_all(region))

    def test_an_empty_region_has_empty_columns(self, kernel: ModuleType) -> None:
        check_columns(kernel.columns(b"", 0, 9), [])

    def test_times_beyond_64_signed_bits_become_the_maximum(self, kernel: ModuleType) -> None:
        batch = make_batch(THREE, timestamp_us=U64_MAX)
        batch[24:32] = b"\xff" * 8
        reseal(batch)

        found = kernel.columns(batch, 0, 3)

        assert struct.unpack("<3q", found.timestamps_us) == ((1 << 63) - 1,) * 3
        assert struct.unpack("<3q", found.origin_timestamps_us) == ((1 << 63) - 1,) * 3

    def test_verify_finds_a_changed_message_in_the_range_only(self, kernel: ModuleType) -> None:
        region = bytearray(three_batches())
        region[-1] ^= 1

        assert kernel.columns(region, 0, 99).count == 7
        assert kernel.columns(region, 0, 16, verify=True).count == 6
        with pytest.raises(facade.BrokenBatchError, match="message 16") as caught:
            kernel.columns(region, 0, 17, verify=True)
        assert caught.value.code == 4027

    def test_an_incomplete_last_batch_is_refused(self, kernel: ModuleType) -> None:
        region = three_batches()
        for size in (len(region) - 1, starts()[2] + 304, starts()[2] + 1):
            with pytest.raises(facade.BrokenBatchError, match=f"byte {starts()[2]}"):
                kernel.columns(region[:size], 0, 99)

    def test_frames_that_do_not_tile_are_refused(self, kernel: ModuleType) -> None:
        for at, value in [(36, b"\xff"), (24, b"\x09"), (32, b"\x01")]:
            region = bytearray(three_batches())
            region[256 + at : 257 + at] = value
            with pytest.raises(facade.BrokenBatchError, match="byte 0"):
                kernel.columns(region, 0, 99)

    def test_more_than_32_bits_of_messages_is_refused(self, kernel: ModuleType) -> None:
        # A sparse mapping: only the header of each of the three batches is real memory.
        size = (1 << 30) - (1 << 20)
        head = make_batch([Body(b"")])[:304]
        head[32:40] = struct.pack("<Q", size)
        head[256 + 36 : 256 + 40] = struct.pack("<I", size - 304)
        with mmap.mmap(-1, 3 * size) as mapped:
            for at in (0, size, 2 * size):
                mapped[at : at + 304] = bytes(head)
            with pytest.raises(ValueError, match="split it"):
                kernel.columns(mapped, 0, 1)


def check_columns(found: facade.Columns, wanted: list) -> None:
    count = len(wanted)
    assert found.count == count
    assert struct.unpack(f"<{count}q", found.offsets) == tuple(m.offset for m in wanted)
    assert struct.unpack(f"<{count}q", found.timestamps_us) == tuple(m.timestamp_us for m in wanted)
    assert struct.unpack(f"<{count}q", found.origin_timestamps_us) == tuple(
        m.origin_us for m in wanted
    )
    assert found.ids == b"".join(m.id for m in wanted)
    assert split(found.payloads, found.payload_offsets, count) == [m.payload for m in wanted]
    assert split(found.headers, found.header_offsets, count) == [m.headers for m in wanted]


def split(data: bytes, offsets: bytes, count: int) -> list[bytes]:
    borders = struct.unpack(f"<{count + 1}i", offsets)
    assert borders[0] == 0
    assert borders[-1] == len(data)
    return [data[borders[i] : borders[i + 1]] for i in range(count)]
