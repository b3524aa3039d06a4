"""Fences in an archive and in a data directory, see `iggy_wire.archive_fences`. Blocking, for a
thread.
"""

from __future__ import annotations

from typing import Final

from iggy_broker.archive.copying import store_small
from iggy_broker.archive.state_objects import OWNER_BYTES_MAX
from iggy_broker.archive.store import BLOCK_BYTES, ArchiveError, ArchiveStore
from iggy_broker.storage.disk import Disk
from iggy_wire.archive import OWNER_KEY, OWNERS_PREFIX
from iggy_wire.archive_fences import FENCES_BYTES_MAX, NO_FENCES, Fences, key_for, newest
from iggy_wire.errors import WireError

FENCES_FILE: Final = "archive_fences.json"
"""In the data directory: what its claim puts into the archive."""


def read_fences(store: ArchiveStore, known: Fences = NO_FENCES) -> Fences:
    """Those that count now. `known`: those that counted before. ArchiveError."""
    try:
        key = key_for(store.read(OWNER_KEY, OWNER_BYTES_MAX, 0), OWNER_KEY)
    except FileNotFoundError:
        return newest_fences(store)
    except WireError as error:
        raise _unusable(error) from None
    if key is None:
        return NO_FENCES
    is_known = known.key == key and known.is_begun  # those are never written again
    return known if is_known else _read(store, key)


def newest_fences(store: ArchiveStore) -> Fences:
    """Those of the last owner that has any; NO_FENCES if there was none. ArchiveError."""
    key = newest(entry.key for entry in store.entries(OWNERS_PREFIX))
    return NO_FENCES if key is None else _read(store, key)


def put_fences(store: ArchiveStore, fences: Fences) -> None:
    """Before `owner.json` names their owner; the first one has none. ArchiveError."""
    if fences.generation > 1:
        store_small(store, fences.key, fences.encode())


def read_prepared(disk: Disk, root: str) -> Fences:
    """What a restore has noted in the data directory `root`; NO_FENCES: nothing. OSError."""
    path = f"{root}/{FENCES_FILE}"
    try:
        return Fences.decode(disk.read_file(path, bytes_max=FENCES_BYTES_MAX), path)
    except FileNotFoundError:
        return NO_FENCES
    except WireError as error:
        raise ArchiveError(f"{error}: restore this data directory again") from None


def write_prepared(disk: Disk, root: str, fences: Fences) -> None:
    """Note it, durably; the first owner has none. OSError, StorageFailed."""
    if fences.generation > 1:
        disk.write_file(f"{root}/{FENCES_FILE}", fences.encode(), sync=True)


def _read(store: ArchiveStore, key: str) -> Fences:
    size_bytes = store.size(key)
    if size_bytes is None:
        return NO_FENCES
    if size_bytes > FENCES_BYTES_MAX:
        raise ArchiveError(f"{key} has {size_bytes} bytes: it is none of ours")
    blocks = range(0, size_bytes, BLOCK_BYTES)
    try:
        data = b"".join(store.read(key, BLOCK_BYTES, at) for at in blocks)
        return Fences.decode(data, key)
    except FileNotFoundError:
        return NO_FENCES
    except WireError as error:
        raise _unusable(error) from None


def _unusable(error: WireError) -> ArchiveError:
    return ArchiveError(f"the archive is not to be used: {error}: repair or remove it")
