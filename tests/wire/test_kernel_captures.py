"""Batches recorded from the official client and server, through both kernels."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from batches import read_all
from kernels import on_both

VECTORS = Path(__file__).parent / "vectors" / "batches"
SENT = sorted(VECTORS.glob("sent_*.bin"))
READ = sorted(VECTORS.glob("polled_*.bin"))


def vector(name: str) -> bytes:
    return (VECTORS / f"{name}.bin").read_bytes()


@on_both
class TestCaptures:
    @pytest.mark.parametrize("path", SENT, ids=lambda path: path.stem)
    def test_what_clients_send_is_admitted(self, kernel: ModuleType, path: Path) -> None:
        assert kernel.verify(path.read_bytes()) == 0

    @pytest.mark.parametrize("path", READ, ids=lambda path: path.stem)
    def test_what_the_server_returns_is_read(self, kernel: ModuleType, path: Path) -> None:
        region = path.read_bytes()

        walk = kernel.scan(region, -1, frames=True, index_bytes=0)

        assert (walk.end, walk.reason) == (len(region), 0)
        laid_out = kernel.columns(region, 0, 1 << 62, verify=True)
        assert laid_out.payloads == b"".join(message.payload for message in read_all(region))
        assert laid_out.headers == b"".join(message.headers for message in read_all(region))

    def test_stamping_gives_the_bytes_that_the_server_stored(self, kernel: ModuleType) -> None:
        stored = vector("polled_three_messages")
        batch = bytearray(vector("sent_three_messages"))
        partition_id, base_offset, base_timestamp_us = (
            int.from_bytes(stored[at : at + 8], "little") for at in (0, 8, 16)
        )

        assert kernel.admit(batch, partition_id, base_offset, base_timestamp_us) == 0
        assert batch == stored

    @pytest.mark.parametrize(
        ("whole", "offset", "count", "cut"),
        [
            ("polled_three_messages", 1, 1, "polled_offset_1_count_1"),
            ("polled_by_timestamp", 1, 1, "polled_slice"),
            ("polled_by_timestamp", 7, 2, "polled_last_two"),
        ],
    )
    def test_cutting_gives_the_bytes_that_the_server_sent(
        self, kernel: ModuleType, whole: str, offset: int, count: int, cut: str
    ) -> None:
        assert kernel.select(vector(whole), offset, count).head == vector(cut)

    def test_cut_and_whole_batches_together(self, kernel: ModuleType) -> None:
        region = vector("polled_by_group")

        chosen = kernel.select(region, 2, 2)

        assert chosen.head + region[chosen.start : chosen.end] + chosen.tail == vector(
            "polled_two_batches"
        )

    def test_a_segment_of_the_original_gives_the_index_of_the_original(
        self, kernel: ModuleType
    ) -> None:
        expected = [
            (entry["offset"], entry["timestamp"], entry["position"])
            for entry in json.loads((VECTORS / "segment_index.json").read_text())
        ]

        walk = kernel.scan(vector("segment_log"), 0, frames=True, index_bytes=0)

        assert walk.reason == 0
        assert walk.entries == expected
