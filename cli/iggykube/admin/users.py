"""`iggykube user`: who may log in, and what they may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
import yaml

from iggy_client.client import Client
from iggy_operator import API_VERSION
from iggy_operator.decide.users import wanted_permissions
from iggy_operator.validation import check
from iggy_wire.permissions import Permissions
from iggy_wire.replies import User
from iggykube.admin.frame import (
    confirm,
    done,
    found,
    show_fields,
    show_json,
    show_rows,
    time_text,
    with_client,
    yes_option,
)
from iggykube.connection import read_secret, read_text
from iggykube.errors import FileProblems
from iggykube.option_types import NAME

PERMISSIONS_BYTES_MAX: Final = 1 << 20
_ACTIVE: Final = 1  # of a user's status (Iggy protocol 0.11)
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_USER: Final = click.argument("name", type=NAME)
_GRANTS: Final = click.option(
    "--permissions",
    "grants",
    type=_FILE,
    metavar="FILE",
    help="YAML file with what stands below spec.permissions of an IggyUser. Without: nothing.",
)
_PASSWORD: Final = click.option(
    "--new-password-file",
    "password",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="File that holds the user's password.",
)


@click.group()
def user() -> None:
    """Users of a broker: list, show, create, update, permissions, password, delete."""


def _row(item: User) -> dict[str, Any]:
    return {
        "id": item.id,
        "name": item.name,
        "active": item.status == _ACTIVE,
        "created_at": time_text(item.created_at_us),
    }


@user.command("list", short_help="All users.")
@with_client
def list_users(client: Client, output: str) -> None:
    """List the users."""
    rows = [_row(item) for item in client.get_users()]
    show_rows(rows, ("id", "name", "active", "created_at"), output, name="users")


@user.command(short_help="One user, with all permissions.")
@_USER
@with_client
def show(name: str, client: Client, output: str) -> None:
    """Show the user NAME and what it may do, as `--permissions` takes it."""
    details = found(client.get_user(name), f"user {name}")
    row, grants = _row(details.user), _as_block(client, details.permissions)
    if output == "json":
        show_json(row | {"permissions": grants})
        return
    show_fields(row, output)
    click.echo(yaml.safe_dump({"permissions": grants}, sort_keys=False).rstrip())


@user.command(short_help="Make a user.")
@_USER
@_PASSWORD
@click.option("--inactive", is_flag=True, help="Who may not log in yet.")
@_GRANTS
@with_client
def create(
    name: str, password: Path, *, inactive: bool, grants: Path | None, client: Client, output: str
) -> None:
    """Make the user NAME."""
    permissions = None if grants is None else _read_permissions(client, grants)
    secret = read_secret("--new-password-file", password)
    made = client.create_user(name, secret, active=not inactive, permissions=permissions)
    done(f"user {name} is made, with id {made.user.id}", _row(made.user), output)


@user.command(short_help="Change name or state.")
@_USER
@click.option("--name", "new_name", type=NAME, metavar="NAME", help="A new name.")
@click.option("--active/--inactive", default=None, help="Whether it may log in.")
@with_client
def update(
    name: str, *, new_name: str | None, active: bool | None, client: Client, output: str
) -> None:
    """Change the user NAME. Sessions of one that becomes inactive end."""
    if new_name is None and active is None:
        raise click.UsageError("nothing to change: give --name, --active or --inactive")
    client.update_user(name, username=new_name, active=active)
    done(f"user {new_name or name} is changed", {"name": new_name or name}, output)


@user.command(short_help="Set what a user may do.")
@_USER
@_GRANTS
@with_client
def permissions(name: str, grants: Path | None, client: Client, output: str) -> None:
    """Replace all that the user NAME may do."""
    wanted = None if grants is None else _read_permissions(client, grants)
    client.update_permissions(name, wanted)
    done(f"user {name} has these permissions now", {"name": name}, output)


@user.command(short_help="Set a password.")
@_USER
@_PASSWORD
@click.option(
    "--current-password-file",
    "current",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="File that holds the password as it is.",
)
@with_client
def password(name: str, password: Path, current: Path, client: Client, output: str) -> None:
    """Set the password of the user NAME. It logs in with the new one from then on."""
    old = read_secret("--current-password-file", current)
    client.change_password(name, old, read_secret("--new-password-file", password))
    done(f"user {name} has a new password", {"name": name}, output)


@user.command(short_help="Remove a user.")
@_USER
@yes_option
@with_client
def delete(name: str, *, yes: bool, client: Client, output: str) -> None:
    """Remove the user NAME with its tokens. Its sessions end."""
    confirm(f"Remove user {name}?", yes=yes)
    client.delete_user(name)
    done(f"user {name} is removed", {"name": name}, output)


def _read_permissions(client: Client, path: Path) -> Permissions:
    """The file's block, by the numbers that its streams and topics have now."""
    block = _checked(path, read_text("--permissions", path, PERMISSIONS_BYTES_MAX))
    streams = {item.name: item.id for item in client.get_streams()}
    topics = {
        (entry["stream"], item.name): item.id
        for entry in block.get("streams", ())
        if entry.get("topics") and entry["stream"] in streams
        for item in client.get_topics(entry["stream"])
    }
    wanted, missing = wanted_permissions(block, streams, topics)
    if missing:
        names = ", ".join(missing)
        raise FileProblems([f"{path}: streams: not in the broker, or not for you: {names}"])
    return wanted


def _checked(path: Path, text: str) -> dict[str, Any]:
    """As the operator checks a resource. Raises FileProblems."""
    try:
        block = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise FileProblems([f"{path}: is no YAML: {error}"]) from error
    if isinstance(block, dict) and block.keys() == {"permissions"}:  # as `show` prints it
        block = block["permissions"]
    resource = {"apiVersion": API_VERSION, "kind": "IggyUser", "metadata": {"name": "user"}}
    problems = check(resource | {"spec": {"permissions": block}}).problems
    ours = [one for one in problems if one.path[:2] == ("spec", "permissions")]
    if ours:
        raise FileProblems([f"{path}: {one}" for one in ours])
    checked: dict[str, Any] = block
    return checked


def _as_block(client: Client, permissions: Permissions | None) -> dict[str, Any]:
    """Permissions with names; what is gone meanwhile has its number."""
    if permissions is None:
        return {}
    streams = {item.id: item.name for item in client.get_streams()}
    block: dict[str, Any] = {"global": _words(permissions.everywhere)}
    entries = []
    for grant in permissions.streams:
        stream = streams.get(grant.stream_id)
        entry: dict[str, Any] = {"stream": stream or f"#{grant.stream_id}", "allow": _words(grant)}
        if grant.topics:
            known = () if stream is None else client.get_topics(stream)
            names = {item.id: item.name for item in known}
            entry["topics"] = [
                {"topic": names.get(one.topic_id, f"#{one.topic_id}"), "allow": _words(one)}
                for one in grant.topics
            ]
        entries.append(entry)
    if entries:
        block["streams"] = entries
    return block


def _words(flags: Any) -> list[str]:
    """`read_topics` that is set is ReadTopics."""
    return [
        "".join(part.capitalize() for part in name.split("_"))
        for name in flags.__struct_fields__
        if getattr(flags, name) is True
    ]
