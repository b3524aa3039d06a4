"""`iggykube offset`: what consumers have stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from iggy_client.client import Client
from iggy_wire.primitives import Consumer, ConsumerKind
from iggykube.admin.frame import (
    NotThere,
    confirm,
    done,
    found,
    show_rows,
    with_client,
    yes_option,
)
from iggykube.admin.groups import TOPIC, offset_rows
from iggykube.admin.streams import STREAM
from iggykube.option_types import NAME, OFFSET_MAX, PARTITION

_NUMBER: Final = click.IntRange(0, (1 << 32) - 1)
_OPTIONS: Final = (
    click.option("--group", type=NAME, metavar="NAME", help="Of this consumer group."),
    click.option("--group-id", type=_NUMBER, metavar="N", help="Of the group of this number."),
    click.option(
        "--consumer",
        type=NAME,
        metavar="NAME",
        help="Of this consumer, which is in no group. A group of its name is another thing.",
    ),
    click.option(
        "--consumer-id",
        type=_NUMBER,
        metavar="N",
        help="Of the consumer of this number, which is in no group.",
    ),
)


def _whose(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a consumer or group, of which the command gets one as `who`."""

    @wraps(command)
    def with_who(
        group: str | None,
        group_id: int | None,
        consumer: str | None,
        consumer_id: int | None,
        **values: Any,
    ) -> Any:
        groups = [Consumer.group(one) for one in (group, group_id) if one is not None]
        consumers = [Consumer.plain(one) for one in (consumer, consumer_id) if one is not None]
        named = groups + consumers
        if len(named) != 1:
            raise click.UsageError("give --group or --consumer, or the number of one of them")
        return command(who=named[0], **values)

    made: Callable[..., Any] = with_who
    for option in reversed(_OPTIONS):
        made = option(made)
    return made


@click.group()
def offset() -> None:
    """Stored offsets of a consumer or group: show, set, delete."""


@offset.command(short_help="What is stored, and the lag.")
@STREAM
@TOPIC
@_whose
@with_client
def show(stream: str, topic: str, who: Consumer, client: Client, output: str) -> None:
    """Show for each partition of TOPIC the offset that is stored, and how many messages wait."""
    rows = offset_rows(client, stream, topic, who)
    if all(row["stored_offset"] is None for row in rows):
        if who.kind is ConsumerKind.GROUP:
            found(client.get_group(stream, topic, who.id.value), f"group {who.id.value}")
        else:
            raise NotThere(f"consumer {who.id.value} has stored nothing in topic {topic}")
    columns = ("partition", "stored_offset", "end", "lag")
    show_rows(rows, columns, output, name="offsets")


@offset.command("set", short_help="Store an offset.")
@STREAM
@TOPIC
@click.argument("partition", type=PARTITION)
@click.argument("value", type=click.IntRange(0, OFFSET_MAX), metavar="OFFSET")
@_whose
@with_client
def set_offset(  # noqa: PLR0913 -- one argument per option
    stream: str,
    topic: str,
    partition: int,
    value: int,
    *,
    who: Consumer,
    client: Client,
    output: str,
) -> None:
    """Store OFFSET: everything up to and including it counts as read.

    Of a group only members may: this command joins it, which moves its partitions for a moment.
    """
    _join(client, stream, topic, who)
    client.store_offset(who, stream, topic, partition, value)
    row = {"partition": partition, "stored_offset": value}
    done(f"partition {partition} is read up to {value}", row, output)


@offset.command(short_help="Forget what is stored.")
@STREAM
@TOPIC
@click.argument("partition", type=PARTITION)
@_whose
@yes_option
@with_client
def delete(  # noqa: PLR0913 -- one argument per option
    stream: str,
    topic: str,
    partition: int,
    *,
    who: Consumer,
    yes: bool,
    client: Client,
    output: str,
) -> None:
    """Forget the stored offset of PARTITION: who reads on begins at the oldest message.

    Of a group only members may: this command joins it, which moves its partitions for a moment.
    """
    confirm(f"Forget the offset of partition {partition}?", yes=yes)
    _join(client, stream, topic, who)
    client.delete_offset(who, stream, topic, partition)
    done(f"partition {partition} has no offset now", {"partition": partition}, output)


def _join(client: Client, stream: str, topic: str, who: Consumer) -> None:
    if who.kind is ConsumerKind.GROUP:
        client.join_group(stream, topic, who.id.value)
