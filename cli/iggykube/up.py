"""`iggykube up` and `iggykube down`: a local instance, from start to stop."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

import click
import msgspec
from rich.live import Live

from iggy_operator.documents import DocumentErrors
from iggy_operator.resources import Resources
from iggykube import view
from iggykube.documents import file_problems
from iggykube.errors import LocalError
from iggykube.local import PORT_MAX, Folders, LocalInstance, Ports, load_resources
from iggykube.local import snapshot as snapshots
from iggykube.local.leftovers import end_leftovers
from iggykube.local.places import connector_places
from iggykube.local.watch import Watch
from iggykube.options import data_option, files_option, output_option
from iggykube.signals import Requests, stop_requests

STEP_S: Final = 0.25
LINES_EVERY_S: Final = 10.0
DOWN_S_MAX: Final = 400.0
_DOWN_PAUSE_S: Final = 0.1
_PORT: Final = click.IntRange(0, PORT_MAX)


@click.command()
@files_option
@data_option
@click.option(
    "--port",
    default=8090,
    show_default=True,
    type=_PORT,
    help="TCP port for clients, on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--monitoring-port",
    default=9099,
    show_default=True,
    type=_PORT,
    help="HTTP port of /ping, /ready and /metrics, on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--http-port",
    default=0,
    show_default=True,
    type=_PORT,
    help="Port of the HTTP API, on 127.0.0.1; 0 takes a free one.",
)
@click.option(
    "--watch/--no-watch",
    default=True,
    show_default=True,
    help="Apply changes of FILE while it runs.",
)
@output_option
def up(  # noqa: PLR0913, PLR0917 -- one argument per option
    files: tuple[Path, ...],
    data: Path,
    port: int,
    monitoring_port: int,
    http_port: int,
    watch: bool,
    output: str,
) -> None:
    """Start a broker, make the streams and topics of FILE, run their sources and sinks,
    show how they do.

    Stays in the foreground. Ctrl-C stops in order: jobs finish their batch, then the broker stops.
    Everything is kept in the data directory, so the next `up` goes on where this one ended; what
    has changed in FILE is applied then, and also at once if it changes while this runs. A FILE
    that cannot be used leaves everything as it is. Clients log in as `iggy`, with the password that
    stands in secrets/root-password of the data directory.
    """
    changes = _Changes(data, files) if watch else None
    with file_problems(), stop_requests() as requests:
        resources = load_resources(data, files)
        _require_java(resources)
        instance = LocalInstance(data, resources, ports=Ports(port, monitoring_port, http_port))
        instance.start(should_stop=requests.stop)
        try:
            _follow(instance, requests, output, changes)
            if output == "text":
                click.echo("stopping: jobs finish their batch (Ctrl-C again: at once)", err=True)
        finally:
            instance.stop(should_kill=requests.kill)


class _Changes:
    """Files that are watched, and what is done when they change."""

    def __init__(self, data: Path, files: tuple[Path, ...]) -> None:
        """To be made before the files are read for the first time."""
        self._data, self._files = data, files
        self._watch = Watch(files, time.monotonic())

    def apply(self, instance: LocalInstance) -> None:
        """Apply what has changed, if it is time to look. Notes of the instance say what was done.

        What cannot be used is a note, too: an editor may be half-way.
        """
        changed = self._watch.changed(time.monotonic())
        if not changed:
            return
        names = ", ".join(str(path) for path in changed)
        before = instance.notes
        try:
            resources = load_resources(self._data, self._files)
            _require_java(resources)
            instance.change(resources)
        except DocumentErrors as error:
            more = len(error.problems) - 1
            rest = f" (and {more} more: see `iggykube check`)" if more else ""
            instance.tell(f"not applied, all goes on as before: {error.problems[0]}{rest}")
        except LocalError as error:
            instance.tell(f"{names}: not applied, all goes on as before: {error}")
        else:
            if instance.notes == before:
                instance.tell(f"{names}: changed, and there is nothing to do")


def _require_java(resources: Resources) -> None:
    """Spark needs Java; say so before anything starts."""
    has_jobs = next(connector_places(resources), None) is not None
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if has_jobs and not found:
        where = f"in JAVA_HOME ({home})" if home else "on the path"
        fix = "install it, such as with: apt-get install openjdk-17-jre-headless"
        raise LocalError(
            f"sinks and sources need Java 17 or newer, and there is no java {where}: {fix}"
        )


def _follow(
    instance: LocalInstance, requests: Requests, output: str, changes: _Changes | None
) -> None:
    """Show snapshots until the user asks to stop."""
    console = view.console()
    if output == "json" or not console.is_terminal:
        _follow_lines(instance, requests, output, changes)
        return
    with Live(console=console, auto_refresh=False) as live:
        while not requests.stop():
            if changes is not None:
                changes.apply(instance)
            live.update(view.render(instance.step(STEP_S)), refresh=True)


def _follow_lines(
    instance: LocalInstance, requests: Requests, output: str, changes: _Changes | None
) -> None:
    """A line for each note and when a job changes its state; every few seconds for numbers."""
    shown_s, shown = 0.0, ""
    states: list[object] = []
    while not requests.stop():
        if changes is not None:
            changes.apply(instance)
        notes = instance.take_notes()
        for note in notes if output == "text" else ():
            click.echo(note)
        snapshot = instance.step(STEP_S)
        new_states: list[object] = [(row.state, row.reason) for row in snapshot.jobs]
        text = snapshots.encode(snapshot) if output == "json" else view.line(snapshot)
        has_news = new_states != states or (notes and output == "json")
        is_due = time.monotonic() - shown_s >= LINES_EVERY_S and text != shown
        if is_due or has_news or not shown:
            click.echo(text)
            shown_s, shown, states = time.monotonic(), text, new_states


@click.command()
@data_option
@output_option
def down(data: Path, output: str) -> None:
    """Stop the instance in DIR as Ctrl-C would, and wait until it is gone. Data stays."""
    folders = Folders.at(data)
    pid = folders.owner_pid()
    notes = _end_leftovers(folders) if pid is None else _end_owner(folders, pid)
    if output == "json":
        stopped = {"data": str(folders.root), "notes": notes}
        click.echo(msgspec.json.encode(stopped).decode())
    else:
        for note in notes:
            click.echo(note)


def _end_owner(folders: Folders, pid: int) -> list[str]:
    os.kill(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + DOWN_S_MAX
    while folders.owner_pid() == pid:
        if time.monotonic() > deadline_s:
            raise LocalError(f"process {pid} does not stop: end it with `kill -9 {pid}`")
        time.sleep(_DOWN_PAUSE_S)
    return [f"stopped {folders.root}"]


def _end_leftovers(folders: Folders) -> list[str]:
    """An instance that was killed leaves its broker and jobs running."""
    ended: list[str] = []
    if folders.run.is_dir():
        with folders.lock():
            ended = list(end_leftovers(folders))
    if not ended:
        raise LocalError(f"no instance runs in {folders.root}: nothing to stop")
    return ended
