"""Whether a sink's target is away just now, told by those who call it, long before a batch fails.

<folder>/<name>   a task waits for the target

A task has no way to its driver before it ends, but for a folder that both see: on one machine any,
with executors elsewhere a checkpoint on a volume that they share. What cannot be told there is a
figure that comes later, and no reason to fail.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOK_S: Final = 1.0  # the folder may be on another machine


class Notice:
    """One caller's word. For `Retry`."""

    def __init__(self, folder: Path) -> None:
        """Touches nothing yet."""
        self._file = folder / uuid.uuid4().hex

    def __call__(self, is_away: bool) -> None:
        """Say it, or take it back."""
        with suppress(OSError):
            if is_away:
                self._file.touch()
            else:
                self._file.unlink(missing_ok=True)


class Absence:
    """All words together, in the driver, and its own."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody is heard before `clear`."""
        self._clock = clock
        self._folder: Path | None = None
        self._waits = self._is_away = False
        self._due_s = 0.0

    def tell(self, is_away: bool) -> None:
        """The driver's word. For `Retry`."""
        self._waits = is_away

    def clear(self, folder: Path) -> None:
        """From now on `folder` counts. What it holds is of tasks that were killed: for the time
        before a batch. Raises OSError.
        """
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        self._folder = folder

    @property
    def is_away(self) -> bool:
        """Whether anybody waits for the target. Cheap: to be asked all the time."""
        if self._folder is not None and self._clock() >= self._due_s:
            self._due_s = self._clock() + LOOK_S
            self._is_away = any(self._folder.iterdir())
        return self._waits or self._is_away
