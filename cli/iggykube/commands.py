"""The commands. Each one reads its options, calls `iggykube.local`, and shows what comes back."""

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

import click
from rich.live import Live

from iggy_broker import __version__
from iggy_operator.documents import Document
from iggy_operator.resources import Resources, load
from iggykube import view
from iggykube.errors import LocalError
from iggykube.local import PORT_MAX, Folders, LocalInstance, Ports, Snapshot, load_resources
from iggykube.local import snapshot as snapshots
from iggykube.local.leftovers import end_leftovers
from iggykube.local.plan import reference_problems
from iggykube.signals import Requests, stop_requests

STEP_S: Final = 0.25
LINES_EVERY_S: Final = 10.0
DOWN_S_MAX: Final = 400.0
_DOWN_PAUSE_S: Final = 0.1
_PORT: Final = click.IntRange(0, PORT_MAX)

_files = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Resources in YAML; a folder stands for the .yaml files in it. May be repeated.",
)
_data = click.option(
    "--data",
    default=Path(".iggykube"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="IGGYKUBE_DATA",
    help="Data directory of the local instance: messages, sinks' files, checkpoints, logs.",
)
_output = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text for people, json for programs.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iggykube")
def cli() -> None:
    """Event streams from the same YAML on a laptop and on Kubernetes.

    \b
    iggykube up -f topic.yaml      run what the file asks for, on this machine
    iggykube status                show it, from another terminal
    iggykube down                  stop it
    iggykube check -f topic.yaml   only check the file
    """


@cli.command(short_help="Run resources on this machine.")
@_files
@_data
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
@_output
def up(files: tuple[Path, ...], data: Path, port: int, monitoring_port: int, output: str) -> None:
    """Start a broker, make the streams and topics of FILE, run their sinks, show how they do.

    Stays in the foreground. Ctrl-C stops in order: sinks finish their batch, then the broker stops.
    Everything is kept in the data directory, so the next `up` goes on where this one ended; what
    has changed in FILE is applied then. Clients log in as `iggy`, with the password that stands in
    secrets/root-password of the data directory.
    """
    resources = load_resources(data, files)
    _require_java(resources)
    instance = LocalInstance(data, resources, ports=Ports(port, monitoring_port))
    with stop_requests() as requests:
        instance.start(should_stop=requests.stop)
        try:
            _follow(instance, requests, output)
            if output == "text":
                click.echo("stopping: sinks finish their batch (Ctrl-C again: at once)", err=True)
        finally:
            instance.stop(should_kill=requests.kill)


def _require_java(resources: Resources) -> None:
    """Spark needs Java; say so before anything starts."""
    has_sinks = bool(resources.sinks) or any(topic.sinks for topic in resources.topics)
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if has_sinks and not found:
        where = f"in JAVA_HOME ({home})" if home else "on the path"
        fix = "install it, such as with: apt-get install openjdk-17-jre-headless"
        raise LocalError(f"sinks need Java 17 or newer, and there is no java {where}: {fix}")


def _follow(instance: LocalInstance, requests: Requests, output: str) -> None:
    """Show snapshots until the user asks to stop."""
    console = view.console()
    if output == "json" or not console.is_terminal:
        _follow_lines(instance, requests, output)
        return
    with Live(console=console, auto_refresh=False) as live:
        while not requests.stop():
            live.update(view.render(instance.step(STEP_S)), refresh=True)


def _follow_lines(instance: LocalInstance, requests: Requests, output: str) -> None:
    """A line whenever a sink changes its state, and every few seconds if numbers changed."""
    shown_s, shown = 0.0, ""
    states: list[object] = []
    for note in instance.notes if output == "text" else ():
        click.echo(note)
    while not requests.stop():
        snapshot = instance.step(STEP_S)
        new_states: list[object] = [(row.state, row.reason) for row in snapshot.sinks]
        text = snapshots.encode(snapshot) if output == "json" else view.line(snapshot)
        is_due = time.monotonic() - shown_s >= LINES_EVERY_S and text != shown
        if is_due or new_states != states or not shown:
            click.echo(text)
            shown_s, shown, states = time.monotonic(), text, new_states


@cli.command(short_help="Show the instance that runs in a data directory.")
@_data
@_output
def status(data: Path, output: str) -> None:
    """Show streams, topics and sinks of the instance that `iggykube up` runs in DIR."""
    folders = Folders.at(data)
    snapshot = _read_snapshot(folders)
    if output == "json":
        click.echo(snapshots.encode(snapshot))
    else:
        view.console().print(view.render(snapshot))


def _read_snapshot(folders: Folders) -> Snapshot:
    if folders.owner_pid() is None:
        fix = "start one with `iggykube up -f FILE`, or name its folder with --data"
        raise LocalError(f"no instance runs in {folders.root}: {fix}")
    try:
        return snapshots.decode(folders.snapshot_file.read_bytes())
    except FileNotFoundError:
        raise LocalError(f"the instance in {folders.root} is starting: try again") from None


@cli.command(short_help="Stop the instance that runs in a data directory.")
@_data
def down(data: Path) -> None:
    """Stop the instance in DIR as Ctrl-C would, and wait until it is gone. Data stays."""
    folders = Folders.at(data)
    pid = folders.owner_pid()
    if pid is None:
        _end_leftovers(folders)
        return
    os.kill(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + DOWN_S_MAX
    while folders.owner_pid() == pid:
        if time.monotonic() > deadline_s:
            raise LocalError(f"process {pid} does not stop: end it with `kill -9 {pid}`")
        time.sleep(_DOWN_PAUSE_S)
    click.echo(f"stopped {folders.root}")


def _end_leftovers(folders: Folders) -> None:
    """An instance that was killed leaves its broker and sinks running."""
    ended = []
    if folders.run.is_dir():
        with folders.lock():
            ended = list(end_leftovers(folders))
    if not ended:
        raise LocalError(f"no instance runs in {folders.root}: nothing to stop")
    for note in ended:
        click.echo(note)


@cli.command(short_help="Check files, start nothing.")
@_files
def check(files: tuple[Path, ...]) -> None:
    """Check FILE as the API server would: fields, types, limits, rules. Starts nothing.

    Ends with 0 if everything is right; else with 1, and a line for each problem that names file,
    line, field and the fix. Whether an update is allowed depends on the object as it is: `up`
    checks that, too.
    """
    resources = load(files)
    for problem in reference_problems(resources):
        click.echo(f"note: {problem} (it may exist elsewhere)", err=True)
    for skipped in resources.skipped:
        click.echo(f"note: left alone: {skipped}", err=True)
    for document in resources.documents:
        click.echo(f"{_title(document)}: ok")
    if not resources.documents:
        raise LocalError("the files hold no resource of IggyKube: check --file")


def _title(document: Document) -> str:
    kind, namespace, name = document.identity
    return f"{kind} {name}" if namespace == "default" else f"{kind} {namespace}/{name}"
