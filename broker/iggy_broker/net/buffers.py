"""Memory for half-received frames: reused, of a capped sum, and of exactly the frame's size."""

from __future__ import annotations

from typing import Final

LANDING_BYTES: Final = 256 * 1024  # one per process: every connection receives into it
IN_USE_BYTES_MAX: Final = 512 * 1024 * 1024  # beyond: connections with a half frame are not read
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024  # returned memory beyond this goes back to the system
SMALL_SHARE: Final = 4  # a quarter of the cap is for small ones: few large ones must not stop all
_SMALLEST_BITS: Final = 12


class BufferPool:
    """Buffers by power of two. Take one, give it back; what is over the cap is not given."""

    __slots__ = ("_free", "in_use_bytes", "in_use_bytes_max", "kept_bytes", "kept_bytes_max")

    def __init__(
        self, in_use_bytes_max: int = IN_USE_BYTES_MAX, kept_bytes_max: int = KEPT_BYTES_MAX
    ) -> None:
        """An empty pool that hands out at most `in_use_bytes_max` at a time."""
        self.in_use_bytes_max = in_use_bytes_max
        self.kept_bytes_max = kept_bytes_max
        self.in_use_bytes = 0
        self.kept_bytes = 0
        self._free: dict[int, list[bytearray]] = {}

    def take(self, length_bytes: int, *, instead_of: bytearray | None = None) -> bytearray | None:
        """At least `length_bytes`; None if that would pass the cap. An empty pool always gives.

        `instead_of` is a buffer that the caller gives back right after.
        """
        rounded = self._rounded(length_bytes)
        others_bytes = self.in_use_bytes - (0 if instead_of is None else len(instead_of))
        if others_bytes and others_bytes + rounded > self._cap_bytes(rounded):
            return None
        return self.take_anyway(length_bytes)

    def hold(self, length_bytes: int) -> bool:
        """Count bytes that lie elsewhere; False if that would pass the cap."""
        if self.in_use_bytes + length_bytes > self._cap_bytes(length_bytes):
            return False
        self.in_use_bytes += length_bytes
        return True

    def let_go(self, length_bytes: int) -> None:
        """Bytes that `hold` counted are gone."""
        self.in_use_bytes -= length_bytes

    def take_anyway(self, length_bytes: int) -> bytearray:
        """At least `length_bytes`, past the cap if need be: for links, whose peers are bounded."""
        rounded = self._rounded(length_bytes)
        self.in_use_bytes += rounded
        free = self._free.get(rounded)
        if free:
            self.kept_bytes -= rounded
            return free.pop()
        return bytearray(rounded)

    def give(self, buffer: bytearray) -> None:
        """Return a buffer that `take` gave. Nobody may hold a view that still matters."""
        length_bytes = len(buffer)
        self.in_use_bytes -= length_bytes
        if self.kept_bytes + length_bytes <= self.kept_bytes_max:
            self.kept_bytes += length_bytes
            self._free.setdefault(length_bytes, []).append(buffer)

    def _cap_bytes(self, length_bytes: int) -> int:
        is_small = length_bytes <= LANDING_BYTES
        return self.in_use_bytes_max - (0 if is_small else self.in_use_bytes_max // SMALL_SHARE)

    @staticmethod
    def _rounded(length_bytes: int) -> int:
        return 1 << max(_SMALLEST_BITS, (length_bytes - 1).bit_length())
