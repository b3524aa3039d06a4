"""`iggykube group`: consumer groups, their members and how far they are behind."""

from __future__ import annotations

from typing import Any

import click

from iggy_client.client import Client
from iggy_wire.primitives import Consumer
from iggykube.admin.frame import (
    confirm,
    done,
    found,
    show_fields,
    show_json,
    show_rows,
    with_client,
    yes_option,
)
from iggykube.admin.streams import STREAM
from iggykube.completion import complete_group, complete_topic
from iggykube.option_types import NAME

TOPIC = click.argument("topic", type=NAME, shell_complete=complete_topic)
GROUP = click.argument("name", type=NAME, shell_complete=complete_group, metavar="GROUP")


@click.group()
def group() -> None:
    """Consumer groups of a topic: list, show with lag, create, delete."""


@group.command("list", short_help="All groups of a topic.")
@STREAM
@TOPIC
@with_client
def list_groups(stream: str, topic: str, client: Client, output: str) -> None:
    """List the groups of TOPIC."""
    rows = [
        {
            "id": item.id,
            "name": item.name,
            "members": item.members_count,
            "partitions": item.partitions_count,
        }
        for item in client.get_groups(stream, topic)
    ]
    show_rows(rows, ("id", "name", "members", "partitions"), output, name="groups")


@group.command(short_help="Members, stored offsets and lag of a group.")
@STREAM
@TOPIC
@GROUP
@with_client
def show(stream: str, topic: str, name: str, client: Client, output: str) -> None:
    """Show GROUP: who reads which partition, up to where, and how many messages wait."""
    details = found(client.get_group(stream, topic, name), f"group {name}")
    owners = {one: member.id for member in details.members for one in member.partitions}
    rows = offset_rows(client, stream, topic, Consumer.group(name))
    for row in rows:
        row["member"] = owners.get(row["partition"])
    head = {
        "id": details.group.id,
        "name": details.group.name,
        "members": len(details.members),
        "lag": sum(row["lag"] for row in rows),
    }
    if output == "json":
        show_json(head | {"partitions": rows})
        return
    show_fields(head, output)
    columns = ("partition", "member", "stored_offset", "end", "lag")
    show_rows(rows, columns, output, name="partitions")


def offset_rows(
    client: Client, stream: str, topic: str, consumer: Consumer
) -> list[dict[str, Any]]:
    """For each partition: what the consumer has stored (None: nothing), and what is behind it."""
    rows: list[dict[str, Any]] = []
    details = found(client.get_topic(stream, topic), f"topic {topic} in stream {stream}")
    for item in details.partitions:
        # Iggy protocol 0.11: the current offset is 0 for an empty partition as for one message.
        end = item.current_offset + 1 if item.messages_count or item.current_offset else 0
        stored = client.get_offset(consumer, stream, topic, item.id)
        offset = None if stored is None else stored.stored_offset
        behind = item.messages_count if offset is None else end - offset - 1
        row = {"partition": item.id, "stored_offset": offset, "end": end}
        rows.append(row | {"lag": max(0, min(behind, item.messages_count))})
    return rows


@group.command(short_help="Make a group.")
@STREAM
@TOPIC
@click.argument("name", type=NAME, metavar="GROUP")
@with_client
def create(stream: str, topic: str, name: str, client: Client, output: str) -> None:
    """Make GROUP. Consumers make theirs by themselves; this is for those that may not."""
    made = client.create_group(stream, topic, name)
    row = {"id": made.group.id, "name": made.group.name}
    done(f"group {name} is made, with id {made.group.id}", row, output)


@group.command(short_help="Remove a group.")
@STREAM
@TOPIC
@GROUP
@yes_option
@with_client
def delete(stream: str, topic: str, name: str, *, yes: bool, client: Client, output: str) -> None:
    """Remove GROUP with its stored offsets."""
    confirm(f"Remove group {name} with its stored offsets?", yes=yes)
    client.delete_group(stream, topic, name)
    done(f"group {name} is removed", {"name": name}, output)
