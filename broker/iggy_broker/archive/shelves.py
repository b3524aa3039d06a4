"""What a shard knows of the archived segments of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from iggy_broker.archive.blocks import Table
from iggy_broker.archive.fences import read_fences
from iggy_broker.archive.finding import read_if_any
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_wire.archive import OWNER_KEY, Life, Manifest, parse_key
from iggy_wire.archive_fences import NO_FENCES, Fences
from iggy_wire.archive_listing import Listing, Partition, Segment, folders, life_of, listing

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
    tables: dict[str, Table] = field(default_factory=dict)
    """By key of the segment's manifest, those that were used last behind."""

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
    """Objects of a life's folders."""

    sizes: Mapping[str, int]
    keys: tuple[str, ...]
    """Of manifests."""
    fences: Fences
    """What of them counts."""


def list_objects(
    store: ArchiveStore, partition: Partition, life: Life, known: Fences = NO_FENCES
) -> Found:
    """List them. `known`: fences that counted before.

    ArchiveError, also for an archive that is nobody's: its volume is not mounted.
    """
    sizes: dict[str, int] = {}
    keys: list[str] = []
    fences = read_fences(store, known)
    for folder in folders(partition, life):
        there = {one.key: one.size_bytes for one in store.entries(f"{folder}/")}
        manifests = {key: by for key in there if (by := _writer(key)) is not None}
        # All in a folder belongs to one life; should a former owner not know, the last one does.
        last = max(manifests, key=lambda key: manifests[key], default=None)
        if last is not None and (one := read_if_any(store, last)) and life_of(one) != life:
            continue
        sizes |= there
        keys += manifests
    if not keys and store.size(OWNER_KEY) is None:
        raise ArchiveError("the archive is empty, it has not even an owner: is it mounted?")
    return Found(sizes, tuple(keys), fences)


def read_manifests(store: ArchiveStore, keys: Iterable[str]) -> dict[str, Manifest]:
    """Read some, by key; what is no manifest, or is gone, is left out. ArchiveError."""
    found = {key: read_if_any(store, key) for key in keys}
    return {key: manifest for key, manifest in found.items() if manifest is not None}


def put_up(
    found: Found, manifests: Mapping[str, Manifest], life: Life, *, end: int, before: Shelf | None
) -> Shelf:
    """A shelf of what was found. Of the one before it stays what cannot have changed."""
    named = [(key.rpartition("/")[0], manifest) for key, manifest in manifests.items()]
    listed = listing(named, life, found.sizes, fences=found.fences)
    shelf = Shelf(listed, manifests, end)
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
