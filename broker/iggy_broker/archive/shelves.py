"""What a shard knows of the archived segments of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from iggy_broker.archive.blocks import Table
from iggy_broker.archive.finding import read_again, read_if_any
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_wire.archive import OWNER_KEY, Life, Manifest, parse_key
from iggy_wire.archive_fences import Fences
from iggy_wire.archive_listing import Listing, Segment, life_of, listing
from iggy_wire.errors import WireError

TABLES_MAX: Final = 256
"""Of one partition."""


@dataclass(slots=True)
class Shelf:
    """One life of a partition, as the archive was when it was listed."""

    listing: Listing
    manifests: Mapping[str, Manifest]
    """By key."""
    end: int
    """Where the log of the partition began then."""
    damaged: Mapping[str, int]
    """First offsets of segments whose manifests cannot be understood, by these."""
    listed_s: float = 0.0
    """When that was."""
    tables: dict[str, Table] = field(default_factory=dict)
    """By key of the segment's manifest, those that were used last behind."""

    def damaged_before(self, segment: Segment | None, end: int) -> str | None:
        """A manifest that cannot be understood, of what is missing right before a segment, or
        before offset `end` and behind all of them.
        """
        stop = end if segment is None else min(end, segment.start_offset)
        for key, first_offset in self.damaged.items():
            if first_offset < stop and self.listing.at_offset(first_offset) is segment:
                return key
        return None

    def table(self, segment: Segment) -> Table | None:
        """Where blocks begin, if that was looked up."""
        found = self.tables.pop(segment.manifest_key, None)
        if found is not None:
            self.tables[segment.manifest_key] = found
        return found

    def take(self, segment: Segment, table: Table) -> None:
        """It was looked up."""
        self.tables[segment.manifest_key] = table
        while len(self.tables) > TABLES_MAX:
            del self.tables[next(iter(self.tables))]


@dataclass(frozen=True, slots=True)
class Found:
    """Objects of a life in its folders."""

    sizes: Mapping[str, int]
    keys: tuple[str, ...]
    """Of manifests."""
    last: dict[str, Manifest]
    """Those of them that were read to know whose a folder is."""


def list_folder(store: ArchiveStore, folder: str, life: Life) -> Found:
    """List it; nothing if it is another life's. ArchiveError."""
    there = {one.key: one.size_bytes for one in store.entries(f"{folder}/")}
    manifests = {key: by for key in there if (by := _writer(key)) is not None}
    # All in a folder belongs to one life; should a former owner not know, the last one does.
    last = max(manifests, key=lambda key: manifests[key], default=None)
    one = None if last is None else read_if_any(store, last)
    if last is None or one is None:
        return Found(there, tuple(manifests), {})
    if life_of(one) != life:
        return Found({}, (), {})
    return Found(there, tuple(manifests), {last: one})


def joined(parts: Iterable[Found]) -> Found:
    """Of several folders."""
    sizes: dict[str, int] = {}
    keys: list[str] = []
    last: dict[str, Manifest] = {}
    for part in parts:
        sizes |= part.sizes
        keys += part.keys
        last |= part.last
    return Found(sizes, tuple(keys), last)


def check_owner(store: ArchiveStore) -> None:
    """ArchiveError for an archive that is nobody's: its volume is not mounted."""
    if store.size(OWNER_KEY) is None:
        raise ArchiveError("the archive is empty, it has not even an owner: is it mounted?")


def read_manifests(store: ArchiveStore, keys: Iterable[str]) -> dict[str, Manifest | None]:
    """Read some, by key: None for what is no manifest; what is gone is left out. ArchiveError."""
    found: dict[str, Manifest | None] = {}
    for key in keys:
        try:
            manifest = read_again(store, key)
        except WireError:
            found[key] = None
        else:
            if manifest is not None:
                found[key] = manifest
    return found


def put_up(
    sizes: Mapping[str, int],
    read: Mapping[str, Manifest | None],
    life: Life,
    *,
    fences: Fences,
    end: int,
    before: Shelf | None,
) -> Shelf:
    """A shelf of what was found: of objects by key, as far as `fences` let them count.

    Of the one before it stays what cannot have changed.
    """
    manifests = {key: manifest for key, manifest in read.items() if manifest is not None}
    damaged = {
        key: name.first_offset for key in read.keys() - manifests if (name := parse_key(key))
    }
    named = [(key.rpartition("/")[0], manifest) for key, manifest in manifests.items()]
    listed = listing(named, life, sizes, fences=fences)
    shelf = Shelf(listed, manifests, end, damaged)
    if before is not None:
        for segment in listed.segments:
            key = segment.manifest_key
            table = before.tables.get(key)
            if table is not None and before.manifests.get(key) == manifests.get(key):
                shelf.take(segment, table)
    return shelf


def unchanging(shelf: Shelf | None) -> dict[str, Manifest]:
    """Manifests that need not be read again: of sealed segments."""
    if shelf is None:
        return {}
    return {key: manifest for key, manifest in shelf.manifests.items() if manifest.sealed}


def _writer(key: str) -> int | None:
    """Generation of who wrote a manifest; None: it is none."""
    named = parse_key(key)
    return named.generation if named is not None and named.kind == "json" else None
