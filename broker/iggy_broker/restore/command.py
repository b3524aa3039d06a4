"""`iggy-broker restore`: bring a data directory back from an archive.

Lazily by default: metadata, stored offsets, and partitions that go on where the archive ends; what
is older is read from the archive when somebody asks for it. So it takes seconds, however much there
is. With `--full` segments are fetched, too.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from iggy_broker import logs
from iggy_broker.archive.copying import store_small
from iggy_broker.archive.fences import newest_fences, put_fences, read_fences, write_prepared
from iggy_broker.archive.owner import put_owner, read_owner, successor, write_note
from iggy_broker.archive.places import open_store
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.clock import Clock, SystemClock
from iggy_broker.config import Config, ConfigError, load
from iggy_broker.errors import Reject
from iggy_broker.logs import event
from iggy_broker.metadata.model import State
from iggy_broker.metadata.snapshot import MetadataDamaged, MetadataNewer, encode_snapshot
from iggy_broker.restore.building import DirectoryInUse, begin, build, finish, is_empty
from iggy_broker.restore.plan import Plan, Target, era_of, make_plan
from iggy_broker.restore.report import (
    REPORT_FILE,
    Facts,
    PartitionLine,
    Report,
    line_of,
    report_of,
)
from iggy_broker.restore.source import is_same, named, place_of
from iggy_broker.restore.survey import REQUESTS_MAX, each, read_metadata, survey
from iggy_broker.storage.disk import Disk, RealDisk, StorageFailed
from iggy_broker.storage.explain import explain
from iggy_broker.storage.lock import DirectoryLock, DirectoryLockedError
from iggy_wire.archive import METADATA_KEY, metadata_key
from iggy_wire.archive_fences import Fences

_FAILED: Final = 1
_USAGE: Final = 2
_CANNOT: Final = (
    ArchiveError, DirectoryInUse, DirectoryLockedError, MetadataDamaged, Reject, StorageFailed,
    OSError,
)  # fmt: skip

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for."""

    archive: str
    """For people: where it is."""
    is_ours: bool
    """Whether it is the archive of the settings."""
    is_full: bool = False
    is_checked: bool = False
    recreate: bool = False
    take_over: bool = False
    allow_new: bool = False


def restore(root: str, store: ArchiveStore, wishes: Wishes, *, clock: Clock) -> Report | None:
    """Make the data directory `root`, which is locked; None if there is one, and nothing is done.

    ArchiveError, DirectoryInUse, MetadataDamaged, OSError, StorageFailed: it is not there, and the
    next try begins anew.
    """
    disk = RealDisk()
    began_us, now_us = clock.monotonic_us(), clock.now_us()
    if not is_empty(disk, root):
        return None
    former = read_fences(store)
    owner = successor(read_owner(store), now_us=now_us, former=_last_generation(store))
    fences = replace(former, id=owner.id, generation=owner.generation)
    if wishes.take_over:
        put_fences(store, fences)
        put_owner(store, owner)
    known = _metadata(store, wishes, former)
    held = survey(store, is_all=wishes.is_full or wishes.is_checked, fences=former)
    if known is None and not held and not wishes.allow_new:
        raise ArchiveError(
            f"nothing is in the archive {wishes.archive}: name the right one with --from, or say"
            " --allow-new to begin with an empty data directory"
        )
    plan = make_plan(known, held, recreate=wishes.recreate, now_us=now_us)
    fences = fences.with_era(era_of(plan, owner.generation))
    if wishes.take_over:
        _begin_there(store, known and plan.state, fences)
    begin(disk, root)
    lines = _build(root, plan, store if wishes.is_full else None)
    if wishes.is_ours:
        write_prepared(disk, root, fences)
        write_note(disk, root, owner)
    took_ms = (clock.monotonic_us() - began_us) // 1000
    facts = Facts(wishes.archive, wishes.is_ours, wishes.is_full, known is not None, took_ms)
    report = report_of(plan, lines, facts)
    data = msgspec.json.format(msgspec.json.encode(report))
    disk.write_file(f"{root}/{REPORT_FILE}", data, sync=True)
    fetched = [target.held for target in plan.targets if target.held and wishes.is_full]
    is_encrypted = any(one.key_id for held in fetched for one in held.listing.segments)
    finish(disk, root, plan.state, is_encrypted=is_encrypted)
    return report


def _begin_there(store: ArchiveStore, state: State | None, fences: Fences) -> None:
    """What the new owner begins with, which the former one may not change any more."""
    if state is not None and fences.generation > 1:
        store_small(store, metadata_key(fences.generation), encode_snapshot(state))
    put_fences(store, fences)


def _last_generation(store: ArchiveStore) -> int:
    """Of those that are known to have written there; 0: nobody has."""
    if known := newest_fences(store).generation:
        return known
    is_used = store.size(METADATA_KEY) is not None or any(store.folders("streams/"))
    return int(is_used)


def _metadata(store: ArchiveStore, wishes: Wishes, fences: Fences) -> State | None:
    try:
        return read_metadata(store, fences)
    except MetadataNewer:
        raise
    except MetadataDamaged as error:
        if wishes.recreate:
            told = event("restore_problem")
            logger.warning("! metadata are made anew from manifests: %s", error, extra=told)
            return None
        raise ArchiveError(
            f"the archive's metadata cannot be read: {error}; put an earlier copy in their place,"
            " or make them anew from the manifests with --recreate"
        ) from error


def _build(root: str, plan: Plan, store: ArchiveStore | None) -> list[PartitionLine]:
    disks = threading.local()
    adopted = {id(held) for held in plan.adopted}

    def work(target: Target) -> PartitionLine:
        disk: Disk | None = getattr(disks, "disk", None)
        if disk is None:  # one for each thread: it keeps files open
            disk = disks.disk = RealDisk()
        placed = target.placed
        groups = plan.state.streams[placed.stream_id].topics[placed.topic_id].groups
        made = build(disk, root, target, groups=groups, store=store)
        return line_of(plan.state, target, made, is_adopted=id(target.held) in adopted)

    with ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="restore") as threads:
        return each(threads, plan.targets, work)


# -- the command -------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run `iggy-broker restore …`; the exit code."""
    options = _parser().parse_args(arguments)
    logs.set_up("info")
    try:
        config = load(options.config, os.environ).config
    except ConfigError as error:
        return _give_up(str(error), _USAGE)
    root = str(config.system.path)
    try:
        return _run(config, root, options)
    except ValueError as error:
        return _give_up(str(error), _USAGE)
    except OSError as error:
        return _give_up(explain(error, root), _FAILED)
    except _CANNOT as error:
        return _give_up(str(error), _FAILED)


def _run(config: Config, root: str, options: argparse.Namespace) -> int:
    store, where, is_ours = _archive(config, options)
    lock = DirectoryLock.acquire_soon(root)
    try:
        wishes = Wishes(
            where,
            is_ours,
            is_full=options.full,
            is_checked=options.check,
            recreate=options.recreate,
            take_over=options.take_over,
            allow_new=options.allow_new,
        )
        report = restore(root, store, wishes, clock=SystemClock())
    finally:
        lock.release()
    if report is not None:
        if options.summary is not None:
            options.summary.write_bytes(report.brief() + b"\n")
        _tell(report, options.report)
        return 0
    if options.if_empty:
        told = event("restore_not_needed")
        logger.info("= %s has data: nothing is restored", root, extra=told)
        return 0
    why = f"{root} is a data directory with data in it: name another one as system.path"
    return _give_up(f"{why}, or move it away", _FAILED)


def _archive(config: Config, options: argparse.Namespace) -> tuple[ArchiveStore, str, bool]:
    """The archive, its name for people, and whether the settings name it."""
    settings, data = config.data_maintenance.archiver, config.system.path
    wanted = settings
    if options.source is not None:
        wanted = named(settings, options.source, endpoint=options.endpoint, region=options.region)
    elif not settings.enabled:
        raise ValueError("name the archive with --from: data_maintenance.archiver is not enabled")
    is_ours = settings.enabled and is_same(settings, wanted, data)
    return open_store(wanted, data), place_of(wanted, data), is_ours


def _tell(report: Report, file: Path | None) -> None:
    done = report.restored
    if file is not None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    if sys.stdout.isatty():
        for row in report.table():
            sys.stdout.write(f"{row}\n")
    else:
        for line in report.lines():
            sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()
    if not done.is_served:
        told = event("restore_elsewhere")
        logger.warning(
            "! older messages are in %s and are served only if data_maintenance.archiver names it:"
            " set it, or restore with --full",
            done.archive,
            extra=told,
        )
    if done.left_out_count:
        told = event("restore_left_out", count=done.left_out_count)
        logger.warning(
            "! %d partitions are younger than the metadata, and left out: see --recreate",
            done.left_out_count,
            extra=told,
        )
    if done.problems or done.cut_offsets:
        told = event("restore_problem", problems=done.problems, cut_offsets=done.cut_offsets)
        logger.warning("! not all is as it was: see %s", REPORT_FILE, extra=told)
    figures = {
        "partitions": done.partitions,
        "messages": done.messages,
        "took_ms": done.took_ms,
    }
    told = event("restored", mode=done.mode, **figures)
    logger.info("= restored from %s", done.archive, extra=told)


def _give_up(why: str, code: int) -> int:
    logger.critical("! nothing is restored: %s", why, extra=event("restore_failed", code=code))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iggy-broker restore",
        description="Bring an empty data directory back from an archive.",
        epilog="A report goes to standard output, an object a line, and into restore.json.",
    )
    parser.add_argument(
        "--from", dest="source", metavar="ARCHIVE",
        help="a folder, or s3://bucket/prefix; the archive of the settings if it is missing",
    )  # fmt: skip
    parser.add_argument(
        "--endpoint", default="", metavar="URL", help="address of a store that is not Amazon's"
    )
    parser.add_argument("--region", default="", metavar="NAME", help="region of the bucket")
    parser.add_argument(
        "--full", action="store_true", help="fetch all segments, not only what is needed to begin"
    )
    parser.add_argument(
        "--check", action="store_true", help="read all manifests, and tell what is missing"
    )
    parser.add_argument(
        "--recreate", action="store_true",
        help="adopt topics that are younger than the archive's metadata",
    )  # fmt: skip
    parser.add_argument(
        "--take-over", action="store_true",
        help="stop another broker from copying to the archive before it is read",
    )  # fmt: skip
    parser.add_argument(
        "--if-empty", action="store_true", help="do nothing if the data directory has data"
    )
    parser.add_argument(
        "--allow-new", action="store_true", help="an archive with nothing in it is no error"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there, too")
    parser.add_argument(
        "--summary", type=Path, metavar="FILE", help="write one line with all figures there"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration of the broker")
    return parser
