"""`iggykube sink`: what the sinks of the local instance do."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from iggy_operator.validation import nearest
from iggykube import view
from iggykube.completion import complete_sink
from iggykube.errors import LocalError
from iggykube.local import Folders, SinkRow, Snapshot
from iggykube.options import data_option, output_option
from iggykube.running import read_snapshot


class SinkPlace(msgspec.Struct, frozen=True):
    """A sink and the topic that it reads, as programs get it."""

    stream: str
    topic: str
    sink: SinkRow


@click.group()
def sink() -> None:
    """Look at the sinks of the instance that `iggykube up` runs."""


@sink.command("list", short_help="All sinks, with their lag.")
@data_option
@output_option
def list_sinks(data: Path, output: str) -> None:
    """List the sinks of the instance in DIR: state, restarts, what is committed, lag."""
    places = list(_places(read_snapshot(Folders.at(data))))
    if output == "json":
        _show_json(places)
        return
    table = view.table(("SINK", "TYPE", "STREAM", "TOPIC", "STATE", "COMMITTED", "LAG"))
    for place in places:
        row = place.sink
        numbers = (view.count(row.committed), view.count(row.lag))
        table.add_row(row.name, row.type, place.stream, place.topic, view.state(row), *numbers)
    view.console().print(table if places else "no sinks")


@sink.command(short_help="One sink or all, partition by partition.")
@click.argument("name", required=False, shell_complete=complete_sink)
@data_option
@output_option
def status(name: str | None, data: Path, output: str) -> None:
    """Show the sink NAME (`topic.sink`), or all: state, reason, log, and the lag by partition."""
    places = list(_places(read_snapshot(Folders.at(data))))
    if name is not None:
        places = [place for place in places if place.sink.name == name] or _unknown(name, places)
    if output == "json":
        _show_json(places)
        return
    console = view.console()
    for place in places:
        console.print(view.sink_details(place.stream, place.topic, place.sink))
    if not places:
        console.print("no sinks")


def _places(snapshot: Snapshot) -> Iterator[SinkPlace]:
    for stream in snapshot.streams:
        for topic in stream.topics:
            yield from (SinkPlace(stream.name, topic.name, row) for row in topic.sinks)


def _unknown(name: str, places: list[SinkPlace]) -> list[SinkPlace]:
    names = [place.sink.name for place in places]
    close = nearest(name, names)
    hint = f"did you mean {close}?" if close else f"there are {', '.join(names) or 'none'}"
    raise LocalError(f"no sink of the name {name}: {hint}")


def _show_json(places: list[SinkPlace]) -> None:
    click.echo(msgspec.json.encode({"sinks": places}).decode())
