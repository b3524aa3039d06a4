"""The kernel's functions, each on the compiled and on the plain implementation."""

import mmap
import os
import struct
import subprocess
import sys
from array import array
from pathlib import Path
from types import ModuleType

import pytest

from batches import Body, make_batch
from iggy_wire import _kernel_plain
from iggy_wire import kernel as facade
from kernels import compiled, on_both
from three_batches import THREE, starts, three_batches

U64_MAX = (1 << 64) - 1


@on_both
class TestAdmission:
    @pytest.mark.parametrize("size", [0, 1, 3, 8, 16, 128, 240, 241, 1000, 70_000])
    def test_xxh3_equals_the_package(self, kernel: ModuleType, size: int) -> None:
        from xxhash import xxh3_64_intdigest

        data = bytes(index * 7 & 255 for index in range(size))

        assert kernel.xxh3_64(data) == xxh3_64_intdigest(data)

    @pytest.mark.parametrize("count", [1, 2, 1000, 1024, 1025, 3000])
    def test_a_good_batch_is_stamped_and_stays_good(self, kernel: ModuleType, count: int) -> None:
        batch = make_batch([Body(b"p" * (1 + index % 300)) for index in range(count)])
        frames = bytes(batch[256:])

        assert kernel.admit(batch, 3, 40, 5_000) == 0

        assert batch == make_batch(
            [Body(b"p" * (1 + index % 300)) for index in range(count)],
            offset=40,
            timestamp_us=5_000,
        )
        assert batch[256:] == frames
        assert kernel.verify(batch) == 0

    @pytest.mark.parametrize(
        ("at", "value", "code"),
        [
            (32, struct.pack("<Q", 1 << 63), 4),
            (32, struct.pack("<Q", 255), 4),
            (40, b"\x00" * 8, 4039),
            (24, b"\x01", 4039),
            (48, struct.pack("<I", 0), 4009),
            (48, struct.pack("<I", 2), 4),
            (48, struct.pack("<I", 4), 4),
            (48, struct.pack("<I", 1 << 31), 4),
            (52, b"\x01", 4101),
            (255, b"\x80", 4101),
            (256, b"\x00" * 8, 4027),
            (264, b"\xff", 4027),
            (256 + 24, b"\x01", 4),
            (256 + 32, struct.pack("<I", U64_MAX >> 32), 4),
            (256 + 36, struct.pack("<I", U64_MAX >> 32), 4),
            (256 + 40, b"\x01", 4101),
            (256 + 47, b"\x01", 4101),
            (256 + 48, b"X", 4027),
            (-1, b"X", 4027),
        ],
    )
    def test_each_fault_has_its_code_and_nothing_is_written(
        self, kernel: ModuleType, at: int, value: bytes, code: int
    ) -> None:
        batch = make_batch(THREE)
        at %= len(batch)
        batch[at : at + len(value)] = value
        before = bytes(batch)

        assert kernel.verify(batch) == code
        assert kernel.admit(batch, 1, 2, 3) == code
        assert batch == before

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            (Body(b""), 4024),
            (Body(b"", headers=b"h"), 4024),
            (Body(bytes(64_000_000)), 0),
            (Body(bytes(64_000_001)), 4022),
            (Body(b"x", headers=bytes(100_000)), 0),
            (Body(b"x", headers=bytes(100_001)), 4017),
        ],
        ids=lambda value: None if isinstance(value, Body) else str(value),
    )
    def test_one_message_has_limits_when_it_is_sent(
        self, kernel: ModuleType, body: Body, code: int
    ) -> None:
        batch = make_batch([Body(b"before"), body])

        assert kernel.verify(batch) == kernel.admit(batch, 1, 2, 3) == code
        if code:  # what an older broker stored is readable
            found = kernel.scan(batch, -1, frames=True, index_bytes=0)
            assert (found.messages, found.reason) == (2, 0)

    def test_every_prefix_and_a_longer_buffer_is_a_format_fault(self, kernel: ModuleType) -> None:
        batch = bytes(make_batch(THREE))

        assert {kernel.verify(batch[:size]) for size in range(len(batch))} == {4}
        assert kernel.verify(batch + b"\x00") == 4
        assert kernel.verify(batch + batch) == 4

    def test_deltas_must_count_from_zero(self, kernel: ModuleType) -> None:
        assert kernel.verify(make_batch(THREE, first_delta=1)) == 4

    def test_a_batch_without_frames_has_the_count_fault(self, kernel: ModuleType) -> None:
        assert kernel.verify(make_batch([])) == 4009

    def test_stamps_take_the_whole_unsigned_range_and_no_more(self, kernel: ModuleType) -> None:
        batch = make_batch(THREE)
        assert kernel.admit(batch, U64_MAX, U64_MAX, U64_MAX) == 0
        assert batch[:24] == b"\xff" * 24

        for stamp in [(-1, 0, 0), (0, U64_MAX + 1, 0), (0, 0, -1)]:
            with pytest.raises(OverflowError):
                kernel.admit(batch, *stamp)
        assert batch[:24] == b"\xff" * 24

    def test_seal_makes_a_laid_out_batch_valid(self, kernel: ModuleType) -> None:
        batch = make_batch(THREE)
        sealed = bytes(batch)
        for at in (40, 256, 256 + 51):
            batch[at : at + 8] = b"\xaa" * 8

        kernel.seal(batch)

        assert batch == sealed

    def test_seal_refuses_what_does_not_tile(self, kernel: ModuleType) -> None:
        batch = make_batch(THREE)
        batch[256 + 36] += 1
        before = bytes(batch)

        with pytest.raises(facade.BrokenBatchError, match="batch at byte 0"):
            kernel.seal(batch)
        with pytest.raises(facade.BrokenBatchError, match="length"):
            kernel.seal(bytearray(before + b"x"))


@on_both
class TestBuffers:
    def test_every_kind_of_contiguous_buffer_is_read(self, kernel: ModuleType) -> None:
        batch = bytes(make_batch(THREE))
        mapped = mmap.mmap(-1, len(batch))
        mapped[:] = batch
        padded = memoryview(b"..." + batch)[3:]
        shorts = memoryview(array("H", batch[: len(batch) & ~1]))

        for buffer in (batch, bytearray(batch), memoryview(batch), mapped, padded):
            assert kernel.verify(buffer) == 0
            assert kernel.scan(buffer, 0, frames=True, index_bytes=1).messages == 3
        assert kernel.xxh3_64(shorts) == kernel.xxh3_64(batch[: len(batch) & ~1])
        mapped.close()  # fails if the kernel still held on to it

    def test_mmap_is_stamped_in_place(self, kernel: ModuleType, tmp_path: Path) -> None:
        path = tmp_path / "segment"
        path.write_bytes(make_batch(THREE))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            assert kernel.admit(mapped, 3, 9, 8) == 0

        assert path.read_bytes() == make_batch(THREE, offset=9, timestamp_us=8)

    def test_read_only_buffers_are_not_written(self, kernel: ModuleType) -> None:
        batch = bytes(make_batch(THREE))
        for call in (lambda: kernel.admit(batch, 0, 0, 0), lambda: kernel.seal(batch)):
            with pytest.raises(BufferError):
                call()

    def test_what_is_not_contiguous_or_no_buffer_is_refused(self, kernel: ModuleType) -> None:
        with pytest.raises(BufferError):
            kernel.verify(memoryview(bytes(600))[::2])
        with pytest.raises(TypeError):
            kernel.verify("text")


@on_both
class TestScan:
    def test_a_clean_region_is_walked_to_its_end(self, kernel: ModuleType) -> None:
        region = three_batches()
        at = starts()

        found = kernel.scan(region, 10, frames=True, index_bytes=0)

        assert found == facade.Scan(
            len(region),
            17,
            300,
            7,
            [(10, 100, at[0]), (13, 200, at[1]), (14, 300, at[2])],
            facade.CLEAN_END,
        )

    def test_nothing_is_a_clean_end(self, kernel: ModuleType) -> None:
        assert kernel.scan(b"", 5, frames=True, index_bytes=9) == facade.Scan(0, 5, 0, 0, [], 0)
        assert kernel.scan(b"", -1, frames=True, index_bytes=9).next_offset == -1

    def test_index_entries_are_sparse(self, kernel: ModuleType) -> None:
        at = starts()

        one = kernel.scan(three_batches(), -1, frames=False, index_bytes=at[1] + 1)
        first_only = kernel.scan(three_batches(), -1, frames=False, index_bytes=1 << 70)

        assert [entry[2] for entry in one.entries] == [at[0], at[2]]
        assert [entry[2] for entry in first_only.entries] == [0]

    def test_a_torn_tail_is_told_from_a_bad_batch_at_every_length(self, kernel: ModuleType) -> None:
        region = three_batches()
        at = starts()

        for size in range(at[2] + 1, len(region)):
            found = kernel.scan(region[:size], 10, frames=True, index_bytes=0)
            assert (found.end, found.next_offset, found.messages) == (at[2], 14, 4)
            assert found.reason == facade.INCOMPLETE_TAIL

    @pytest.mark.parametrize(
        ("at", "value", "code"),
        [
            (32, bytes(8), 4),
            (40, bytes(8), 4039),
            (48, bytes(4), 4009),
            (99, b"\x01", 4101),
            (256, bytes(8), 4027),
            (300, b"\x01", 4101),
        ],
    )
    def test_it_stops_at_the_first_bad_batch(
        self, kernel: ModuleType, at: int, value: bytes, code: int
    ) -> None:
        region = bytearray(three_batches())
        bad = starts()[1]
        region[bad + at : bad + at + len(value)] = value

        found = kernel.scan(region, 10, frames=True, index_bytes=0)

        assert (found.end, found.next_offset, found.reason) == (bad, 13, code)

    def test_frame_checksums_are_checked_only_when_asked(self, kernel: ModuleType) -> None:
        region = bytearray(three_batches())
        region[-1] ^= 1

        assert kernel.scan(region, 10, frames=False, index_bytes=0).reason == 0
        assert kernel.scan(region, 10, frames=True, index_bytes=0).reason == 4027

    def test_zeros_after_the_end_are_a_format_fault(self, kernel: ModuleType) -> None:
        region = three_batches()

        found = kernel.scan(region + bytes(4096), 10, frames=True, index_bytes=0)

        assert (found.end, found.reason) == (len(region), 4)

    @pytest.mark.parametrize("expected", [0, 9, 11, 1 << 62, 1 << 80, -2])
    def test_an_unexpected_offset_is_a_gap(self, kernel: ModuleType, expected: int) -> None:
        found = kernel.scan(three_batches(), expected, frames=True, index_bytes=0)

        assert (found.end, found.reason, found.next_offset) == (0, 4100, expected)

    def test_a_gap_between_batches_is_found(self, kernel: ModuleType) -> None:
        region = make_batch(THREE) + make_batch(THREE, offset=4)

        found = kernel.scan(region, 0, frames=True, index_bytes=0)

        assert (found.next_offset, found.reason) == (3, 4100)

    def test_offsets_beyond_the_limit_are_a_gap(self, kernel: ModuleType) -> None:
        region = make_batch(THREE, offset=1 << 62)

        assert kernel.scan(region, -1, frames=True, index_bytes=0).reason == 4100

    def test_cut_batches_are_read(self, kernel: ModuleType) -> None:
        region = make_batch(THREE, offset=20, first_delta=2) + make_batch(THREE, offset=25)

        found = kernel.scan(region, 22, frames=True, index_bytes=0)

        assert (found.next_offset, found.reason, found.entries[0][0]) == (28, 0, 22)


class TestVectorCode:
    @pytest.mark.parametrize("level", [0, 1, 2])
    def test_every_kind_this_machine_has_gives_the_same_hashes(self, level: int) -> None:
        if compiled is None:
            pytest.skip("the kernel is not compiled")
        data = bytes(index * 31 & 255 for index in range(5000))
        try:
            if compiled.hash_level(level) != level:
                pytest.skip("this machine has no such instructions")
            for size in [*range(200, 600), 1024, 1025, 4999]:
                assert compiled.xxh3_64(data[:size]) == _kernel_plain.xxh3_64(data[:size])
        finally:
            compiled.hash_level(compiled.LEVEL_MAX)


class TestFacade:
    def test_it_offers_what_both_implementations_offer(self) -> None:
        chosen = {
            name: getattr(facade, name).__module__ for name in facade.__all__ if name.islower()
        }

        assert len(set(chosen.values())) == 1
        assert all(hasattr(_kernel_plain, name) for name in chosen)

    def test_the_environment_forces_the_plain_one(self) -> None:
        code = "from iggy_wire import kernel; print(kernel.COMPILED, kernel.admit.__module__)"

        out = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "IGGYKUBE_PURE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )

        assert out.stdout.split() == ["False", "iggy_wire._kernel_plain"]


@on_both
@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 9, 63, 1000])
def test_a_mask_is_xored_from_the_first_byte_on(kernel: ModuleType, length: int) -> None:
    data, key = bytes(range(256))[:length] * (1 + length // 256), bytes([1, 0x80, 0xFF, 0x55])
    masked = bytearray(data)

    kernel.unmask(memoryview(masked), int.from_bytes(key, "little"))

    assert masked == bytes(byte ^ key[place % 4] for place, byte in enumerate(data))
