"""Options that several commands have, written once."""

from pathlib import Path
from typing import Final

import click

DEFAULT_DATA: Final = Path(".iggykube")
files_option: Final = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Resources in YAML; a folder stands for the .yaml files in it. May be repeated.",
)
data_option: Final = click.option(
    "--data",
    default=DEFAULT_DATA,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="IGGYKUBE_DATA",
    help="Data directory of the local instance: messages, files of jobs, checkpoints, logs.",
)
output_option: Final = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text for people, json for programs.",
)
