"""A simulated disk that refuses some changes, as a full or a read-only one does."""

from __future__ import annotations

import errno

from simulated_disk import Node, SimulatedDisk


class RefusingDisk(SimulatedDisk):
    """Refuses changes from the nth on, `refusals` of them; reads and syncs go on."""

    def __init__(self, refuse_at: int, refusals: int, code: int) -> None:
        super().__init__()
        self.changes = 0
        self.refuse_at = refuse_at
        self.refusals = refusals
        self.code = code

    def _change(self) -> bool:
        """Whether this one is refused."""
        self.changes += 1
        return self.refuse_at < self.changes <= self.refuse_at + self.refusals

    def _refusal(self) -> OSError:
        return OSError(self.code, "no space left on device")

    def write(self, node: Node, data: bytes, position: int) -> None:
        if self._change():
            if self.code != errno.EROFS and position >= len(node.data):  # a part has found room
                super().write(node, data[: len(data) // 2], position)
            raise self._refusal()
        super().write(node, data, position)

    def truncate(self, node: Node, size_bytes: int) -> None:
        if self._change():
            raise self._refusal()
        super().truncate(node, size_bytes)

    def rename(self, source: str, target: str) -> None:
        if self._change():
            raise self._refusal()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if path in self.entries and self._change():
            raise self._refusal()
        super().remove(path)

    def _make(self, path: str, node: Node) -> None:
        if self._change():
            raise self._refusal()
        super()._make(path, node)
