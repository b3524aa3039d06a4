"""Keys of archived segments that the broker has encrypted: files, as a Secret is mounted."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from iggy_spark.errors import OptionError
from iggy_wire.sealing import NO_KEYS, Keyring, parse_key

FILE_BYTES_MAX: Final = 4096  # of one key
KEYS_MAX: Final = 1000  # of one folder


def keyring(folder: str) -> Keyring:
    """All keys of a folder, each in a file of its own; none without a folder.

    Raises:
        OptionError: it cannot be read, or a file of it is no key.
    """
    if not folder:
        return NO_KEYS
    try:
        # Files that begin with a dot are how a mounted Secret is exchanged.
        paths = [path for path in sorted(Path(folder).iterdir()) if path.name[0] != "."]
        if len(paths) > KEYS_MAX:
            raise OptionError(f"archive.keysPath: {folder} has more than {KEYS_MAX} files")
        files = tuple((path.name, path.read_bytes()[:FILE_BYTES_MAX]) for path in paths)
    except OSError as error:
        raise OptionError(f"archive.keysPath: {folder} cannot be read: {error}") from error
    return _ring(folder, files)


@lru_cache(8)
def _ring(folder: str, files: tuple[tuple[str, bytes], ...]) -> Keyring:
    keys = []
    for name, data in files:
        try:
            keys.append(parse_key(data.decode("ascii")))
        except ValueError as error:  # without the text
            told = error if "base64" in str(error) else "no text"
            raise OptionError(f"archive.keysPath: {folder}/{name}: {told}") from None
    return Keyring(keys)


def missing(folder: str) -> str:
    """What to do where a key is not given."""
    if not folder:
        return "set archive.keysPath to a folder that has it in a file"
    return f"add it as a file to {folder} (archive.keysPath)"
