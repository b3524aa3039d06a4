"""`iggy-broker backup --to FOLDER`: a copy of the data directory, also while its broker runs.

The copy opens as a data directory and has everything that was acknowledged before it began. It is
another process that only reads: metadata first, then each partition that they name, and
`backup.json` at last, which says what is in it. `iggy-broker backup --check FOLDER` reads all of it
again and compares.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from iggy_broker import logs
from iggy_broker.config import ConfigError, load
from iggy_broker.logs import event
from iggy_broker.metadata import journal
from iggy_broker.metadata.info import write_info
from iggy_broker.metadata.model import Placed, State
from iggy_broker.metadata.snapshot import FOLDER, SNAPSHOT_FILE, MetadataDamaged
from iggy_broker.storage import layout
from iggy_broker.storage.consumer_offsets import OFFSET_FOLDERS, decode_offset
from iggy_broker.storage.copying import CopyError, Link, copy_partition, copy_small
from iggy_broker.storage.disk import Disk, RealDisk, StorageFailed
from iggy_broker.storage.explain import explain
from iggy_broker.storage.format_version import FORMAT_FILE, FormatVersionError, check_format
from iggy_broker.storage.records import RECORD_BYTES_MAX
from iggy_broker.storage.scan import scan_log

MANIFEST: Final = "backup.json"
UNFINISHED_SUFFIX: Final = ".unfinished"
_MANIFEST_BYTES_MAX: Final = 256 << 20  # the most partitions that a broker has, and some
_FAILED: Final = 1
_USAGE: Final = 2
_CANNOT: Final = (CopyError, FormatVersionError, MetadataDamaged, StorageFailed, OSError)

logger = logging.getLogger(__name__)


class BackupError(Exception):
    """A backup that cannot be made or read. The text says why and the fix."""


@dataclass(frozen=True, slots=True)
class PartitionInBackup:
    """One line of the manifest."""

    stream_id: int
    topic_id: int
    partition_id: int
    first_offset: int
    next_offset: int
    size_bytes: int


class Manifest(msgspec.Struct, frozen=True):
    """What a finished backup says of itself."""

    op: int  # last change of the metadata
    partitions: list[PartitionInBackup]
    damaged: list[str]  # in the data directory already when it was copied


def make(source: str, target: str, *, disk: Disk, link: Link | None = None) -> Manifest:
    """Copy the data directory `source` to the new folder `target`, which appears when it is whole.

    Raises BackupError, or one of the errors of a start.
    """
    if not disk.exists(f"{source}/{FORMAT_FILE}"):
        raise BackupError(f"{source} is no data directory: name the right one as system.path")
    check_format(disk, source)
    if disk.exists(target):
        raise BackupError(f"{target} is there already: name a new folder")
    part = target + UNFINISHED_SUFFIX
    if disk.list_folder(part) and not disk.exists(f"{part}/{FORMAT_FILE}"):
        raise BackupError(f"{part} is in the way, and is no unfinished backup: move it away")
    disk.remove_tree(part)
    disk.make_folders(part)
    copy_small(disk, f"{source}/{FORMAT_FILE}", f"{part}/{FORMAT_FILE}")
    state = _copy_metadata(disk, source, part)
    manifest = _copy_partitions(disk, (source, part), state, link)
    write_info(disk, part, state)
    data = msgspec.json.format(msgspec.json.encode(manifest))
    disk.write_file(f"{part}/{MANIFEST}", data, sync=True)
    disk.rename(part, target)
    disk.sync_folder(os.path.dirname(target) or ".")
    return manifest


def _copy_metadata(disk: Disk, source: str, target: str) -> State:
    """The journal before the snapshot: what a fold in between takes out of it is in that."""
    disk.make_folders(f"{target}/{FOLDER}")
    for name in (journal.JOURNAL_FILE, SNAPSHOT_FILE):
        path = f"{source}/{FOLDER}/{name}"
        if disk.exists(path):
            data = disk.read_file(path, bytes_max=disk.size(path))
            disk.write_file(f"{target}/{FOLDER}/{name}", data, sync=True)
    return journal.load(target, disk=disk, entries_max=1).state


def _copy_partitions(
    disk: Disk, roots: tuple[str, str], state: State, link: Link | None
) -> Manifest:
    manifest = Manifest(state.op, [], [])
    parents: set[str] = set()
    for placed in state.placed():
        source, target = (_folder(root, placed) for root in roots)
        found = copy_partition(
            disk, source, target, incarnation=placed.partition.incarnation, link=link
        )
        if found is None:
            continue  # deleted meanwhile, or not made yet: a start makes it, empty
        parents.update(layout.parents_of(target))
        if found.damage:
            manifest.damaged.append(found.damage)
        manifest.partitions.append(
            PartitionInBackup(
                placed.stream_id,
                placed.topic_id,
                placed.partition.id,
                found.first_offset,
                found.next_offset,
                found.size_bytes,
            )
        )
    for parent in sorted(parents):
        disk.sync_folder(parent)
    return manifest


def _folder(root: str, placed: Placed) -> str:
    return layout.partition_folder(root, placed.stream_id, placed.topic_id, placed.partition.id)


# -- checking ----------------------------------------------------------------------------------


def check(folder: str, *, disk: Disk) -> tuple[Manifest, list[str]]:
    """Read a backup again, all of it, and change nothing. What it says, and what is not so.

    BackupError if it is none, or was never finished.
    """
    path = f"{folder}/{MANIFEST}"
    try:
        data = disk.read_file(path, bytes_max=_MANIFEST_BYTES_MAX)
        manifest = msgspec.json.decode(data, type=Manifest)
    except FileNotFoundError:
        raise BackupError(f"{folder} has no {MANIFEST}: it is no finished backup") from None
    except msgspec.MsgspecError as error:
        raise BackupError(f"{path} cannot be read: {error}: make another backup") from error
    problems = []
    state = journal.peek(folder, disk=disk)
    if state.op != manifest.op:
        problems.append(f"{folder}/{FOLDER}: ends with change {state.op}, not {manifest.op}")
    for line in manifest.partitions:
        problems += _check_partition(disk, folder, line)
    return manifest, problems


def _check_partition(disk: Disk, root: str, line: PartitionInBackup) -> list[str]:
    folder = layout.partition_folder(root, line.stream_id, line.topic_id, line.partition_id)
    names = disk.list_folder(folder)
    firsts = [first for name in names if (first := layout.log_first_offset(name)) is not None]
    problems = []
    expected = line.first_offset
    for first in firsts:
        if first != expected:
            problems.append(f"{folder}: offsets {expected} to {first - 1} are missing")
        path = layout.log_path(folder, first)
        file = disk.open(path)
        try:
            size = file.size()
            found = scan_log(file, 0, size, first)
        finally:
            file.close()
        if found.end < size:
            problems.append(f"{path}: checksum error at offset {found.next_offset}")
        expected = found.next_offset
    if expected != line.next_offset:
        problems.append(f"{folder}: ends at offset {expected}, not {line.next_offset}")
    for kind in OFFSET_FOLDERS.values():
        kept = f"{folder}/{layout.OFFSETS_FOLDER}/{kind}"
        for name in disk.list_folder(kept):
            if decode_offset(disk.read_file(f"{kept}/{name}", bytes_max=RECORD_BYTES_MAX)) is None:
                problems.append(f"{kept}/{name}: the stored offset is damaged")
    return problems


# -- the command -------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run `iggy-broker backup …`; the exit code."""
    options = _parser().parse_args(arguments)
    logs.set_up("info")
    try:
        if options.check is not None:
            return _check(str(options.check))
        root = str(load(options.config, os.environ).config.system.path)
    except ConfigError as error:
        return _give_up(str(error), _USAGE)
    try:
        link = os.link if options.link else None
        made = make(root, str(options.to), disk=RealDisk(), link=link)
    except BackupError as error:
        return _give_up(str(error), _FAILED)
    except _CANNOT as error:
        return _give_up(explain(error, root), _FAILED)
    figures = _tell(made, made.damaged)
    told = event("backup_made", **figures)
    logger.info("= %s: a backup of %s", options.to, root, extra=told)
    return 0


def _check(folder: str) -> int:
    try:
        manifest, problems = check(folder, disk=RealDisk())
    except (BackupError, *_CANNOT) as error:
        return _give_up(f"{folder}: {error}", _FAILED)
    told = event("backup_checked", **_tell(manifest, problems))
    logger.info("= %s: read, %d problems", folder, len(problems), extra=told)
    return _FAILED if problems else 0


def _tell(manifest: Manifest, problems: Sequence[str]) -> dict[str, int]:
    """Log what is wrong; how much is in the backup."""
    for problem in problems:
        logger.error("! %s", problem, extra=event("backup_damaged"))
    lines = manifest.partitions
    return {
        "partitions": len(lines),
        "messages": sum(line.next_offset - line.first_offset for line in lines),
        "size_bytes": sum(line.size_bytes for line in lines),
    }


def _give_up(why: str, code: int) -> int:
    logger.critical("! no backup: %s", why, extra=event("backup_failed", code=code))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iggy-broker backup",
        description="Copy the data directory, also while its broker runs, or check such a copy.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--to", type=Path, metavar="FOLDER", help="make a backup in a new folder")
    what.add_argument("--check", type=Path, metavar="FOLDER", help="read a backup and compare")
    parser.add_argument(
        "--link",
        action="store_true",
        help="give sealed segments a second name instead of copying them; same file system only",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration of the broker")
    return parser
