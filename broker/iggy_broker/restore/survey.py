"""What an archive has to restore. Reads only, and little: however large the archive is, a few
objects of each partition, several partitions at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from iggy_broker.archive.copying import read_manifest
from iggy_broker.archive.state_objects import OFFSETS_BYTES_MAX, StoredOffsets
from iggy_broker.archive.store import BLOCK_BYTES, ArchiveError, ArchiveStore, Stored
from iggy_broker.metadata.model import State
from iggy_broker.metadata.snapshot import SNAPSHOT_BYTES_MAX, MetadataDamaged, decode_snapshot
from iggy_wire.archive import (
    METADATA_KEY,
    Life,
    Manifest,
    Named,
    manifest_key,
    offsets_key,
    parse_key,
)
from iggy_wire.archive_listing import Listing, Partition, life_of, listing, parse_folder
from iggy_wire.errors import WireError

T = TypeVar("T")
R = TypeVar("R")

REQUESTS_MAX: Final = 10
"""At a time; the S3 library keeps as many connections."""
PAGE: Final = 1000
"""Objects that a store lists in one answer."""
NEWEST: Final = 3
"""Manifests that are read to find where a partition ends: a restored one has a segment without an
end before the newest."""
_OFFSET_END: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Held:
    """What the archive has of one life of a partition."""

    folder: str
    partition: Partition
    life: Life
    stream: str
    topic: str
    named_at_us: int
    """When it had these names."""
    first_offset: int
    next_offset: int
    """Where the partition goes on: no offset is given twice, whatever is missing."""
    last_timestamp_us: int
    """Of the newest message."""
    listing: Listing
    """The newest segments, or all."""
    is_all: bool
    offsets: StoredOffsets | None
    problems: tuple[str, ...] = ()


def read_metadata(store: ArchiveStore) -> State | None:
    """Metadata as they were last copied; None: they never were. MetadataDamaged, ArchiveError."""
    size_bytes = store.size(METADATA_KEY)
    if size_bytes is None:
        return None
    if size_bytes > SNAPSHOT_BYTES_MAX:
        raise MetadataDamaged(f"{METADATA_KEY} has {size_bytes} bytes: it is none of ours")
    blocks = range(0, size_bytes, BLOCK_BYTES)
    data = b"".join(store.read(METADATA_KEY, BLOCK_BYTES, at) for at in blocks)
    return decode_snapshot(data, METADATA_KEY)


def survey(store: ArchiveStore, *, is_all: bool) -> list[Held]:
    """What there is of every partition, whatever life. `is_all`: read all manifests.

    ArchiveError: the archive does not say.
    """
    with ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="survey") as threads:
        streams = [f"streams/{name}/topics/" for name in store.folders("streams/")]
        topics = _below(threads, store, streams, "partitions/")
        folders = [folder.rstrip("/") for folder in _below(threads, store, topics, "")]
        held = each(threads, folders, lambda folder: _look(store, folder, is_all=is_all))
    return [one for one in held if one is not None]


def each(threads: ThreadPoolExecutor, items: Iterable[T], work: Callable[[T], R]) -> list[R]:
    """Results in order. The first error ends it: what has not begun is left."""
    running = [threads.submit(work, item) for item in items]
    try:
        return [one.result() for one in running]
    except BaseException:
        threads.shutdown(wait=False, cancel_futures=True)
        raise


def _below(
    threads: ThreadPoolExecutor, store: ArchiveStore, prefixes: list[str], more: str
) -> list[str]:
    names = each(threads, prefixes, lambda prefix: list(store.folders(prefix)))
    return [
        f"{prefix}{name}/{more}"
        for prefix, found in zip(prefixes, names, strict=True)
        for name in found
    ]


def _look(store: ArchiveStore, folder: str, *, is_all: bool) -> Held | None:
    """One folder; None if there is no manifest in it."""
    partition = parse_folder(folder)
    if partition is None:
        return None
    oldest, newest = (list(store.entries(f"{folder}/")),) * 2 if is_all else ends(store, folder)
    firsts = sorted({named.first_offset for _, named in _manifests(newest)})
    if not firsts:
        return None
    problems: list[str] = []
    manifests: list[Manifest] = []
    for first in reversed(firsts):
        if (one := _read(store, folder, first, problems)) is not None:
            manifests.append(one)
        if len(manifests) == NEWEST and not is_all:
            break
    if not manifests:
        raise ArchiveError(f"{problems[0]}; no manifest there can be read: mend it, or remove it")
    last = max(manifests, key=lambda manifest: (life_of(manifest), manifest.first_offset))
    ours = [manifest for manifest in manifests if life_of(manifest) == life_of(last)]
    sizes = {entry.key: entry.size_bytes for entry in newest}
    found = listing([(folder, one) for one in ours], life_of(last), sizes)
    problems += [f"{key}: is missing, or too short" for key in found.missing]
    offsets = _offsets(store, folder, problems)
    return Held(
        folder,
        partition,
        life_of(last),
        last.stream,
        last.topic,
        last.written_at_us,
        min(named.first_offset for _, named in _manifests(oldest)),
        max(firsts[-1], *(manifest.next_offset for manifest in ours)),
        max(manifest.last_timestamp_us for manifest in ours),
        found,
        is_all,
        offsets if offsets and offsets.life == life_of(last) else None,
        tuple(problems),
    )


def ends(store: ArchiveStore, folder: str) -> tuple[list[Stored], list[Stored]]:
    """The first objects of a folder and the last ones, both whole segments at the outer side.

    By halves: a folder with millions of objects takes some twenty requests and not thousands.
    """
    prefix = f"{folder}/"
    first = _page(store, prefix, "")
    if len(first) < PAGE:
        return first, first
    low, high = _reached(first), _OFFSET_END
    step = max(low - min(named.first_offset for _, named in _manifests(first)), 1) if low else 1
    while high > low + 1:
        middle = (low + high) // 2 if high < _OFFSET_END else min(low + step, high - 1)
        step *= 4
        page = _page(store, prefix, f"{prefix}{middle:020d}")
        if next(_manifests(page), None) is None:
            high = middle
        elif len(page) < PAGE:
            return first, page
        else:
            low = _reached(page)
    return first, _page(store, prefix, f"{prefix}{low:020d}")


def _page(store: ArchiveStore, prefix: str, after: str) -> list[Stored]:
    return list(itertools.islice(store.entries(prefix, after=after), PAGE))


def _reached(page: list[Stored]) -> int:
    return max((named.first_offset for _, named in _manifests(page)), default=0)


def _manifests(entries: Iterable[Stored]) -> Iterator[tuple[Stored, Named]]:
    for entry in entries:
        named = parse_key(entry.key)
        if named is not None and named.kind == "json":
            yield entry, named


def _read(store: ArchiveStore, folder: str, first: int, problems: list[str]) -> Manifest | None:
    try:
        return read_manifest(store, manifest_key(folder, first))
    except WireError as error:
        problems.append(str(error))
    except FileNotFoundError:
        problems.append(f"{manifest_key(folder, first)}: is gone")
    return None


def _offsets(store: ArchiveStore, folder: str, problems: list[str]) -> StoredOffsets | None:
    key = offsets_key(folder)
    try:
        return StoredOffsets.decode(store.read(key, OFFSETS_BYTES_MAX, 0), key)
    except FileNotFoundError:
        return None
    except WireError as error:
        problems.append(str(error))
        return None
