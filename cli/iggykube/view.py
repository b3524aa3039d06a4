"""A snapshot for people: a table in a terminal, lines elsewhere."""

from collections.abc import Iterator
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from iggykube.local.snapshot import SinkRow, SinkState, Snapshot, TopicRow

NOTES_SHOWN_MAX: Final = 8
WIDTH_ELSEWHERE: Final = 200
_STYLES: Final = {
    SinkState.RUNNING: "green",
    SinkState.COMPLETED: "green",
    SinkState.STARTING: "cyan",
    SinkState.WAITING: "yellow",
    SinkState.FAILED: "bold red",
    SinkState.SUSPENDED: "dim",
    SinkState.STOPPED: "dim",
}


def count(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}"


def render(snapshot: Snapshot) -> RenderableType:
    """The whole snapshot."""
    head = Text.assemble(
        ("broker   ", "dim"),
        (snapshot.address, "bold"),
        ("\nmetrics  ", "dim"),
        f"http://{snapshot.monitoring_address}/metrics",
        ("\ndata     ", "dim"),
        snapshot.data,
        "\n",
    )
    parts: list[RenderableType] = [head, _table(snapshot)]
    parts += [
        Text(f"{row.name}: {row.reason} (log: {row.log})", style=_STYLES[row.state])
        for row in snapshot.sinks
        if row.reason
    ]
    parts += [
        Text(f"{row.name}: {count(row.rejected)} messages rejected", style="yellow")
        for row in snapshot.sinks
        if row.rejected
    ]
    parts += [Text(f"{row.name}: {text}") for row in snapshot.sinks for text in row.rows]
    parts += [Text(note, style="dim") for note in snapshot.notes[-NOTES_SHOWN_MAX:]]
    return Group(*parts)


_COLUMNS: Final = ("STREAM", "TOPIC", "PARTS", "MESSAGES", "SINK", "STATE", "COMMITTED", "LAG")
_NUMBERS: Final = ("PARTS", "MESSAGES", "COMMITTED", "LAG")


def _table(snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        # Numbers are never broken; names are, where a terminal is narrow.
        is_number = name in _NUMBERS
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    for stream in snapshot.streams:
        rows = [row for topic in stream.topics for row in _topic_rows(topic)]
        for index, row in enumerate(rows or [()]):
            table.add_row(stream.name if index == 0 else "", *row)
    return table


def _topic_rows(topic: TopicRow) -> Iterator[tuple[str | Text, ...]]:
    """One row per sink; the topic stands in the first."""
    head = (topic.name, count(topic.partitions), count(topic.messages))
    if not topic.sinks:
        yield head
    for index, sink in enumerate(topic.sinks):
        yield (*(head if index == 0 else ("", "", "")), *_sink_cells(topic, sink))


def _sink_cells(topic: TopicRow, sink: SinkRow) -> tuple[str | Text, ...]:
    restarts = f" ({sink.restarts} restarts)" if sink.restarts else ""
    state = Text(f"{sink.state}{restarts}", style=_STYLES[sink.state])
    name = f"{sink.name.removeprefix(f'{topic.name}.')} ({sink.type})"
    return (name, state, count(sink.committed), count(sink.lag))


def line(snapshot: Snapshot) -> str:
    """The snapshot in one line, for output that is no terminal."""
    topics = [topic for stream in snapshot.streams for topic in stream.topics]
    parts = [f"{topic.name} {count(topic.messages)} messages" for topic in topics]
    for row in snapshot.sinks:
        reason = f" ({row.reason})" if row.reason else ""
        parts.append(
            f"{row.name} {row.state}{reason} committed {count(row.committed)} lag {count(row.lag)}"
        )
    return "; ".join(parts) or "no topics"


def console() -> Console:
    """Where to write. What is no terminal has no edge to wrap at."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH_ELSEWHERE)
