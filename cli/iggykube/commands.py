"""The program's commands, each from the module that holds it."""

import click

from iggy_broker import __version__
from iggykube.check import check
from iggykube.completion import completion
from iggykube.consume import consume
from iggykube.produce import produce
from iggykube.sink_commands import sink
from iggykube.status import status
from iggykube.up import down, up


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iggykube")
def cli() -> None:
    """Event streams from the same YAML on a laptop and on Kubernetes.

    \b
    iggykube up -f topic.yaml      run what the file asks for, on this machine
    iggykube status                show it, from another terminal
    iggykube produce shop orders   send lines as messages
    iggykube consume shop orders   show messages
    iggykube down                  stop it
    iggykube check -f topic.yaml   only check the file
    """


for _command in (up, down, status, sink, produce, consume, check, completion):
    cli.add_command(_command)
