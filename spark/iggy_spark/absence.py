"""Whether the target of a sink, or the system of a source, is away just now, and why. Told by those
who call it, long before a batch fails, and by the driver to whoever reads its log.

<folder>/<name>   somebody waits for it; the file says why

A task has no way to its driver before it ends, but for a folder that both see: on one machine any,
with executors elsewhere a checkpoint on a volume that they share. What cannot be told there is a
figure that comes later, and no reason to fail.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

LOOK_S: Final = 1.0  # the folder may be on another machine
SAY_S: Final = 60.0  # from one event `away` to the next: one that comes and goes fills no log
REASON_CHARS_MAX: Final = 400
_DRAFT: Final = "."  # names of files that are not written yet begin so


class Notice:
    """One caller's word. For `Retry`."""

    def __init__(self, folder: Path) -> None:
        """Touches nothing yet."""
        name = uuid.uuid4().hex
        self._file, self._draft = folder / name, folder / f"{_DRAFT}{name}"

    def __call__(self, reason: str | None) -> None:
        """Say it, or take it back."""
        with suppress(OSError):
            if reason is None:
                self._file.unlink(missing_ok=True)
            else:
                self._draft.write_text(reason[:REASON_CHARS_MAX], "utf-8")
                self._draft.replace(self._file)


class Absence:
    """All words together, in the driver, and its own."""

    def __init__(
        self, event: Callable[..., None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Tasks are not heard before `clear`. `event` takes `away` with `reason`, and `back` with
        `seconds`, each once.
        """
        self._event, self._clock = event, clock
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._own: str | None = None
        self._tasks: str | None = None
        self._due_s = self._may_say_s = 0.0
        self._said_s: float | None = None  # when `away` was said, without `back` since

    def tell(self, reason: str | None) -> None:
        """The driver's word. For `Retry`."""
        self._own = reason
        self._say()

    def clear(self, folder: Path) -> None:
        """From now on `folder` counts. What it holds is of tasks that were killed or have given up:
        for the time before a batch. Raises OSError.
        """
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        self._folder = folder

    def look(self) -> bool:
        """Whether anybody waits for the other side; it is said if it is new. Cheap: to be asked all
        the time.
        """
        if self._folder is not None and self._clock() >= self._due_s:
            self._due_s = self._clock() + LOOK_S
            self._tasks = _first_word(self._folder)
        self._say()
        return self._reason is not None

    @property
    def _reason(self) -> str | None:
        return self._tasks if self._own is None else self._own

    def _say(self) -> None:
        with self._lock:  # a batch is written in another thread than the one that looks
            reason, now_s = self._reason, self._clock()
            if reason is None and self._said_s is not None:
                self._event("back", seconds=round(now_s - self._said_s, 1))
                self._said_s = None
            elif reason is not None and self._said_s is None and now_s >= self._may_say_s:
                self._said_s, self._may_say_s = now_s, now_s + SAY_S
                self._event("away", reason=reason[:REASON_CHARS_MAX])


def _first_word(folder: Path) -> str | None:
    for file in sorted(folder.iterdir()):
        if not file.name.startswith(_DRAFT):
            with suppress(OSError):  # it has just been taken back
                return file.read_text("utf-8")
    return None
