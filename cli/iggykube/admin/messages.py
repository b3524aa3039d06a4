"""`iggykube message`: what `produce` and `consume` do, under the names of other tools."""

from __future__ import annotations

import click

from iggykube.consume import consume
from iggykube.produce import produce


@click.group()
def message() -> None:
    """Send and read messages: the same as `iggykube produce` and `iggykube consume`."""


message.add_command(produce, "send")
message.add_command(consume, "poll")
