"""An archive as the readers see it: its topics, their segments, and the messages in these.

Listings are looked at anew every few seconds, manifests of sealed segments are read once: they
never change. One per process and archive, so that tasks have what earlier ones have learned.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from iggy_spark import archive_index, archive_lives
from iggy_spark.archive_index import Index
from iggy_spark.archive_lives import NAMES_TOLD_MAX, ArchivedTopic
from iggy_spark.archive_options import ArchiveOptions
from iggy_spark.archive_store import Gone, Objects, open_objects
from iggy_spark.errors import ArchiveUnreadable
from iggy_wire import archive, archive_fences, archive_listing
from iggy_wire.archive import MANIFEST_BYTES_MAX, OWNER_KEY, OWNERS_PREFIX, Life, Manifest
from iggy_wire.archive_fences import FENCES_BYTES_MAX, NO_FENCES, Fences
from iggy_wire.archive_listing import Listing, Partition, Segment, life_of
from iggy_wire.errors import WireError

K = TypeVar("K")
V = TypeVar("V")

LOOK_S: Final = 5.0  # how long a listing is used again
THREADS_MAX: Final = 16  # that read manifests
MANIFESTS_MAX: Final = 100_000  # kept in one process; about 1 KiB each
BLOCK_BYTES_MAX: Final = 8 << 20  # read at a time, unless more is asked for
INDEXES_MAX: Final = 64  # the same of indexes; of a segment of 1 GiB one has 1.5 MiB
LOOKS_MAX: Final = 64  # the same of listings
OWNER_BYTES_MAX: Final = 4096
KEYS_MAX: Final = 5_000_000  # in one listing; each takes some 200 bytes
ARCHIVES_MAX: Final = 8  # known to one process; the oldest goes

WHOLE: Final = ("streams/",)

_LONG: Final = 1 << 62  # bytes, of an object that is there: how many is seen when it is read

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Look:
    """What was listed below some prefixes, and read of it."""

    at_s: float
    keys: frozenset[str]
    by_folder: Mapping[str, list[str]]  # of manifests, by folder of a partition, in their order
    fences: Fences  # what of them counts
    unsealed: dict[str, Manifest] = field(default_factory=dict)
    listings: dict[tuple[Partition, Life], Listing] = field(default_factory=dict)
    topics: list[ArchivedTopic] | None = None


class Archive:
    """One archive. Every call may raise ArchiveUnreadable."""

    def __init__(
        self,
        objects: Objects,
        *,
        keys_path: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Asks nothing yet. `keys_path`: see `archive_keys`. `clock` in seconds."""
        self.keys_path = keys_path
        self._objects = objects
        self._clock = clock
        self._looks: dict[tuple[str, ...], _Look] = {}
        self._sealed: dict[str, Manifest] = {}
        self._indexes: dict[tuple[str, int], Index] = {}
        self._known = NO_FENCES

    def __str__(self) -> str:
        """For a message."""
        return str(self._objects)

    def topics(
        self, numbers: tuple[int, int] | None = None, *, again: bool = False
    ) -> list[ArchivedTopic]:
        """All lives of all topics, or of those with these numbers of stream and topic. `again`: as
        `listing`.
        """
        look = self._look(WHOLE if numbers is None else _prefixes(*numbers), again=again)
        if look.topics is None:
            last = [max(keys, key=_writer_and_offset) for keys in look.by_folder.values()]
            found = _foldered(self._manifests(look, last))
            look.topics = archive_lives.topics(one for one in found if _counts(*one, look.fences))
        if numbers is None:
            return look.topics
        return [topic for topic in look.topics if (topic.stream_id, topic.topic_id) == numbers]

    def listing(self, place: Partition, life: Life, *, again: bool = False) -> Listing:
        """What there is of a partition's life. `again`: as it is now, not as it was just seen."""
        prefixes = _prefixes(place.stream_id, place.topic_id)
        look = self._look(prefixes, again=again)
        known = look.listings.get((place, life))
        if known is not None:
            return known
        found = self._listed(look, place, life)
        if found.missing:
            # A manifest may be replaced, and its objects, between listing and reading it.
            look = self._look(prefixes, again=True)
            found = self._listed(look, place, life)
        if found.missing:
            lacking = ", ".join(found.missing[:NAMES_TOLD_MAX])
            _log.warning("%s lacks objects that manifests name: %s", self, lacking)
        look.listings[place, life] = found
        return found

    def _listed(self, look: _Look, place: Partition, life: Life) -> Listing:
        folders = archive_listing.folders(place, life)
        keys = [key for folder in folders for key in look.by_folder.get(folder, ())]
        manifests = list(_foldered(self._manifests(look, keys)))
        there = {}
        for folder, manifest in manifests:
            first = manifest.first_offset
            by = manifest.generation
            log = archive.log_key(folder, first, by)
            if not manifest.sealed or log in look.keys:
                there[log] = _LONG
            # Pieces come and go, whoever reads one sees whether it is there.
            pieces = [archive.piece_key(folder, first, p.position, by) for p in manifest.pieces]
            there |= dict.fromkeys(pieces, _LONG)
        return archive_listing.listing(manifests, life, there, fences=look.fences)

    def index(self, segment: Segment) -> Index:
        """Where batches begin in a segment."""
        known = _named(segment)
        found = self._indexes.get(known)
        if found is None:
            found = archive_index.read(segment, self.read)
            _keep(self._indexes, known, found, INDEXES_MAX)
        return found

    def learn(self, segment: Segment, rows: Sequence[tuple[int, int, int]]) -> None:
        """Batches that were seen in a segment without an index: offset, time and first byte."""
        if rows and (segment.pieces is not None or not segment.index_bytes):
            self._indexes[_named(segment)] = self.index(segment).with_more(rows)

    def blocks(self, segment: Segment, position: int, stop: int, size: int) -> Iterator[bytes]:
        """Bytes of a segment's log in order, first `size` at a time, then more. Raises Gone."""
        while position < stop:
            for span in segment.spans(position, min(size, stop - position)):
                yield self.read(span.key, span.position, span.size_bytes)
                position += span.size_bytes
            size = max(size, min(2 * size, BLOCK_BYTES_MAX))

    def read(self, key: str, first: int, size: int) -> bytes:
        """Exactly these bytes.

        Raises:
            Gone: there is no such object.
            ArchiveUnreadable: it is shorter.
        """
        data = self._objects.read(key, first, size)
        if data is None:
            raise Gone(key)
        if len(data) != size:
            raise ArchiveUnreadable(
                f"{self}: {key} ends at byte {first + len(data)}, before its manifest says: "
                "restore that object"
            )
        return data

    def _look(self, prefixes: tuple[str, ...], *, again: bool = False) -> _Look:
        known = [look for one in (prefixes, WHOLE) if (look := self._looks.get(one)) is not None]
        found = max(known, key=lambda look: look.at_s, default=None)
        if found is None or again or self._clock() - found.at_s >= LOOK_S:
            keys = [key for prefix in prefixes for key in self._objects.keys(prefix)]
            if len(keys) > KEYS_MAX:
                raise ArchiveUnreadable(
                    f"{self}: there are {len(keys)} objects below {prefixes[0]}, at most "
                    f"{KEYS_MAX} are looked through: set archivePath to a part of it"
                )
            found = _Look(self._clock(), frozenset(keys), _by_folder(keys), self._fences())
            _keep(self._looks, prefixes, found, LOOKS_MAX)
        return found

    def _fences(self) -> Fences:
        """What counts of what the owners of the archive have copied."""
        owner = self._objects.read(OWNER_KEY, 0, OWNER_BYTES_MAX)
        try:
            if owner is not None:
                key = archive_fences.key_for(owner, OWNER_KEY)
            else:
                key = archive_fences.newest(self._objects.keys(OWNERS_PREFIX))
            if key is None or key == self._known.key:
                return NO_FENCES if key is None else self._known
            data = self._objects.read(key, 0, FENCES_BYTES_MAX)
            found = NO_FENCES if data is None else Fences.decode(data, key)
        except WireError as error:
            raise ArchiveUnreadable(f"{self}: {error.detail}") from error
        if found.is_begun:  # it is never written again
            self._known = found
        return found

    def _manifests(self, look: _Look, keys: list[str]) -> dict[str, Manifest]:
        """Those that are there, by key."""
        unknown = [key for key in keys if key not in self._sealed and key not in look.unsealed]
        read: list[Manifest | None] = []
        if unknown:
            with ThreadPoolExecutor(min(THREADS_MAX, len(unknown))) as pool:
                read = list(pool.map(self._manifest, unknown))
        found = {key: one for key, one in zip(unknown, read, strict=True) if one is not None}
        for key in keys:
            known = self._sealed.get(key) or look.unsealed.get(key)
            if known is not None:
                found[key] = known
        for key, manifest in found.items():
            if manifest.sealed:
                _keep(self._sealed, key, manifest, MANIFESTS_MAX)
            else:
                look.unsealed[key] = manifest
        return found

    def _manifest(self, key: str) -> Manifest | None:
        data = self._objects.read(key, 0, MANIFEST_BYTES_MAX)
        if data is None:
            return None
        try:
            return Manifest.decode(data, key)
        except WireError as error:
            raise ArchiveUnreadable(f"{self}: {error.detail}") from error


def _named(segment: Segment) -> tuple[str, int]:
    return segment.manifest_key, segment.size_bytes


def _prefixes(stream_id: int, topic_id: int) -> tuple[str, ...]:
    """Of a topic, whatever its life."""
    plain = archive.topic_folder(stream_id, topic_id)
    return f"{plain}/", f"{plain}."


def _by_folder(keys: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in sorted(keys):
        named = archive.parse_key(key)
        if named is not None and named.kind == "json":
            found.setdefault(named.folder, []).append(key)
    return found


def _writer_and_offset(key: str) -> tuple[int, int]:
    """Of a manifest: the last one of the last owner is the greatest."""
    named = archive.parse_key(key)
    return (named.generation, named.first_offset) if named else (-1, -1)


def _counts(folder: str, manifest: Manifest, fences: Fences) -> bool:
    """Whether anything of its life does: a former owner may have begun one that nobody has."""
    place = archive_listing.parse_folder(folder)
    fence = fences.of(place, life_of(manifest), manifest.generation) if place else None
    return fence is None or fence.next_offset > 0


def _foldered(manifests: Mapping[str, Manifest]) -> Iterator[tuple[str, Manifest]]:
    return ((key.rpartition("/")[0], manifest) for key, manifest in manifests.items())


def _keep(kept: dict[K, V], key: K, value: V, count_max: int) -> None:
    """The oldest goes where there are too many."""
    kept.pop(key, None)
    while len(kept) >= count_max:
        kept.pop(next(iter(kept)))
    kept[key] = value


_archives: dict[ArchiveOptions, Archive] = {}


def archive_of(options: ArchiveOptions, retry_timeout_ms: int) -> Archive:
    """The process's view of an archive.

    Raises:
        OptionError: it has no address.
    """
    known = replace(options, life=None, is_all=False)
    found = _archives.get(known)
    if found is None:
        found = Archive(open_objects(options, retry_timeout_ms), keys_path=options.keys_path)
        _keep(_archives, known, found, ARCHIVES_MAX)
    return found
