"""Files that a declaration names, such as descriptor sets: read once, where the job is planned.

What was read travels with the declaration, so that executors need no such files and all tasks see
the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from iggy_spark.errors import OptionError
from iggy_spark.formats.base import SCHEMA_BYTES_MAX


class Files:
    """Files by path: those that are held, else those of this machine."""

    def __init__(self, held: Mapping[str, bytes] | None = None) -> None:
        """Without `held` all files are read from disk, and held from then on."""
        self._disk = held is None
        self.held: dict[str, bytes] = dict(held or {})

    def read(self, path: str, place: str) -> bytes:
        """The file's bytes.

        Raises:
            OptionError: it cannot be read or is too large; `place` is in front.
        """
        if path not in self.held and self._disk:
            self.held[path] = _read(path, place)
        if path not in self.held:
            raise OptionError(f"{place}: {path} was not read when the job was planned")
        return self.held[path]


def _read(path: str, place: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(SCHEMA_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{place}: {path} cannot be read: {reason}") from error
    if len(data) > SCHEMA_BYTES_MAX:
        raise OptionError(f"{place}: {path} has more than {SCHEMA_BYTES_MAX} bytes")
    return data
