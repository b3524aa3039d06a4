"""`iggykube topic`."""

from __future__ import annotations

from typing import Any, Final

import click

from iggy_client.client import Client
from iggy_wire.options import Value
from iggy_wire.replies import TopicDetails, TopicHeader
from iggykube.admin.frame import (
    confirm,
    done,
    expiry,
    found,
    limit,
    show_fields,
    show_json,
    show_rows,
    time_text,
    with_client,
    yes_option,
)
from iggykube.admin.groups import TOPIC
from iggykube.admin.streams import STREAM
from iggykube.admin.topic_options import topic_options
from iggykube.option_types import NAME, PARTITION

COUNT: Final = click.IntRange(1, (1 << 32) - 1)


@click.group()
def topic() -> None:
    """Topics of a stream: list, show, create, update, partitions, purge, trim, delete."""


def _row(item: TopicHeader) -> dict[str, Any]:
    return {
        "id": item.id,
        "name": item.name,
        "partitions": item.partitions_count,
        "messages": item.messages_count,
        "size": item.size_bytes,
        "expiry": expiry(item.message_expiry_us),
        "max_size": limit(item.max_topic_size_bytes),
        "created_at": time_text(item.created_at_us),
    }


@topic.command("list", short_help="All topics of a stream.")
@STREAM
@with_client
def list_topics(stream: str, client: Client, output: str) -> None:
    """List the topics of STREAM that you may see."""
    rows = [_row(item) for item in client.get_topics(stream)]
    if not rows:  # which is also what is answered about a stream that is missing
        found(client.get_stream(stream), f"stream {stream}")
    columns = ("id", "name", "partitions", "messages", "size", "expiry", "max_size")
    show_rows(rows, columns, output, name="topics")


@topic.command(short_help="One topic, its options and partitions.")
@STREAM
@TOPIC
@with_client
def show(stream: str, topic: str, client: Client, output: str) -> None:
    """Show TOPIC: what it holds, the options that were chosen, and its partitions."""
    details = found(client.get_topic(stream, topic), f"topic {topic} in stream {stream}")
    options = {one.key: _plain(one.get()) for one in details.topic.options}
    row, rows = _row(details.topic), _partitions(details)
    if output == "json":
        show_json(row | {"options": options, "partition_list": rows})
        return
    show_fields(row | {f"option {name}": value for name, value in options.items()}, output)
    columns = ("id", "segments", "messages", "size", "current_offset")
    show_rows(rows, columns, output, name="partitions")


def _plain(value: Value) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _partitions(details: TopicDetails) -> list[dict[str, Any]]:
    return [
        {
            "id": item.id,
            "segments": item.segments_count,
            "messages": item.messages_count,
            "size": item.size_bytes,
            "current_offset": item.current_offset,
            "created_at": time_text(item.created_at_us),
        }
        for item in details.partitions
    ]


@topic.command(short_help="Make a topic.")
@STREAM
@click.argument("topic", type=NAME)
@click.option("--partitions", type=COUNT, default=1, show_default=True, help="How many partitions.")
@topic_options
@with_client
def create(
    stream: str,
    topic: str,
    partitions: int,
    options: dict[str, Value],
    client: Client,
    output: str,
) -> None:
    """Make TOPIC in STREAM."""
    made = client.create_topic(stream, topic, partitions, options).topic
    done(f"topic {topic} is made, with id {made.id}", _row(made), output)


@topic.command(short_help="Change name or options of a topic.")
@STREAM
@TOPIC
@click.option("--name", type=NAME, metavar="NAME", help="A new name.")
@topic_options
@with_client
def update(
    stream: str,
    topic: str,
    name: str | None,
    options: dict[str, Value],
    client: Client,
    output: str,
) -> None:
    """Change TOPIC. What is not given stays as it is."""
    if name is None and not options:
        raise click.UsageError("nothing to change: give --name, --expiry or another option")
    client.update_topic(stream, topic, name or topic, options)
    done(f"topic {name or topic} is changed", {"name": name or topic}, output)


@topic.command(short_help="Add partitions.")
@STREAM
@TOPIC
@click.argument("count", type=COUNT)
@with_client
def add_partitions(stream: str, topic: str, count: int, client: Client, output: str) -> None:
    """Add COUNT partitions to TOPIC. Messages of a key may go to another partition from then on."""
    client.create_partitions(stream, topic, count)
    _tell_partitions(client, stream, topic, output)


@topic.command(short_help="Remove partitions with their messages.")
@STREAM
@TOPIC
@click.argument("count", type=COUNT)
@yes_option
@with_client
def remove_partitions(
    stream: str, topic: str, count: int, *, yes: bool, client: Client, output: str
) -> None:
    """Remove the COUNT highest partitions of TOPIC with their messages."""
    confirm(f"Remove {count} partitions of topic {topic} with their messages?", yes=yes)
    client.delete_partitions(stream, topic, count)
    _tell_partitions(client, stream, topic, output)


def _tell_partitions(client: Client, stream: str, topic: str, output: str) -> None:
    details = found(client.get_topic(stream, topic), f"topic {topic} in stream {stream}")
    count = details.topic.partitions_count
    done(f"topic {topic} has {count} partitions", {"name": topic, "partitions": count}, output)


@topic.command(short_help="Remove the oldest messages of a partition.")
@STREAM
@TOPIC
@click.argument("partition", type=PARTITION)
@click.argument("segments", type=COUNT)
@yes_option
@with_client
def trim(  # noqa: PLR0913 -- one argument per option
    stream: str,
    topic: str,
    partition: int,
    segments: int,
    *,
    yes: bool,
    client: Client,
    output: str,
) -> None:
    """Remove the SEGMENTS oldest closed files of PARTITION with their messages."""
    confirm(f"Remove {segments} segments of partition {partition}?", yes=yes)
    client.delete_segments(stream, topic, partition, segments)
    row = {"name": topic, "partition": partition}
    done(f"the oldest segments of partition {partition} are removed", row, output)


@topic.command(short_help="Remove all messages of a topic.")
@STREAM
@TOPIC
@yes_option
@with_client
def purge(stream: str, topic: str, *, yes: bool, client: Client, output: str) -> None:
    """Remove all messages and stored offsets of TOPIC."""
    confirm(f"Remove all messages of topic {topic}?", yes=yes)
    client.purge_topic(stream, topic)
    done(f"topic {topic} is empty", {"name": topic}, output)


@topic.command(short_help="Remove a topic.")
@STREAM
@TOPIC
@yes_option
@with_client
def delete(stream: str, topic: str, *, yes: bool, client: Client, output: str) -> None:
    """Remove TOPIC with all its messages."""
    confirm(f"Remove topic {topic} with everything in it?", yes=yes)
    client.delete_topic(stream, topic)
    done(f"topic {topic} is removed", {"name": topic}, output)
