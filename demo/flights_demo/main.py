"""`make demo`: one file becomes a running system, and the flights go through it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from flights_demo import flights as data
from flights_demo import table
from flights_demo.plan import SLICE_ROWS, ForeignData
from flights_demo.progress import View
from flights_demo.sender import Login, Sender
from iggy_operator.documents import DocumentErrors
from iggy_operator.resources import Resources, Topic
from iggykube.errors import CommandError, Stopped
from iggykube.local import PORT_MAX, LocalInstance, Ports, SinkRow, load_resources

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "docs" / "samples" / "flights.yaml"
DATA = ROOT / ".iggykube" / "demo"
RUNNING = ("Running", "Completed")
STOPPED_CODE = 128 + signal.SIGINT


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached: these flights in this topic, and in the files of its first sink."""

    file: Path
    flights: pa.Table
    stream: str
    topic: str
    sink: str
    lake: Path


class Stop:
    """What the user has asked for: asked once an end in good order, asked again the end."""

    def __init__(self) -> None:
        self._asked = 0

    def ask(self) -> None:
        """Ctrl-C."""
        self._asked += 1

    @property
    def is_set(self) -> bool:
        """Stop."""
        return self._asked > 0

    @property
    def at_once(self) -> bool:
        """Stop without finishing what is under way."""
        return self._asked > 1


class DemoFailed(Exception):
    """The demo did not reach its end. The text says why."""


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 done, 1 failed, 130 stopped by the user."""
    options = _options(arguments)
    console = Console(highlight=False)
    stop = Stop()
    with _signals(stop):
        try:
            _run(console, options, stop)
        except Stopped:
            console.print("Stopped. The next run goes on from here.")
            return STOPPED_CODE
        except (CommandError, DocumentErrors, DemoFailed, ForeignData) as error:
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            return 1
    return 0


def _run(console: Console, options: argparse.Namespace, stop: Stop) -> None:
    resources = load_resources(options.data, [options.file])
    goal = _goal(resources, options)
    ports = Ports(tcp=options.port, monitoring=options.monitoring_port)
    console.print(f"[bold]{_shown(options.file)}[/bold] → broker, topic, sink")
    instance = LocalInstance(options.data, resources, ports=ports)
    try:
        instance.start(should_stop=lambda: stop.is_set)
        for note in instance.notes:
            console.print(f"  {note}", markup=False, soft_wrap=True)
        console.print(f"  broker at {instance.address}, metrics at {_metrics(instance)}")
        sender = _carry(console, instance, goal, stop)
    finally:
        if stop.is_set and not stop.at_once:
            console.print("Stopping: the sink finishes its batch (Ctrl-C again: at once).")
        instance.stop(should_kill=lambda: stop.at_once)
    total = goal.flights.num_rows
    if sender.sent:
        console.print(f"  sent {sender.sent:,} flights, {sender.there:,} were there; lag 0")
    else:
        console.print(f"  sent nothing: all {total:,} flights were there; lag 0")
    _show(console, goal)
    _where(console, instance, goal)


def _carry(console: Console, instance: LocalInstance, goal: Goal, stop: Stop) -> Sender:
    """Send what is missing and watch until the sink has caught up."""
    login = Login(instance.address, instance.username, instance.password)
    sender = Sender(login, (goal.stream, goal.topic), goal.flights)
    sender.start()
    total = goal.flights.num_rows
    try:
        with View(console, total) as view:
            while True:
                sink = instance.step(timeout_s=0.25).sink(goal.sink)
                there = sender.there + sender.sent
                lag = max(there - sink.committed, 0)
                view.show(there, sink.committed, lag=lag, sink=sink.state)
                if stop.is_set:
                    raise Stopped("stopped")
                _check(sender, sink)
                if sender.is_done and _has_caught_up(sink, total):
                    return sender
    finally:
        sender.stop()


def _check(sender: Sender, sink: SinkRow) -> None:
    if sender.is_done and sender.error is not None:
        raise DemoFailed(f"sending failed: {sender.error}") from sender.error
    if sink.state == "Failed":
        raise DemoFailed(f"the sink has failed: {sink.reason}")


def _has_caught_up(sink: SinkRow, total: int) -> bool:
    return sink.state in RUNNING and sink.lag == 0 and sink.committed == sink.end == total


def _show(console: Console, goal: Goal) -> None:
    """The table from the files; it must be the input's."""
    found, _files = table.read_lake(goal.lake)
    rows = table.summarise(found)
    console.print(table.render(rows, data.load_airlines()))
    if rows != table.summarise(goal.flights):
        raise DemoFailed(
            f"the files have {found.num_rows:,} flights, {goal.flights.num_rows:,} were sent, or "
            "their figures differ. If you changed the folder, delete it to start over."
        )


def _where(console: Console, instance: LocalInstance, goal: Goal) -> None:
    folders = instance.folders
    files = sum(1 for _ in goal.lake.rglob("*.parquet"))
    console.print(f"All {goal.flights.num_rows:,} flights sent are in the files, none twice.")
    for what, path in (
        (f"{files:,} Parquet files", goal.lake),
        ("messages and metadata", folders.broker),
        ("logs", folders.logs),
    ):
        console.print(f"  {what:<22} {_shown(path)}", soft_wrap=True)
    console.print("Run it again: nothing is sent twice. To keep it running:")
    program = _shown(Path(sys.executable).with_name("iggykube"))
    command = f"{program} up -f {_shown(goal.file)} --data {_shown(folders.root)}"
    console.print(f"  {command}", soft_wrap=True)


def _goal(resources: Resources, options: argparse.Namespace) -> Goal:
    topics = [topic for topic in resources.topics if topic.sinks]
    streams = {stream.key: stream for stream in resources.streams}
    topic: Topic | None = topics[0] if len(topics) == 1 else None
    if topic is None or topic.sinks[0].type != "Files" or topic.stream not in streams:
        raise DemoFailed(f"{options.file}: needs a stream and one topic whose first sink is Files")
    stream = streams[topic.stream]
    sink = topic.sinks[0]
    return Goal(
        file=options.file,
        flights=data.load_flights(options.rows),
        stream=stream.stream_name,
        topic=topic.topic_name,
        sink=sink.key.name,
        lake=options.data / "files" / sink.spec["files"]["path"],
    )


def _metrics(instance: LocalInstance) -> str:
    return f"http://{instance.step(timeout_s=0).monitoring_address}/metrics"


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM reach only us: the children are in sessions of their own."""
    old = {
        number: signal.signal(number, lambda *_: stop.ask())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _shown(path: Path) -> str:
    """Relative to where the user is, if it is below."""
    here = Path(os.path.relpath(path))
    return str(path if ".." in here.parts else here)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo ARGS=…", description=__doc__)
    parser.add_argument("--file", type=Path, default=SAMPLE, help="the resources")
    parser.add_argument("--data", type=Path, default=DATA, help="where everything lies")
    parser.add_argument(
        "--rows", type=_rows, help=f"only so many flights, in steps of {SLICE_ROWS:,}"
    )
    parser.add_argument("--port", type=_port, default=8090, help="the broker's; 0 takes a free one")
    parser.add_argument("--monitoring-port", type=_port, default=9099, help="0 takes a free one")
    return parser.parse_args(arguments)


def _rows(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text} is no number of flights: give 1 or more")
    return int(text)


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text} is no port: give 0 to {PORT_MAX:,}")
    return int(text)
