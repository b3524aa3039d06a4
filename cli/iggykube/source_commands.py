"""`iggykube source`: what the sources of the local instance do."""

from pathlib import Path
from typing import Final

import click

from iggykube import view
from iggykube.completion import complete_source
from iggykube.listing import Listing
from iggykube.local import SourceRow
from iggykube.options import data_option, output_option

SOURCES: Final[Listing[SourceRow]] = Listing(
    "source", lambda topic: topic.sources, view.SOURCE_NUMBERS, view.source_numbers, view.source
)


@click.group()
def source() -> None:
    """Look at the sources of the instance that `iggykube up` runs."""


@source.command("list", short_help="All sources, with what waits in their systems.")
@data_option
@output_option
def list_sources(data: Path, output: str) -> None:
    """List the sources of the instance in DIR: state, restarts, messages sent, messages behind."""
    SOURCES.show_list(data, output)


@source.command(short_help="One source or all, with the position.")
@click.argument("name", required=False, shell_complete=complete_source)
@data_option
@output_option
def status(name: str | None, data: Path, output: str) -> None:
    """Show the source NAME (`topic.source`), or all: state, reason, log, how far it has read."""
    SOURCES.show_status(name, data, output)
