"""What a person sees while it runs: moving numbers in a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

LINE_S = 5.0  # between lines where nobody watches a bar


class _Count(ProgressColumn):
    """12,345 of 336,776."""

    def render(self, task: Task) -> Text:
        """The count, and the total where there is one."""
        total = "" if task.total is None else f" of {int(task.total):,}"
        return Text(f"{int(task.completed):,}{total}")


class View:
    """Sent, committed, lag."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._line = self._sink = ""
        self._line_due_s = 0.0
        self._progress = Progress(
            TextColumn("  {task.description:<10}"),
            BarColumn(40),
            _Count(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._sent = self._progress.add_task("sent", total=total, note="")
        self._committed = self._progress.add_task("committed", total=total, note="")

    def __enter__(self) -> Self:
        """Show it."""
        self._progress.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Take it away again."""
        self._progress.stop()

    def show(self, sent: int, committed: int, *, lag: int, sink: str) -> None:
        """The newest numbers, in messages; `sink` is the state of the sink's process."""
        self._progress.update(self._sent, completed=sent)
        self._progress.update(
            self._committed, completed=committed, note=f"lag {lag:,}, sink {sink.lower()}"
        )
        line = f"  sent {sent:,}, committed {committed:,}, lag {lag:,}, sink {sink.lower()}"
        is_due = time.monotonic() >= self._line_due_s or sink != self._sink
        if not self._console.is_terminal and line != self._line and is_due:
            self._line, self._sink = line, sink
            self._line_due_s = time.monotonic() + LINE_S
            self._console.print(line)
