"""Whose archive it is: one data directory copies to an archive, and no other.

The directory notes an id and a generation; the archive has those of the one that copies to it. A
restored directory has the next generation: when its broker starts, the archive is its own, and a
broker of the former one that still runs sees that and copies nothing any more. Blocking, for a
thread.
"""

from __future__ import annotations

import secrets
from enum import Enum, auto
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from iggy_broker.archive.copying import store_small
from iggy_broker.archive.fences import newest_fences, put_fences, read_prepared, write_prepared
from iggy_broker.archive.state_objects import OWNER_BYTES_MAX, Owner, encode
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.storage.disk import Disk
from iggy_wire.archive import OWNER_KEY
from iggy_wire.archive_fences import NO_FENCES
from iggy_wire.errors import WireError

OWNER_FILE: Final = "archive_owner.json"
"""In the data directory."""
SETTLED_FILE: Final = "archive_owner.settled.json"
"""Beside it until the archive has an owner: what takes its place then, which takes no room."""


class NotOurs(ArchiveError):
    """The archive is that of another data directory."""


class NotThere(ArchiveError):
    """No archive is where this data directory has had one."""


class Claim(Enum):
    """What a data directory may do with an archive."""

    OURS = auto()
    TAKE = auto()
    TAKEN = auto()
    AWAY = auto()


def judge(ours: Owner | None, there: Owner | None, *, abandoned: str = "") -> Claim:
    """Compare what the data directory and what the archive say; None: nothing.

    `abandoned`: the id of an owner whose archive is given up.
    """
    if there is None:
        has_had = ours is not None and ours.is_settled and ours.id != abandoned
        return Claim.AWAY if has_had else Claim.TAKE
    if ours is None:
        return Claim.TAKEN
    if ours.id == there.id:
        return Claim.OURS
    return Claim.TAKE if ours.generation > there.generation else Claim.TAKEN


def look(
    store: ArchiveStore, disk: Disk, root: str, *, abandoned: str = ""
) -> tuple[Claim, Owner | None]:
    """What the data directory `root` may do, and its note; nothing is written.

    NotOurs, NotThere, ArchiveError, OSError.
    """
    ours, there = read_note(disk, root), read_owner(store)
    verdict = judge(ours, there, abandoned=abandoned)
    if verdict is Claim.TAKEN:
        assert there is not None, "as judged"
        raise not_ours(there)
    if verdict is Claim.AWAY:
        assert ours is not None, "as judged"
        raise not_there(ours)
    return verdict, ours


def not_ours(there: Owner) -> NotOurs:
    """To be raised: it is that one's."""
    return NotOurs(
        f"it is the archive of another data directory (generation {there.generation}): name"
        " another one, restore from this one, or, if that directory is no more, remove"
        f" {OWNER_KEY} from it"
    )


def not_there(ours: Owner | None) -> NotThere:
    """To be raised: there is none any more. `ours`: as this directory notes it, if it does."""
    end = f" to {ours.id}" if ours else ""
    return NotThere(
        f"{OWNER_KEY} is not in the archive, where this data directory has had it: is it"
        " mounted, and named right? To begin another archive there, set"
        f" data_maintenance.archiver.abandoned{end}"
    )


def prepare(disk: Disk, root: str, *, now_us: int) -> None:
    """Before the archive is asked for the first time: write down what a claim has to note.

    Once the archive answers the disk may be full of what waits for it. OSError, StorageFailed.
    """
    if disk.exists(f"{root}/{OWNER_FILE}"):
        return
    ours = successor(None, now_us=now_us)
    settled = encode(replace(ours, is_settled=True))
    disk.write_file(f"{root}/{SETTLED_FILE}", settled, sync=True)
    write_note(disk, root, ours)


def claim(store: ArchiveStore, disk: Disk, root: str, *, now_us: int, abandoned: str = "") -> None:
    """At a start: take an archive that is nobody's, or that of a directory before this one.

    NotOurs, NotThere, ArchiveError, OSError, StorageFailed.
    """
    verdict, ours = look(store, disk, root, abandoned=abandoned)
    noted = ours
    if ours is None or (verdict is Claim.TAKE and ours.id == abandoned):
        # Another id: what is given up is so once, and the next empty place is asked about again.
        ours = replace(successor(ours, now_us=now_us), is_settled=UNSET)
    if verdict is Claim.TAKE:
        ours = _fenced(store, disk, root, ours)
        if ours != noted:
            write_note(disk, root, ours)
        put_owner(store, ours)
    if not ours.is_settled:
        _settle(disk, root, replace(ours, is_settled=True))


def _settle(disk: Disk, root: str, ours: Owner) -> None:
    prepared = f"{root}/{SETTLED_FILE}"
    if _read(disk, prepared) == ours:
        disk.rename(prepared, f"{root}/{OWNER_FILE}")
        disk.sync_folder(root)
    else:
        write_note(disk, root, ours)
        disk.remove(prepared)


def _fenced(store: ArchiveStore, disk: Disk, root: str, ours: Owner) -> Owner:
    """Put the fences there that count once the owner is named: those that the restore noted.

    A directory that is no restored one, in an archive that was taken over before, comes behind all
    owners that it has had: what it has on its disk counts from its first segment on.
    """
    prepared = read_prepared(disk, root)
    if (prepared.id, prepared.generation) == (ours.id, ours.generation):
        put_fences(store, prepared)
        return ours
    former = newest_fences(store)
    if former is NO_FENCES:
        return ours
    ours = replace(ours, generation=max(ours.generation, former.generation + 1))
    fences = replace(former, id=ours.id, generation=ours.generation)
    write_prepared(disk, root, fences)
    put_fences(store, fences)
    return ours


def put_owner(store: ArchiveStore, owner: Owner) -> None:
    """Say in the archive whose it is. ArchiveError."""
    store_small(store, OWNER_KEY, encode(replace(owner, is_settled=UNSET)))


def successor(there: Owner | None, *, now_us: int, former: int = 0) -> Owner:
    """A directory that takes an archive over. `former`: the last generation it has fences of."""
    generation = 1 + max(0 if there is None else there.generation, former)
    return Owner(
        id=secrets.token_hex(16),
        generation=generation,
        since_us=now_us,
        is_settled=UNSET if there is None else True,
    )


def read_owner(store: ArchiveStore) -> Owner | None:
    """Whose archive it is; None: nobody's. ArchiveError."""
    try:
        data = store.read(OWNER_KEY, OWNER_BYTES_MAX, 0)
        return Owner.decode(data, OWNER_KEY)
    except FileNotFoundError:
        return None
    except WireError as error:
        raise ArchiveError(f"the archive is not to be used: {error}: repair or remove it") from None


def read_note(disk: Disk, root: str) -> Owner | None:
    """What the data directory `root` says of itself; None: nothing, or nothing sound."""
    return _read(disk, f"{root}/{OWNER_FILE}")


def _read(disk: Disk, path: str) -> Owner | None:
    try:
        return Owner.decode(disk.read_file(path, bytes_max=OWNER_BYTES_MAX), path)
    except (FileNotFoundError, WireError):
        return None


def write_note(disk: Disk, root: str, owner: Owner) -> None:
    """Note it, durably. OSError, StorageFailed."""
    disk.write_file(f"{root}/{OWNER_FILE}", encode(owner), sync=True)
