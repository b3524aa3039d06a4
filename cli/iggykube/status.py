"""`iggykube status`: how the local instance stands."""

from pathlib import Path

import click

from iggykube import view
from iggykube.local import Folders
from iggykube.local import snapshot as snapshots
from iggykube.options import data_option, output_option
from iggykube.running import read_snapshot


@click.command()
@data_option
@output_option
def status(data: Path, output: str) -> None:
    """Show streams, topics, sinks, sources and consumer groups of the instance that runs in DIR.

    LAG is what a sink or a group has still to read, in messages. BEHIND is what waits in a source's
    system.
    """
    snapshot = read_snapshot(Folders.at(data))
    if output == "json":
        click.echo(snapshots.encode(snapshot))
    else:
        view.console().print(view.render(snapshot))
