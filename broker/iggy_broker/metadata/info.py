"""A copy of what streams and topics are, beside their folders: `streams/info`.

Should the metadata be lost, `recreate` finds names, options and groups there. It has no users and
no tokens, and may be some seconds old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from iggy_broker.metadata.applied import replace
from iggy_broker.metadata.model import State
from iggy_broker.metadata.snapshot import encode_snapshot, read_snapshot
from iggy_broker.storage.disk import Disk

RENEW_S: Final = 5.0
"""Pause between two looks whether it is to be written again."""
REST_FACTOR: Final = 100
"""The pause is at least so many times what writing took: many partitions make a large file."""


def info_path(root: str) -> str:
    """Where it lies below the data directory."""
    return f"{root}/streams/info"


def read_info(disk: Disk, root: str) -> State:
    """What is in it; an empty state if it is missing. MetadataDamaged, OSError."""
    return read_snapshot(disk, info_path(root))


def write_info(disk: Disk, root: str, state: State) -> bool:
    """Replace it. False if the disk refuses: then the old one is still there."""
    kept = replace(state, users={}, user_names={}, token_owners={})
    try:
        disk.make_folders(f"{root}/streams")
        disk.write_file(info_path(root), encode_snapshot(kept), sync=False)
    except OSError:
        return False
    return True


class InfoKeeper:
    """Of shard 0: writes it whenever streams have changed, and at a clean stop."""

    def __init__(self, disk: Disk, root: str, state: Callable[[], State]) -> None:
        """Nothing is written yet."""
        self._disk = disk
        self._root = root
        self._state = state
        self._written: object = None

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            self.look()
            await asyncio.sleep(max(RENEW_S, REST_FACTOR * (loop.time() - began_s)))

    def look(self) -> None:
        """Write it if it is not what it should be. What the disk refuses is tried again."""
        state = self._state()
        if state.streams is not self._written and write_info(self._disk, self._root, state):
            self._written = state.streams
