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
    Life,
    Manifest,
    Named,
    manifest_key,
    metadata_key,
    offsets_key,
    parse_key,
)
from iggy_wire.archive_fences import NO_FENCES, Fence, Fences
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


def read_metadata(store: ArchiveStore, fences: Fences = NO_FENCES) -> State | None:
    """Metadata as they were last copied, of the last owner that copied any; None: nobody did.

    MetadataDamaged, ArchiveError.
    """
    for generation in fences.generations():
        key = metadata_key(generation)
        size_bytes = store.size(key)
        if size_bytes is None:
            continue
        if size_bytes > SNAPSHOT_BYTES_MAX:
            raise MetadataDamaged(f"{key} has {size_bytes} bytes: it is none of ours")
        blocks = range(0, size_bytes, BLOCK_BYTES)
        data = b"".join(store.read(key, BLOCK_BYTES, at) for at in blocks)
        return decode_snapshot(data, key)
    return None


def survey(store: ArchiveStore, *, is_all: bool, fences: Fences = NO_FENCES) -> list[Held]:
    """What there is of every partition, whatever life. `is_all`: read all manifests. `fences`: what
    counts of that.

    ArchiveError: the archive does not say.
    """
    with ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="survey") as threads:
        streams = [f"streams/{name}/topics/" for name in store.folders("streams/")]
        topics = _below(threads, store, streams, "partitions/")
        folders = [folder.rstrip("/") for folder in _below(threads, store, topics, "")]
        held = each(threads, folders, lambda folder: _look(store, folder, fences, is_all=is_all))
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


def _look(store: ArchiveStore, folder: str, fences: Fences, *, is_all: bool) -> Held | None:
    """One folder; None if there is no manifest in it that counts."""
    partition = parse_folder(folder)
    if partition is None:
        return None
    # Behind a fence there may be any number of objects that do not count: nothing is skipped then.
    is_whole = is_all or bool(fences.eras)
    oldest, newest = (list(store.entries(f"{folder}/")),) * 2 if is_whole else ends(store, folder)
    problems: list[str] = []
    manifests, reached = _newest(store, folder, newest, fences, problems, is_all=is_all)
    if not manifests:
        if problems:
            why = "no manifest there can be read: mend it, or remove it"
            raise ArchiveError(f"{problems[0]}; {why}")
        return None
    last = max(manifests, key=lambda one: (life_of(one), one.generation, one.first_offset))
    sizes = {entry.key: entry.size_bytes for entry in newest}
    foldered = [(folder, manifest) for manifest in manifests]
    listed = listing(foldered, life_of(last), sizes, fences=fences)
    problems += [f"{key}: is missing, or too short" for key in listed.missing]
    ours = listing(foldered, life_of(last), fences=fences).segments
    offsets = _offsets(store, folder, fences, problems)
    return Held(
        folder,
        partition,
        life_of(last),
        last.stream,
        last.topic,
        last.written_at_us,
        min(named.first_offset for _, named in _manifests(oldest)),
        max(reached, fences.of_last(partition, life_of(last)), *(one.next_offset for one in ours)),
        max(one.last_timestamp_us for one in ours),
        listed,
        is_all,
        offsets if offsets and offsets.life == life_of(last) else None,
        tuple(problems),
    )


def _newest(
    store: ArchiveStore,
    folder: str,
    entries: list[Stored],
    fences: Fences,
    problems: list[str],
    *,
    is_all: bool,
) -> tuple[list[Manifest], int]:
    """Manifests that count, the newest of the last owner first, or all of them; and the first
    offset of the newest segment, also of one whose manifest cannot be read.
    """
    partition = parse_folder(folder)
    assert partition is not None, "as just seen"
    manifests: list[Manifest] = []
    reached = 0
    names = sorted((named.generation, named.first_offset) for _, named in _manifests(entries))
    for generation, first in reversed(names):
        known = life_of(manifests[0]) if manifests else None
        if known and _is_behind(fences.of(partition, known, generation), first):
            continue
        if (one := _read(store, folder, (first, generation), problems)) is not None:
            if _is_behind(fences.of(partition, life_of(one), generation), first):
                continue
            manifests.append(one)
        reached = max(reached, first)
        if len(manifests) == NEWEST and not is_all:
            break
    return manifests, reached


def _is_behind(fence: Fence | None, first_offset: int) -> bool:
    return fence is not None and fence.next_offset <= first_offset


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


def _read(
    store: ArchiveStore, folder: str, name: tuple[int, int], problems: list[str]
) -> Manifest | None:
    """`name`: first offset and generation."""
    key = manifest_key(folder, *name)
    try:
        return read_manifest(store, key)
    except WireError as error:
        problems.append(str(error))
    except FileNotFoundError:
        problems.append(f"{key}: is gone")
    return None


def _offsets(
    store: ArchiveStore, folder: str, fences: Fences, problems: list[str]
) -> StoredOffsets | None:
    """Of the last owner that copied any."""
    for generation in fences.generations():
        key = offsets_key(folder, generation)
        try:
            return StoredOffsets.decode(store.read(key, OFFSETS_BYTES_MAX, 0), key)
        except FileNotFoundError:
            continue
        except WireError as error:
            problems.append(str(error))
            return None
    return None
