"""What an archive holds, checked against its manifests, for the tests of real brokers."""

from __future__ import annotations

from collections.abc import Mapping

from archived_topic import check_copy, is_manifest
from iggy_broker.archive.store import BLOCK_BYTES, ArchiveError, ArchiveStore
from iggy_wire.archive import Manifest, is_state, parse_key
from iggy_wire.batch import messages


def objects_of(store: ArchiveStore) -> dict[str, bytes]:
    """All objects of segments. None is empty, or has a strange name. Of a store at rest."""
    found = {}
    for entry in store.entries(""):
        assert entry.size_bytes, f"{entry.key} is empty"
        if is_state(entry.key):
            continue
        assert parse_key(entry.key) is not None, entry.key
        found[entry.key] = b"".join(
            store.read(entry.key, BLOCK_BYTES, at) for at in range(0, entry.size_bytes, BLOCK_BYTES)
        )
    return found


def manifests_of(objects: Mapping[str, bytes]) -> dict[str, Manifest]:
    """The manifests, by key."""
    return {key: Manifest.decode(data, key) for key, data in objects.items() if is_manifest(key)}


def payloads_of(objects: Mapping[str, bytes], partition_id: int = 0) -> dict[int, bytes]:
    """Payloads of a partition by offset, from segments that are all as their manifests say."""
    found: dict[int, bytes] = {}
    for key, manifest in manifests_of(objects).items():
        check_copy(dict(objects), key, manifest)
        if manifest.partition_id == partition_id:
            log = log_of(objects, key, manifest)
            found |= {message.offset: message.payload for message in messages(log)}
    return found


def log_of(objects: Mapping[str, bytes], key: str, manifest: Manifest) -> bytes:
    """The bytes of a segment's log."""
    start = key.removesuffix(".json")
    if manifest.sealed:
        return objects[f"{start}.log"]
    pieces = (
        objects[f"{start}.{piece.position:020d}.part"][: piece.size_bytes]
        for piece in manifest.pieces
    )
    return b"".join(pieces)


def is_archived(store: ArchiveStore, count: int, folder: str) -> bool:
    """Whether a folder of the archive has the first `count` messages of its partition."""
    try:
        objects = {
            key: data for key, data in objects_of(store).items() if key.startswith(f"{folder}/")
        }
        found = payloads_of(objects, int(folder.rpartition("/")[2]))
    except (AssertionError, ArchiveError, FileNotFoundError, KeyError):
        return False  # it changes while it is read
    return all(offset in found for offset in range(count))
