"""A snapshot for people: a table in a terminal, lines elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from iggykube.local.redrives import RedriveRow
from iggykube.local.snapshot import (
    JobRow,
    JobState,
    PartitionRow,
    SinkRow,
    Snapshot,
    SourceRow,
    TopicRow,
)

NOTES_SHOWN_MAX: Final = 8
WIDTH_ELSEWHERE: Final = 200
_STYLES: Final = {
    JobState.RUNNING: "green",
    JobState.COMPLETED: "green",
    JobState.STARTING: "cyan",
    JobState.WAITING: "yellow",
    JobState.FAILED: "bold red",
    JobState.SUSPENDED: "dim",
    JobState.STOPPED: "dim",
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
    if snapshot.sources:
        parts += [Text(), _topic_table(snapshot, _SOURCE_COLUMNS, _source_rows)]
    if any(topic.groups for topic in snapshot.topics):
        parts += [Text(), _topic_table(snapshot, _GROUP_COLUMNS, _group_rows)]
    parts += [
        Text(f"{row.name}: {row.reason} (log: {row.log})", style=_STYLES[row.state])
        for row in snapshot.jobs
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


SINK_NUMBERS: Final = ("COMMITTED", "LAG")
SOURCE_NUMBERS: Final = ("SENT", "BEHIND")
_COLUMNS: Final = ("STREAM", "TOPIC", "PARTS", "MESSAGES", "SINK", "STATE", *SINK_NUMBERS)
_SOURCE_COLUMNS: Final = ("STREAM", "TOPIC", "SOURCE", "STATE", *SOURCE_NUMBERS)
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
    "SENT",
    "BEHIND",
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


Rows = Callable[[TopicRow], Iterator[tuple[str | Text, ...]]]


def _topic_table(snapshot: Snapshot, columns: Sequence[str], rows: Rows) -> Table:
    """Stream and topic stand in front of each row."""
    made = table(columns)
    for stream in snapshot.streams:
        for topic in stream.topics:
            for row in rows(topic):
                made.add_row(stream.name, topic.name, *row)
    return made


def _source_rows(topic: TopicRow) -> Iterator[tuple[str | Text, ...]]:
    for row in topic.sources:
        yield _title(topic, row), state(row), *source_numbers(row)


def _group_rows(topic: TopicRow) -> Iterator[tuple[str, ...]]:
    """Consumer groups that are no jobs'."""
    for group in topic.groups:
        yield group.name, count(group.members), count(group.committed), count(group.lag)


def sink(stream: str, topic: str, row: SinkRow) -> RenderableType:
    """All about one sink."""
    more = [
        ("rejected", count(row.rejected) if row.rejected else ""),
        ("redrive", _redrive(row.redrive)),
        ("began by", ", ".join(row.start_by)),
    ]
    head = _details("sink", f"{stream}/{topic}", row, more)
    return Group(head, _partitions_table(row.partitions), Text())


def source(stream: str, topic: str, row: SourceRow) -> RenderableType:
    """All about one source."""
    position = "" if row.committed is None else msgspec.json.encode(row.committed).decode()
    sent, behind = source_numbers(row)
    more = [("sent", sent), ("behind", behind), ("position", position)]
    return Group(_details("source", f"{stream}/{topic}", row, more), Text())


def _details(word: str, topic: str, row: JobRow, more: Sequence[tuple[str, str]]) -> Text:
    lines = [
        (word, Text(f"{row.name} ({row.type}) of {topic}", style="bold")),
        ("state", state(row)),
        ("reason", Text(row.reason)),
        ("batch", Text("" if row.batch is None else str(row.batch))),
        *((name, Text(text)) for name, text in more),
        ("log", Text(row.log)),
    ]
    return Text("\n").join(
        Text.assemble((f"{name:10}", "dim"), text) for name, text in lines if text.plain
    )


def _redrive(row: RedriveRow | None) -> str:
    if row is None:
        return ""
    return f"{row.state}: {count(row.written)} written, {count(row.failed)} failed again"


def _partitions_table(rows: Sequence[PartitionRow]) -> Table:
    made = table(_PARTITION_COLUMNS)
    for row in rows:
        made.add_row(str(row.partition), *map(count, (row.committed, row.end, row.lag)))
    return made


def sink_numbers(row: SinkRow) -> tuple[str, ...]:
    """Cells of SINK_NUMBERS."""
    return count(row.committed), count(row.lag)


def source_numbers(row: SourceRow) -> tuple[str, ...]:
    """Cells of SOURCE_NUMBERS."""
    return count(row.messages), "-" if row.behind is None else count(row.behind)


def state(row: JobRow) -> Text:
    """A job's state, with its restarts."""
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


def _sink_cells(topic: TopicRow, row: SinkRow) -> tuple[str | Text, ...]:
    return (_title(topic, row), state(row), *sink_numbers(row))


def _title(topic: TopicRow, row: JobRow) -> str:
    return f"{row.name.removeprefix(f'{topic.name}.')} ({row.type})"


def line(snapshot: Snapshot) -> str:
    """The snapshot in one line, for output that is no terminal."""
    parts = [f"{topic.name} {count(topic.messages)} messages" for topic in snapshot.topics]
    for source_row in snapshot.sources:
        sent, behind = source_numbers(source_row)
        parts.append(f"{_told(source_row)} sent {sent} behind {behind}")
    for row in snapshot.sinks:
        committed, lag = sink_numbers(row)
        parts.append(f"{_told(row)} committed {committed} lag {lag}")
    parts += [
        f"{topic.name} group {group.name} committed {count(group.committed)} lag {count(group.lag)}"
        for topic in snapshot.topics
        for group in topic.groups
    ]
    return "; ".join(parts) or "no topics"


def _told(row: JobRow) -> str:
    reason = f" ({row.reason})" if row.reason else ""
    return f"{row.name} {row.state}{reason}"


def console() -> Console:
    """Where to write. What is no terminal has no edge to wrap at."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH_ELSEWHERE)
