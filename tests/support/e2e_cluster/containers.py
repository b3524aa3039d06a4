"""What outlives containerd: containers, their keepers, mounts, groups. Removed here."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from . import places
from .places import Places
from .trouble import ClusterError, run

KEEPER = "containerd-shim-runc-v2"
GONE_WITHIN_S = 20.0
GROUP = places.NODE
CGROUPS = Path("/sys/fs/cgroup")
# Ten times the usual: else all pods together would count as one program of the machine's own.
WEIGHTS = {"cpu.shares": "10240", "cpu.weight": "1000"}  # of the older cgroups, of the newer ones
LINKS = Path("/var/log/containers")  # the kubelet links every log there, whatever one says

# Folders that the programs make outside of the state folder, whatever they are told.
FOLDERS = (
    "/etc/cni",
    "/run/containerd",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)


def note_folders(where: Places) -> None:
    """Remember, once, which of these folders the machine did not have before the cluster."""
    note = where.run / "absent-folders.json"
    if not note.exists():
        note.write_text(json.dumps([path for path in FOLDERS if not Path(path).exists()]))


def remove_folders(where: Places) -> None:
    """Remove those that the machine did not have; what was there before is not touched."""
    note = where.run / "absent-folders.json"
    if note.exists():
        for path in json.loads(note.read_text()):
            shutil.rmtree(path, ignore_errors=True)


def remove_all(where: Places) -> None:
    """End every container of this cluster and unmount what was theirs. containerd must be down."""
    _end_processes()
    unmount_below(where.run, places.CONTAINERD_STATE)
    remove_folders(where)
    _remove_groups()
    _remove_links(where)
    shutil.rmtree(places.CONTAINERD_STATE, ignore_errors=True)


def make_groups() -> None:
    """A group of our own in every hierarchy, so that another kubelet's pods are not ours."""
    unified = (CGROUPS / "cgroup.controllers").exists()
    hierarchies = [CGROUPS] if unified else [path for path in CGROUPS.iterdir() if path.is_dir()]
    for hierarchy in hierarchies:
        group = hierarchy / GROUP
        group.mkdir(exist_ok=True)
        for name, text in WEIGHTS.items():
            if (group / name).exists():
                (group / name).write_text(text)


def keepers() -> Iterator[int]:
    """Process ids of the containers' keepers that belong to our containerd."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            words = _command(folder)
            if words and words[0].endswith(KEEPER) and str(places.CONTAINERD_SOCKET) in words:
                yield int(folder.name)


def _command(folder: Path) -> list[str]:
    try:
        return (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []  # it has just ended


def _end_processes() -> None:
    # The keeper first: it would otherwise restore order while we end what it keeps.
    deadline = time.monotonic() + GONE_WITHIN_S
    while pids := [*keepers(), *_grouped()]:
        if time.monotonic() > deadline:
            raise ClusterError(f"containers do not end: processes {sorted(set(pids))}")
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _groups() -> list[Path]:
    """Our groups in every hierarchy, deepest first."""
    roots = [*CGROUPS.glob(GROUP), *CGROUPS.glob(f"*/{GROUP}")]
    found = [path for root in roots for path in (root, *root.rglob("*")) if path.is_dir()]
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def _grouped() -> Iterator[int]:
    for group in _groups():
        try:
            numbers = (group / "cgroup.procs").read_text().split()
        except OSError:
            continue
        yield from (int(number) for number in numbers if number != "0")


def _remove_groups() -> None:
    for group in _groups():
        with contextlib.suppress(OSError):  # an empty one that is busy goes with its parent later
            group.rmdir()


def _remove_links(where: Places) -> None:
    if not LINKS.is_dir():
        return
    for link in LINKS.iterdir():
        if link.is_symlink() and link.readlink().is_relative_to(where.run):
            link.unlink()
    with contextlib.suppress(OSError):  # somebody else's are in there too
        LINKS.rmdir()


def unmount_below(*folders: Path) -> None:
    """Unmount everything at or below these folders, the last one mounted first."""
    for point in reversed(mounts_below(Path("/proc/self/mounts").read_text(), *folders)):
        run(["umount", "--lazy", point])


def mounts_below(table: str, *folders: Path) -> list[str]:
    """The mount points of a kernel's table that lie at or below `folders`, in its order."""
    points = [line.split()[1].replace("\\040", " ") for line in table.splitlines() if line]
    return [point for point in points if any(Path(point).is_relative_to(one) for one in folders)]
