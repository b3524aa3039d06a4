"""`iggykube stats`, `cluster`, `client` and `ping`: the broker itself."""

from __future__ import annotations

import time
from typing import Any, Final

import click
import msgspec

from iggy_client.client import Client
from iggy_wire.replies import ClientInfo
from iggykube.admin.frame import (
    done,
    duration_text,
    found,
    show_fields,
    show_json,
    show_rows,
    time_text,
    with_any_client,
    with_client,
)

# Numbers of the protocol (Iggy protocol 0.11).
TRANSPORTS: Final = {1: "tcp", 2: "quic", 3: "http", 4: "websocket"}
ROLES: Final = {0: "leader", 1: "follower"}
STATES: Final = {0: "healthy", 1: "starting", 2: "stopping", 3: "unreachable", 4: "maintenance"}
NOBODY: Final = (1 << 32) - 1
CLIENT_ID: Final = click.IntRange(0, (1 << 32) - 1)
_SIZES: Final = {
    "memory_usage": "memory_size",
    "total_memory": "total_memory_size",
    "available_memory": "available_memory_size",
    "read_bytes": "read_size",
    "written_bytes": "written_size",
    "messages_size_bytes": "messages_size",
    "free_disk_space": "free_disk_size",
    "total_disk_space": "total_disk_size",
}


@click.command()
@with_client
def stats(client: Client, output: str) -> None:
    """Show what the broker holds and uses."""
    given = msgspec.structs.asdict(client.get_stats())
    given.pop("cache")
    run_time_us, start_time_us = given.pop("run_time_us"), given.pop("start_time_us")
    row = {_SIZES.get(name, name): value for name, value in given.items()}
    row |= {"run_time": duration_text(run_time_us), "started_at": time_text(start_time_us)}
    show_fields(row, output)


@click.command()
@with_client
def cluster(client: Client, output: str) -> None:
    """Show the nodes that the broker names, with the ports of their transports."""
    answer = client.get_cluster_metadata()
    rows = [
        msgspec.structs.asdict(node)
        | {"role": ROLES.get(node.role, node.role), "status": STATES.get(node.status, node.status)}
        for node in answer.nodes
    ]
    if output == "json":
        show_json({"name": answer.name, "nodes": rows})
        return
    for row in rows:  # ports are names and not numbers
        row |= {name: str(value) for name, value in row.items() if name.endswith("_port")}
    ports = ("tcp_port", "quic_port", "http_port", "websocket_port")
    show_rows(rows, ("name", "address", *ports, "role", "status"), output, name="nodes")


@click.command()
@with_any_client
def ping(client: Client, output: str) -> None:
    """Ask whether the broker answers, and how fast. Needs no login; one that is given is tried."""
    began = time.perf_counter()
    client.ping()
    milliseconds = round((time.perf_counter() - began) * 1000, 3)
    done(f"answered in {milliseconds} ms", {"milliseconds": milliseconds}, output)


@click.group()
def client() -> None:
    """Clients that are connected to the broker: list, show, me."""


def _row(item: ClientInfo) -> dict[str, Any]:
    return {
        "id": item.client_id,
        "user_id": None if item.user_id == NOBODY else item.user_id,
        "transport": TRANSPORTS.get(item.transport, str(item.transport)),
        "address": item.address,
        "groups": item.groups_count,
    }


@client.command("list", short_help="All clients.")
@with_client
def list_clients(client: Client, output: str) -> None:
    """List who is connected."""
    rows = [_row(item) for item in client.get_clients()]
    columns = ("id", "user_id", "transport", "address", "groups")
    show_rows(rows, columns, output, name="clients")


@client.command(short_help="One client and its groups.")
@click.argument("client_id", type=CLIENT_ID, metavar="ID")
@with_client
def show(client_id: int, client: Client, output: str) -> None:
    """Show the client with this ID."""
    details = found(client.get_client(client_id), f"client {client_id}")
    _show_details(details.client, [msgspec.structs.asdict(one) for one in details.groups], output)


@client.command(short_help="This connection.")
@with_client
def me(client: Client, output: str) -> None:
    """Show this connection as the broker sees it."""
    details = client.get_me()
    _show_details(details.client, [msgspec.structs.asdict(one) for one in details.groups], output)


def _show_details(item: ClientInfo, groups: list[dict[str, Any]], output: str) -> None:
    row = _row(item)
    if output == "json":
        show_json(row | {"memberships": groups})
        return
    show_fields(row, output)
    if groups:
        show_rows(groups, ("stream_id", "topic_id", "group_id"), output, name="memberships")
