"""`iggykube sink`: what the sinks of the local instance do."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from iggykube import view
from iggykube.completion import complete_sink
from iggykube.connection import Login, Target
from iggykube.letters import LetterGroup, counted, waiting
from iggykube.listing import Listing
from iggykube.local import Folders, SinkRow
from iggykube.local.redrives import Redrive, new_request
from iggykube.option_types import MOMENT
from iggykube.options import data_option, output_option
from iggykube.redrive import Request, job_of
from iggykube.running import local_instance, read_snapshot, tls_of

STAGES: Final = ("decode", "transform", "write")
SINKS: Final[Listing[SinkRow]] = Listing(
    "sink", lambda topic: topic.sinks, view.SINK_NUMBERS, view.sink_numbers, view.sink
)


@click.group()
def sink() -> None:
    """Look at the sinks of the instance that `iggykube up` runs, and redrive their dead letters."""


@sink.command("list", short_help="All sinks, with their lag.")
@data_option
@output_option
def list_sinks(data: Path, output: str) -> None:
    """List the sinks of the instance in DIR: state, restarts, what is committed, lag."""
    SINKS.show_list(data, output)


@sink.command(short_help="One sink or all, partition by partition.")
@click.argument("name", required=False, shell_complete=complete_sink)
@data_option
@output_option
def status(name: str | None, data: Path, output: str) -> None:
    """Show the sink NAME (`topic.sink`), or all: state, reason, log, and the lag by partition."""
    SINKS.show_status(name, data, output)


@sink.command(short_help="Write the dead letters of a sink again.")
@click.argument("name", shell_complete=complete_sink)
@click.option(
    "--error-class",
    "error_classes",
    multiple=True,
    metavar="C",
    help="Only letters of this class, such as SchemaMismatch. Repeatable. Without: all.",
)
@click.option(
    "--stage",
    "stages",
    multiple=True,
    type=click.Choice(STAGES),
    help="Only letters of this stage. Repeatable. Without: all.",
)
@click.option(
    "--from",
    "since",
    type=MOMENT,
    metavar="TIME",
    help="Only letters whose messages came at this time or later, such as 2026-03-29T01:00:00Z.",
)
@click.option("--to", "until", type=MOMENT, metavar="TIME", help="And before this time.")
@click.option("--dry-run", is_flag=True, help="Count what is there, and change nothing.")
@click.option(
    "--wait/--no-wait", default=True, show_default=True, help="Wait until it is carried out."
)
@data_option
@output_option
def redrive(  # noqa: PLR0913 -- one argument per option
    name: str,
    *,
    error_classes: tuple[str, ...],
    stages: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    dry_run: bool,
    wait: bool,
    data: Path,
    output: str,
) -> None:
    """Write the dead letters of the sink NAME (`topic.sink`) again, once what was wrong is right.

    The sink's job finishes its batch and starts again: it writes the letters, then it goes on. What
    fails again, and what is not chosen, stays among the dead letters.
    """
    folders = Folders.at(data)
    job = job_of(SINKS.find(name, read_snapshot(folders)))
    if since is not None and until is not None and since >= until:
        raise click.BadParameter("must be before --to", param_hint="'--from'")
    times = (None if moment is None else moment.isoformat() for moment in (since, until))
    chosen = Redrive(new_request(), tuple(error_classes), tuple(stages), *times)
    if dry_run:
        _show_letters(_letters(data, job, chosen), output)
        return
    request = Request(folders, name, chosen)
    outcome = request.ask()
    if wait:
        outcome = request.wait()
    if output == "json":
        click.echo(msgspec.json.encode(outcome).decode())
    elif wait:
        failed = f", {view.count(outcome.failed)} failed again" if outcome.failed else ""
        click.echo(f"{view.count(outcome.written)} written{failed}")
    else:
        click.echo(f"asked for: `iggykube sink status {name}` shows what becomes of it")


def _letters(data: Path, job: Mapping[str, Any], chosen: Redrive) -> list[LetterGroup]:
    snapshot, login = local_instance(data)
    target = Target((snapshot.address,), Login(*login), tls=tls_of(snapshot))
    with target.connect() as client:
        return counted(waiting(client, job), str(job["name"]), chosen)


def _show_letters(groups: list[LetterGroup], output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.encode({"letters": groups}).decode())
        return
    head = ("SINK", "STAGE", "ERROR CLASS", "ATTEMPT", "LETTERS", "FIRST", "LAST", "REDRIVEN")
    table = view.table(head)
    for group in groups:
        kind = (group.sink, group.stage, group.error_class, str(group.attempt))
        is_chosen = "yes" if group.chosen else "no"
        table.add_row(*kind, view.count(group.letters), *group.times, is_chosen)
    view.console().print(table if groups else "no dead letters")
