"""`list` and `status` of sinks and of sources: the same commands over other rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import click
import msgspec
from rich.console import RenderableType
from rich.text import Text

from iggy_operator.validation import nearest
from iggykube import view
from iggykube.errors import LocalError
from iggykube.local import Folders, Snapshot, TopicRow
from iggykube.local.snapshot import Row
from iggykube.running import read_snapshot


@dataclass(frozen=True, slots=True)
class Placed(Generic[Row]):
    """A row, and the topic that it is about."""

    stream: str
    topic: str
    row: Row


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """Rows of one kind."""

    word: str
    """What people call one, and programs."""
    rows: Callable[[TopicRow], Sequence[Row]]
    columns: tuple[str, ...]
    """Of its numbers."""
    cells: Callable[[Row], tuple[str | Text, ...]]
    details: Callable[[str, str, Row], RenderableType]

    def show_list(self, data: Path, output: str) -> None:
        """A line for each."""
        found = self._read(data)
        if output == "json":
            self._show_json(found)
            return
        head = (self.word.upper(), "TYPE", "STREAM", "TOPIC", "STATE")
        table = view.table((*head, *self.columns))
        for item in found:
            row = item.row
            place = (row.name, row.type, item.stream, item.topic, view.state(row))
            table.add_row(*place, *self.cells(row))
        view.console().print(table if found else f"no {self.word}s")

    def show_status(self, name: str | None, data: Path, output: str) -> None:
        """Everything about one, or about all. Raises LocalError if there is none of this name."""
        found = self._read(data)
        if name is not None:
            found = [self._named(name, found)]
        if output == "json":
            self._show_json(found)
            return
        console = view.console()
        for item in found:
            console.print(self.details(item.stream, item.topic, item.row))
        if not found:
            console.print(f"no {self.word}s")

    def find(self, name: str, snapshot: Snapshot) -> Row:
        """The one of this name. Raises LocalError if there is none."""
        return self._named(name, list(self._placed(snapshot))).row

    def _read(self, data: Path) -> list[Placed[Row]]:
        return list(self._placed(read_snapshot(Folders.at(data))))

    def _placed(self, snapshot: Snapshot) -> Iterator[Placed[Row]]:
        for stream in snapshot.streams:
            for topic in stream.topics:
                yield from (Placed(stream.name, topic.name, row) for row in self.rows(topic))

    def _named(self, name: str, found: list[Placed[Row]]) -> Placed[Row]:
        for item in found:
            if item.row.name == name:
                return item
        names = [item.row.name for item in found]
        close = nearest(name, names)
        hint = f"did you mean {close}?" if close else f"there are {', '.join(names) or 'none'}"
        raise LocalError(f"no {self.word} of the name {name}: {hint}")

    def _show_json(self, found: list[Placed[Row]]) -> None:
        items: list[dict[str, Any]] = [
            {"stream": item.stream, "topic": item.topic, self.word: item.row} for item in found
        ]
        click.echo(msgspec.json.encode({f"{self.word}s": items}).decode())
