"""Logins of targets: a folder with one file a value, as a Secret is mounted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iggy_spark.errors import OptionError

VALUE_BYTES_MAX = 64 << 10  # of one file


def read(field: str, folder: str | None, names: Sequence[str]) -> dict[str, str]:
    """The values that are there, by name, without the line end that editors add.

    Read anew for each connection, so that a rotation needs no restart. `field` is named in errors.

    Raises:
        OptionError: the folder or one of these files cannot be read.
    """
    if folder is None:
        return {}
    found = {}
    try:
        if not Path(folder).is_dir():
            raise OptionError(f"{field}: {folder} is no folder")
        for name in names:
            path = Path(folder) / name
            if path.exists():
                found[name] = path.read_bytes()[:VALUE_BYTES_MAX].decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{field}: {folder} cannot be read: {error}") from error
    return found
