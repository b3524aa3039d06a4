"""A snapshot for people: a table in a terminal, lines elsewhere."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from iggykube.local.redrives import RedriveRow
from iggykube.local.snapshot import PartitionRow, SinkRow, SinkState, Snapshot, TopicRow

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
    if any(topic.groups for stream in snapshot.streams for topic in stream.topics):
        parts += [Text(), _groups_table(snapshot)]
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
_GROUP_COLUMNS: Final = ("STREAM", "TOPIC", "GROUP", "MEMBERS", "COMMITTED", "LAG")
_PARTITION_COLUMNS: Final = ("PARTITION", "COMMITTED", "END", "LAG")
_NUMBERS: Final = (
    "PARTS",
    "MESSAGES",
    "MEMBERS",
    "PARTITION",
    "COMMITTED",
    "END",
    "LAG",
    "ATTEMPT",
    "LETTERS",
)


def table(columns: Sequence[str]) -> Table:
    """An empty table with these columns."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        # Numbers are never broken; names are, where a terminal is narrow.
        is_number = name in _NUMBERS
        made.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    return made


def _groups_table(snapshot: Snapshot) -> Table:
    """Consumer groups that are no sinks'."""
    made = table(_GROUP_COLUMNS)
    for stream in snapshot.streams:
        for topic in stream.topics:
            for group in topic.groups:
                numbers = (group.members, group.committed, group.lag)
                made.add_row(stream.name, topic.name, group.name, *map(count, numbers))
    return made


def sink_details(stream: str, topic: str, row: SinkRow) -> RenderableType:
    """All about one sink."""
    lines = [
        ("sink", Text(f"{row.name} ({row.type}) of {stream}/{topic}", style="bold")),
        ("state", state(row)),
        ("reason", Text(row.reason)),
        ("batch", Text("" if row.batch is None else str(row.batch))),
        ("rejected", Text(count(row.rejected) if row.rejected else "")),
        ("redrive", Text(_redrive(row.redrive))),
        ("log", Text(row.log)),
    ]
    head = Text("\n").join(
        Text.assemble((f"{name:10}", "dim"), text) for name, text in lines if text.plain
    )
    return Group(head, _partitions_table(row.partitions), Text())


def _redrive(row: RedriveRow | None) -> str:
    if row is None:
        return ""
    return f"{row.state}: {count(row.written)} written, {count(row.failed)} failed again"


def _partitions_table(rows: Sequence[PartitionRow]) -> Table:
    made = table(_PARTITION_COLUMNS)
    for row in rows:
        made.add_row(str(row.partition), *map(count, (row.committed, row.end, row.lag)))
    return made


def state(row: SinkRow) -> Text:
    """A sink's state, with its restarts."""
    restarts = f" ({row.restarts} restarts)" if row.restarts else ""
    return Text(f"{row.state}{restarts}", style=_STYLES[row.state])


def _table(snapshot: Snapshot) -> Table:
    made = table(_COLUMNS)
    for stream in snapshot.streams:
        rows = [row for topic in stream.topics for row in _topic_rows(topic)]
        for index, row in enumerate(rows or [()]):
            made.add_row(stream.name if index == 0 else "", *row)
    return made


def _topic_rows(topic: TopicRow) -> Iterator[tuple[str | Text, ...]]:
    """One row per sink; the topic stands in the first."""
    head = (topic.name, count(topic.partitions), count(topic.messages))
    if not topic.sinks:
        yield head
    for index, sink in enumerate(topic.sinks):
        yield (*(head if index == 0 else ("", "", "")), *_sink_cells(topic, sink))


def _sink_cells(topic: TopicRow, sink: SinkRow) -> tuple[str | Text, ...]:
    name = f"{sink.name.removeprefix(f'{topic.name}.')} ({sink.type})"
    return (name, state(sink), count(sink.committed), count(sink.lag))


def line(snapshot: Snapshot) -> str:
    """The snapshot in one line, for output that is no terminal."""
    topics = [topic for stream in snapshot.streams for topic in stream.topics]
    parts = [f"{topic.name} {count(topic.messages)} messages" for topic in topics]
    for row in snapshot.sinks:
        reason = f" ({row.reason})" if row.reason else ""
        parts.append(
            f"{row.name} {row.state}{reason} committed {count(row.committed)} lag {count(row.lag)}"
        )
    parts += [
        f"{topic.name} group {group.name} committed {count(group.committed)} lag {count(group.lag)}"
        for topic in topics
        for group in topic.groups
    ]
    return "; ".join(parts) or "no topics"


def console() -> Console:
    """Where to write. What is no terminal has no edge to wrap at."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH_ELSEWHERE)
