"""The keys of encrypted data: out of the settings, and the files that those name."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from iggy_broker.config_data import Encryption
from iggy_wire.sealing import NO_KEYS, Keyring, parse_key

FILE_BYTES_MAX: Final = 64 << 10
_SECTION: Final = "system.encryption"


class KeysError(Exception):
    """Keys that the broker will not start with. The text says which setting, and the fix."""


def read_keys(settings: Encryption) -> Keyring:
    """All keys that the settings name. Nothing is encrypted unless that is enabled. KeysError."""
    key: bytes | None = None
    if settings.key_file:
        found = _read("key_file", settings.key_file)
        if len(found) != 1:
            raise KeysError(f"{_SECTION}.key_file = {settings.key_file}: write one key into it")
        key = found[0]
    elif settings.key:
        key = parse_key(settings.key)
    old = [parse_key(text) for text in settings.old_keys.split(",") if text]
    for path in filter(None, map(str.strip, settings.old_key_files.split(","))):
        old += _read("old_key_files", path)
    if key is None and not old:
        return NO_KEYS
    _import()
    if key is not None and not settings.enabled:
        return Keyring([key, *old])
    return Keyring(old, key=key)


def _read(name: str, path: str) -> Sequence[bytes]:
    """Keys in a file, one a line."""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(FILE_BYTES_MAX)
    except OSError as error:
        why = f"cannot be read ({error.strerror}): make the file, or name another"
        raise KeysError(f"{_SECTION}.{name} = {path}: {why}") from None
    try:
        return [parse_key(line) for line in data.decode("ascii", errors="replace").split()]
    except ValueError as error:
        raise KeysError(f"{_SECTION}.{name} = {path}: {error}") from None


def _import() -> None:
    """Before the fork, to be shared by the shards, and because a start says what is missing."""
    try:
        importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
    except ModuleNotFoundError:
        fix = "install it with: pip install 'iggykube[broker]'"
        raise KeysError(f"{_SECTION} needs the Python package cryptography: {fix}") from None
