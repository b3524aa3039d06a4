"""What all commands here share: a client, an answer as table or JSON, a question before a loss."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, TypeVar

import click
import msgspec

from iggy_client.errors import ClientError, LinkError
from iggy_wire.primitives import EXPIRY_NEVER, SIZE_UNLIMITED
from iggykube import view
from iggykube.connection import BrokerProblem, TargetOptions, target_options
from iggykube.errors import CommandError
from iggykube.options import output_option
from iggykube.sheet import moment

T = TypeVar("T")

Row = Mapping[str, Any]

yes_option: Final = click.option(
    "--yes", is_flag=True, help="Do not ask. Needed where nobody sits at a terminal."
)
_SECONDS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIBI: Final = 1024
_TENTHS_BELOW: Final = 10


class NotThere(CommandError):
    """Something that was named is not in the broker."""


def with_client(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of the broker and of the output; the command gets `client` and `output`.

    To be put directly above the command. What the broker refuses ends it with one line.
    """
    return _connected(command, needs_login=True)


def with_any_client(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `with_client`, for what a broker tells everybody: without a login nobody logs in."""
    return _connected(command, needs_login=False)


def _connected(command: Callable[..., Any], *, needs_login: bool) -> Callable[..., Any]:
    @wraps(command)
    def connected(given: TargetOptions, **values: Any) -> Any:
        with given.target(needs_login=needs_login).connect() as client, refusals():
            return command(client=client, **values)

    return output_option(target_options(connected))


@contextmanager
def refusals() -> Iterator[None]:
    """Inside, an answer that is no turns into a line for people."""
    try:
        yield
    except (ClientError, LinkError) as error:
        raise BrokerProblem(f"the broker: {error}") from error


def found(value: T | None, what: str) -> T:
    """The value. Raises NotThere for None; `what` names it, such as `topic orders`."""
    if value is None:
        raise NotThere(f"there is no {what}, or you may not see it")
    return value


def show_rows(rows: Sequence[Row], columns: Sequence[str], output: str, *, name: str) -> None:
    """A table with these of the fields as columns, or `{name: [...]}` with all of them."""
    if output == "json":
        show_json({name: rows})
        return
    if not rows:
        view.console().print(f"no {name}")
        return
    table = view.table([one.replace("_", " ").upper() for one in columns])
    for row in rows:
        table.add_row(*(cell(one, row[one]) for one in columns))
    view.console().print(table)


def show_fields(row: Row, output: str) -> None:
    """A line for each field, or one JSON object."""
    if output == "json":
        show_json(row)
        return
    width = max(len(name) for name in row)
    for name, value in row.items():
        if not isinstance(value, list | dict):
            click.echo(f"{name.replace('_', ' '):{width}}  {cell(name, value)}")


def show_json(value: object) -> None:
    """One line."""
    click.echo(msgspec.json.encode(value).decode())


def done(text: str, row: Row, output: str) -> None:
    """What a change has done: a sentence, or an object."""
    if output == "json":
        show_json(row)
    else:
        click.echo(text)


def cell(name: str, value: object) -> str:
    """As people read it; the end of a field's name tells its unit."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("size"):
        return size_text(value)
    if isinstance(value, int) and not name.endswith("id"):
        return view.count(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def size_text(size_bytes: int) -> str:
    """Bytes in the unit that leaves one to four digits."""
    value, unit = float(size_bytes), 0
    while value >= _KIBI and unit + 1 < len(_UNITS):
        value, unit = value / _KIBI, unit + 1
    digits = 1 if unit and value < _TENTHS_BELOW else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def limit(value: int) -> int | str:
    """A size limit: bytes, or `unlimited`."""
    return "unlimited" if value == SIZE_UNLIMITED else value


def expiry(value_us: int) -> str:
    """An expiry: `never`, or a duration such as `7d` or `1h30m`."""
    return "never" if value_us == EXPIRY_NEVER else duration_text(value_us)


def duration_text(value_us: int) -> str:
    """A duration as options take it."""
    seconds, rest_us = divmod(value_us, 1_000_000)
    text = ""
    for factor, unit in _SECONDS:
        number, seconds = divmod(seconds, factor)
        text += f"{number}{unit}" if number else ""
    if rest_us:
        text += f"{rest_us // 1000}ms"
    return text or "0s"


def time_text(value_us: int) -> str | None:
    """A point in time in UTC; None for 0, which stands for none."""
    return moment(value_us) if value_us else None


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost. Raises UsageError where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes: there is no terminal to ask at")
    click.confirm(question, abort=True, err=True)
