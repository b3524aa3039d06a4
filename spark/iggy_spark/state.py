"""Small files beside a checkpoint: written once, whole or not at all, never changed."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iggy_spark.errors import OffsetFormatError, OptionError
from iggy_spark.offsets import QueryOffsets

INITIAL_NAME = "initial.json"


def read_initial(location: str) -> QueryOffsets | None:
    """Where the query's first batch began; None if that was not written down yet.

    Raises:
        OffsetFormatError: the file holds something else.
    """
    value = read_json(Path(location) / INITIAL_NAME)
    return None if value is None else QueryOffsets.from_json(value)


def write_initial(location: str, offsets: QueryOffsets) -> QueryOffsets:
    """Write down where the first batch begins, unless it was; what holds is returned.

    Raises:
        OptionError: the folder of `stateLocation` cannot be written.
    """
    return QueryOffsets.from_json(write_once(Path(location) / INITIAL_NAME, offsets.to_json()))


def read_json(path: Path) -> Any:
    """A JSON file's value, None if there is no such file.

    Raises:
        OffsetFormatError: not JSON.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise OffsetFormatError(f"{path} cannot be read: {error}") from error


def write_once(path: Path, value: Mapping[str, Any]) -> Any:
    """Create a JSON file, durable and whole; if it exists already, its value is returned instead.

    Raises:
        OptionError: the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(temporary, json.dumps(value).encode())
        try:
            os.link(temporary, path)  # atomic, and fails if another was first
        except FileExistsError:
            return read_json(path)
        finally:
            temporary.unlink()
        sync_folder(path.parent)
    except OSError as error:
        raise OptionError(f"stateLocation: {path.parent} cannot be written: {error}") from error
    return value


def write_durably(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make created and renamed names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
