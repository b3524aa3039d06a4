"""`iggykube token`: personal access tokens of whoever logs in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from iggy_client.client import Client
from iggy_operator import units
from iggykube.admin.frame import (
    confirm,
    done,
    show_rows,
    time_text,
    with_client,
    yes_option,
)
from iggykube.option_types import NAME, Parsed

_PRIVATE: Final = 0o600


def _life(text: str) -> int:
    """Microseconds; 0 stands for a token that never expires (Iggy protocol 0.11)."""
    if text == "never":
        return 0
    try:
        found_us = units.duration_us(text)
    except ValueError:
        raise ValueError("is no duration: never, or such as 30d or 12h") from None
    if not found_us:
        raise ValueError("must be longer than 0; a token that stays is: never")
    return found_us


@click.group()
def token() -> None:
    """Personal access tokens: list, create, delete."""


@token.command("list", short_help="Your tokens.")
@with_client
def list_tokens(client: Client, output: str) -> None:
    """List your tokens. What a token says itself was shown once, when it was made."""
    rows = [
        {"name": item.name, "expires_at": time_text(item.expires_at_us)}
        for item in client.get_access_tokens()
    ]
    show_rows(rows, ("name", "expires_at"), output, name="tokens")


@token.command(short_help="Make a token.")
@click.argument("name", type=NAME)
@click.option(
    "--expires",
    "expires_us",
    type=Parsed("duration", _life),
    required=True,
    metavar="DURATION",
    help="How long it is good for: such as 30d, or never.",
)
@click.option(
    "--to",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it into this new file, which only you can read. Without: print it.",
)
@with_client
def create(name: str, expires_us: int, path: Path | None, client: Client, output: str) -> None:
    """Make a token NAME. It is told this once; whoever has it can do what you can."""
    if path is None:
        text = client.create_access_token(name, expires_us)
        done(text, {"name": name, "token": text}, output)
        return
    # Before the token is made: nobody could read one that has no file to go to.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w") as file:
        try:
            file.write(client.create_access_token(name, expires_us) + "\n")
        except BaseException:
            path.unlink()
            raise
    done(f"token {name} is in {path}", {"name": name, "file": str(path)}, output)


@token.command(short_help="End a token.")
@click.argument("name", type=NAME)
@yes_option
@with_client
def delete(name: str, *, yes: bool, client: Client, output: str) -> None:
    """End the token NAME. Who uses it can no longer log in."""
    confirm(f"End token {name}?", yes=yes)
    client.delete_access_token(name)
    done(f"token {name} is gone", {"name": name}, output)
