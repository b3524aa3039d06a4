"""`iggykube stream`."""

from __future__ import annotations

from typing import Any

import click

from iggy_client.client import Client
from iggy_wire.replies import Stream
from iggykube.admin.frame import (
    confirm,
    done,
    found,
    show_fields,
    show_rows,
    time_text,
    with_client,
    yes_option,
)
from iggykube.completion import complete_stream
from iggykube.option_types import NAME

STREAM = click.argument("stream", type=NAME, shell_complete=complete_stream)


@click.group()
def stream() -> None:
    """Streams of a broker: list, show, create, rename, purge, delete."""


def _row(item: Stream) -> dict[str, Any]:
    return {
        "id": item.id,
        "name": item.name,
        "topics": item.topics_count,
        "messages": item.messages_count,
        "size": item.size_bytes,
        "created_at": time_text(item.created_at_us),
    }


@stream.command("list", short_help="All streams.")
@with_client
def list_streams(client: Client, output: str) -> None:
    """List the streams that you may see."""
    rows = [_row(item) for item in client.get_streams()]
    columns = ("id", "name", "topics", "messages", "size", "created_at")
    show_rows(rows, columns, output, name="streams")


@stream.command(short_help="One stream and its topics.")
@STREAM
@with_client
def show(stream: str, client: Client, output: str) -> None:
    """Show STREAM, with the names of its topics."""
    details = found(client.get_stream(stream), f"stream {stream}")
    row = _row(details.stream)
    show_fields(row | {"topic_names": tuple(item.name for item in details.topics)}, output)


@stream.command(short_help="Make a stream.")
@click.argument("stream", type=NAME)
@with_client
def create(stream: str, client: Client, output: str) -> None:
    """Make STREAM."""
    made = client.create_stream(stream)
    done(f"stream {stream} is made, with id {made.id}", _row(made), output)


@stream.command(short_help="Give a stream another name.")
@STREAM
@click.argument("name", type=NAME)
@with_client
def rename(stream: str, name: str, client: Client, output: str) -> None:
    """Rename STREAM to NAME. Programs that use the old name no longer find it."""
    client.update_stream(stream, name)
    done(f"stream {stream} is named {name} now", {"name": name}, output)


@stream.command(short_help="Remove all messages of a stream.")
@STREAM
@yes_option
@with_client
def purge(stream: str, *, yes: bool, client: Client, output: str) -> None:
    """Remove all messages and stored offsets of all topics of STREAM."""
    confirm(f"Remove all messages of stream {stream}?", yes=yes)
    client.purge_stream(stream)
    done(f"stream {stream} is empty", {"name": stream}, output)


@stream.command(short_help="Remove a stream.")
@STREAM
@yes_option
@with_client
def delete(stream: str, *, yes: bool, client: Client, output: str) -> None:
    """Remove STREAM with all its topics and messages."""
    confirm(f"Remove stream {stream} with everything in it?", yes=yes)
    client.delete_stream(stream)
    done(f"stream {stream} is removed", {"name": stream}, output)
