"""Requests to write dead letters again: a file each, from the command to the instance that runs.

A request is there until its sink says that it is done, so it outlives a restart of either.
"""

import time
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from iggykube.local.folders import Folders, write_private

REQUEST_BYTES_MAX: Final = 64 << 10


class Redrive(msgspec.Struct, frozen=True, rename="camel"):
    """The block `redrive` of a job's file. Nothing chosen means all letters."""

    request: str
    error_classes: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    since: str | None = msgspec.field(name="from", default=None)
    """When the broker took the message, ISO 8601 with a zone; at this time or later."""
    until: str | None = msgspec.field(name="to", default=None)
    """And before this time."""


class RedriveState(StrEnum):
    """How far a request is."""

    ASKED = "Asked"
    RUNNING = "Running"
    DONE = "Done"


class RedriveRow(msgspec.Struct, frozen=True):
    """A request, as a snapshot tells of it. Counts are messages."""

    request: str
    state: RedriveState = RedriveState.ASKED
    written: int = 0
    failed: int = 0
    """These are dead letters again."""


class _Asked(msgspec.Struct, frozen=True):
    sink: str
    redrive: Redrive


def new_request() -> str:
    """A text that no other request has."""
    return f"{datetime.now(UTC).isoformat(timespec='microseconds')}.{time.monotonic_ns()}"


def ask(folders: Folders, sink: str, redrive: Redrive) -> None:
    """Leave a request where the instance finds it; an older one of this sink is replaced."""
    folders.redrives.mkdir(mode=0o700, exist_ok=True)
    write_private(_file(folders, sink), msgspec.json.encode(_Asked(sink, redrive)))


def asked(folders: Folders) -> dict[str, Redrive]:
    """All requests that are open, by sink."""
    found = [_read(path) for path in folders.redrives.glob("*.json")]
    return {item.sink: item.redrive for item in found if item is not None}


def asked_of(folders: Folders, sink: str) -> Redrive | None:
    """The open request of one sink."""
    found = _read(_file(folders, sink))
    return None if found is None else found.redrive


def done(folders: Folders, sink: str, request: str) -> None:
    """Forget a request, unless a later one has taken its place."""
    found = asked_of(folders, sink)
    if found is not None and found.request == request:
        _file(folders, sink).unlink(missing_ok=True)


def block(redrive: Redrive) -> dict[str, Any]:
    """As the job's file has it."""
    made: dict[str, Any] = msgspec.to_builtins(redrive)
    return made


def _file(folders: Folders, sink: str) -> Path:
    return folders.redrives / f"{sink.replace('/', '@')}.json"


def _read(path: Path) -> _Asked | None:
    """Another version may have left something else: that asks for nothing."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(REQUEST_BYTES_MAX), type=_Asked)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
