"""A real broker whose wall clock a test may set at any time; its other clocks stay right.

As a program it is `iggy-broker` with eight bytes of shared memory: the shift in microseconds.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from broker_process import BrokerProcess

_SHIFT = struct.Struct("<q")


class BrokerWithClock(BrokerProcess):
    """Set `shift_s` at any time, also before a start."""

    def __init__(
        self, folder: Path, *, shards: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, shards=shards, settings=settings)
        self._file = folder / "shift"
        self._file.write_bytes(_SHIFT.pack(0))
        self.wrapper = [sys.executable, __file__, str(self._file)]

    @property
    def shift_s(self) -> int:
        return int(_SHIFT.unpack(self._file.read_bytes())[0]) // 1_000_000

    @shift_s.setter
    def shift_s(self, shift_s: int) -> None:
        with self._file.open("r+b") as file:
            file.write(_SHIFT.pack(shift_s * 1_000_000))

    def now_us(self) -> int:
        """The time by its clock."""
        return time.time_ns() // 1000 + self.shift_s * 1_000_000


def main(path: str) -> int:
    from iggy_broker import __main__, clock

    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), _SHIFT.size)

    def now_us(self: object) -> int:
        return time.time_ns() // 1000 + int(_SHIFT.unpack(memory[:])[0])

    clock.SystemClock.now_us = now_us  # type: ignore[method-assign]
    return __main__.main([])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
