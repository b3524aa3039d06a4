"""What must hold of an archive, at each of its changes and whenever a segment leaves the disk.

1. What a manifest names is there, byte for byte: the batches of those offsets. 2. Its messages were
sent to that partition, were not refused, and nothing takes their offsets back: not even a power
cut. 3. What it once had of a life it keeps. 4. Nothing goes, for age, size or a request, that it
does not have. 5. When all works and nobody writes, it has all that the policy wants.

Rot is copied as it is: of a life whose log rotted nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from archive_content import log_of
from archived_topic import check_log, has_index
from iggy_broker.storage.records import read_life
from iggy_wire import archive
from iggy_wire.archive import Manifest
from iggy_wire.batch import messages
from iggy_wire.errors import WireError
from simulation.archive import SimulatedArchive
from simulation.disk import FaultyDisk
from simulation.oracle import Key, Oracle, ViolationError

_LOG = re.compile(r".*/streams/(\d+)/topics/(\d+)/partitions/(\d+)/(\d{20})\.log")
_NOT_THERE = "it was not there after a restart"
_LOST = ("it was refused", "a power cut took it", _NOT_THERE)

LifeKey = tuple[int, int, int, int, int]  # stream, topic, partition, incarnation, purges


def life_key(manifest: Manifest) -> LifeKey:
    """Whose messages it has."""
    numbers = manifest.stream_id, manifest.topic_id, manifest.partition_id
    return (*numbers, manifest.incarnation, manifest.purges)


class ArchiveOracle:
    """Told of every change; `on_violation` hears what is wrong."""

    def __init__(
        self,
        store: SimulatedArchive,
        oracle: Oracle,
        on_violation: Callable[[BaseException], None],
    ) -> None:
        self.manifests: dict[str, Manifest] = {}
        self._store = store
        self._oracle = oracle
        self._on_violation = on_violation
        self._given: dict[LifeKey, dict[int, int]] = {}  # offset → number of its message
        self._rotten: set[LifeKey] = set()
        store.on_changed = lambda key: self._guarded(lambda: self._changed(key))

    def leaves(self, disk: FaultyDisk, path: str) -> None:
        """A file is about to be removed."""
        self._guarded(lambda: self._leaves(disk, path))

    def look_through(self) -> None:
        """After a restart: all that it has is still what was sent."""
        for key, manifest in self.manifests.items():
            self._check(key, manifest)

    def covered(self, life: LifeKey) -> int:
        """Up to which offset it has everything from 0 on."""
        reached = 0
        for manifest in sorted(self._of(life), key=lambda one: one.first_offset):
            if manifest.first_offset > reached:
                break
            reached = max(reached, manifest.next_offset)
        return reached

    def is_rotten(self, life: LifeKey) -> bool:
        """Whether nothing can be said of it."""
        return life in self._rotten

    def _of(self, life: LifeKey) -> Iterator[Manifest]:
        return (one for one in self.manifests.values() if life_key(one) == life)

    def _guarded(self, look: Callable[[], None]) -> None:
        try:
            look()
        except ViolationError as error:
            self._on_violation(error)

    # changes

    def _changed(self, key: str) -> None:
        if archive.is_state(key):
            return
        named = archive.parse_key(key)
        if named is None:
            raise ViolationError(f"{key} is no name of the archive's")
        manifest_key = archive.manifest_key(named.folder, named.first_offset, named.generation)
        if named.kind == "json":
            self._oracle.count("archive: manifests")
            self._take(manifest_key)
        if manifest_key in self.manifests:
            self._check(manifest_key, self.manifests[manifest_key])

    def _take(self, key: str) -> None:
        """A manifest was written, replaced or removed."""
        before = self.manifests.pop(key, None)
        try:
            found = Manifest.decode(self._store.objects.get(key, b""), key)
        except WireError:
            found = None  # a store that lies: there is none
        if found is not None:
            self.manifests[key] = found
        if before is None or life_key(before) in self._rotten:
            return
        if found is None or life_key(found) != life_key(before):
            raise ViolationError(f"{key}: another life's copy is written over: {before} {found}")
        if found.next_offset < before.next_offset or before.sealed > found.sealed:
            raise ViolationError(f"{key}: it had more: {before} {found}")

    def _check(self, key: str, manifest: Manifest) -> None:
        """It names what is there, and that is what was sent."""
        life = life_key(manifest)
        if self._rots(manifest):
            return
        partition: Key = (manifest.stream, manifest.topic, manifest.partition_id)
        try:
            check_log(self._store.objects, key, manifest)
            log = log_of(self._store.objects, key, manifest)
        except (AssertionError, KeyError) as error:
            told = f"{key}: the manifest does not say what is there: {error!r}"
            raise ViolationError(told) from error
        if not has_index(self._store.objects, key, manifest):
            # Of a second copy, made after a start had made the index anew; readers can do without.
            self._oracle.count("archive: index of another copy")
        for message in messages(log):
            self._check_message(life, partition, message.offset, message.payload)

    def _rots(self, manifest: Manifest) -> bool:
        """Whether there was rot in the log, now or earlier in this life."""
        known = self._oracle.partitions.get(
            (manifest.stream, manifest.topic, manifest.partition_id)
        )
        if known is not None and known.damaged:
            self._rotten.add(life_key(manifest))
        return life_key(manifest) in self._rotten

    def _check_message(self, life: LifeKey, key: Key, offset: int, payload: bytes) -> None:
        sent = self._oracle.sent.get(payload)
        if sent is None or sent.key != key:
            raise ViolationError(f"{key}: archived at {offset}: {payload[:40]!r}, never sent there")
        known = self._oracle.partitions.get(key)
        if sent.gone == _NOT_THERE and known is not None and offset < known.head.gone:
            return  # nobody was told of it, and it may have gone as old ones do
        if sent.gone in _LOST:
            told = f"{key}: archived at {offset}: {sent.number}, but {sent.gone}"
            raise ViolationError(told)
        if sent.offset not in (None, offset):
            told = f"{sent.number} was at {sent.offset}"
            raise ViolationError(f"{key}: archived at {offset}: {told}")
        before = self._given.setdefault(life, {}).setdefault(offset, sent.number)
        if before != sent.number:
            told = f"{before} was archived there, now {sent.number}"
            raise ViolationError(f"{key}: offset {offset} is used again: {told}")

    # removal

    def _leaves(self, disk: FaultyDisk, path: str) -> None:
        found = _LOG.fullmatch(path)
        if not self._oracle.kept or found is None or not disk.exists(path):
            return
        data = bytes(disk.entries[path].data)
        stream_id, topic_id, partition_id, first = map(int, found.groups())
        with disk.unharmed():
            life = read_life(disk, path.rpartition("/")[0])
        if not data or life is None or life.purging or stream_id != 0:
            return
        wanted = (stream_id, topic_id, partition_id, life.incarnation, life.purges)
        self._oracle.count("archive: segments removed")
        for key, manifest in self.manifests.items():
            if manifest.first_offset != first or life_key(manifest) != wanted:
                continue
            is_same = self._store.objects.get(f"{key.removesuffix('.json')}.log") == data
            if manifest.sealed and (is_same or self._rots(manifest)):
                return
        raise ViolationError(f"{path} is removed, and the archive does not have it")
