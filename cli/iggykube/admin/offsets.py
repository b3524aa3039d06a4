"""`iggykube offset`: what consumers have stored."""

from __future__ import annotations

from typing import Final

import click

from iggy_client.client import Client
from iggy_wire.primitives import Consumer
from iggykube.admin.frame import confirm, done, show_rows, with_client, yes_option
from iggykube.admin.groups import TOPIC, offset_rows
from iggykube.admin.streams import STREAM
from iggykube.option_types import NAME, OFFSET_MAX, PARTITION

GROUP_OPTION: Final = click.option("--group", type=NAME, metavar="NAME", help="Of this group.")
CONSUMER_OPTION: Final = click.option(
    "--consumer", type=NAME, metavar="NAME", help="Of this consumer, which is in no group."
)


def _consumer(group: str | None, consumer: str | None) -> Consumer:
    if group is not None and consumer is None:
        return Consumer.group(group)
    if consumer is not None and group is None:
        return Consumer.plain(consumer)
    raise click.UsageError("give --group or --consumer")


@click.group()
def offset() -> None:
    """Stored offsets of a consumer or group: show, set, delete."""


@offset.command(short_help="What is stored, and the lag.")
@STREAM
@TOPIC
@GROUP_OPTION
@CONSUMER_OPTION
@with_client
def show(
    stream: str, topic: str, group: str | None, consumer: str | None, client: Client, output: str
) -> None:
    """Show for each partition of TOPIC the offset that is stored, and how many messages wait."""
    rows = offset_rows(client, stream, topic, _consumer(group, consumer))
    columns = ("partition", "stored_offset", "end", "lag")
    show_rows(rows, columns, output, name="offsets")


@offset.command("set", short_help="Store an offset.")
@STREAM
@TOPIC
@click.argument("partition", type=PARTITION)
@click.argument("value", type=click.IntRange(0, OFFSET_MAX), metavar="OFFSET")
@GROUP_OPTION
@CONSUMER_OPTION
@with_client
def set_offset(  # noqa: PLR0913 -- one argument per option
    stream: str,
    topic: str,
    partition: int,
    value: int,
    *,
    group: str | None,
    consumer: str | None,
    client: Client,
    output: str,
) -> None:
    """Store OFFSET: everything up to and including it counts as read.

    Of a group only members may: this command joins it, which moves its partitions for a moment.
    """
    who = _consumer(group, consumer)
    if group is not None:
        client.join_group(stream, topic, group)
    client.store_offset(who, stream, topic, partition, value)
    row = {"partition": partition, "stored_offset": value}
    done(f"partition {partition} is read up to {value}", row, output)


@offset.command(short_help="Forget what is stored.")
@STREAM
@TOPIC
@click.argument("partition", type=PARTITION)
@GROUP_OPTION
@CONSUMER_OPTION
@yes_option
@with_client
def delete(  # noqa: PLR0913 -- one argument per option
    stream: str,
    topic: str,
    partition: int,
    group: str | None,
    consumer: str | None,
    *,
    yes: bool,
    client: Client,
    output: str,
) -> None:
    """Forget the stored offset of PARTITION: who reads on begins at the oldest message."""
    who = _consumer(group, consumer)
    confirm(f"Forget the offset of partition {partition}?", yes=yes)
    client.delete_offset(who, stream, topic, partition)
    done(f"partition {partition} has no offset now", {"partition": partition}, output)
