"""What is in a snapshot of the server. Blocking: run it in a thread. No secret gets in here."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import resource
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from iggy_broker import config as configuration
from iggy_broker.config import Config

FILES_MAX: Final = 10_000  # of the data directory that are listed; the rest is counted
PROCESSES_MAX: Final = 10_000

_LOCK_NAME: Final = "snapshot.lock"

# Iggy protocol 0.11: compression codes. Python packs no zstd (before 3.14) and no xz into a ZIP
# archive, and few programs could open one: deflated comes instead, as the archive itself says.
METHODS: Final[dict[int, int]] = {
    1: zipfile.ZIP_STORED,
    2: zipfile.ZIP_DEFLATED,
    3: zipfile.ZIP_BZIP2,
    4: getattr(zipfile, "ZIP_ZSTANDARD", zipfile.ZIP_DEFLATED),
    5: zipfile.ZIP_LZMA,
    6: zipfile.ZIP_DEFLATED,
}


class SnapshotRunning(Exception):
    """Another snapshot is being made."""


def archive(config: Config, kinds: Sequence[int], *, method: int) -> bytes:
    """The ZIP file: one text for each kind. Raises SnapshotRunning."""
    with _alone(config):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as file:
            for kind in kinds:
                name, text = CONTENTS[kind]
                file.writestr(f"{name}.txt", text(config))
        return packed.getvalue()


@contextlib.contextmanager
def _alone(config: Config) -> Iterator[None]:
    """Hold the one lock of all shards; it goes with the process, if that dies."""
    folder = config.system.path / "runtime"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_NAME).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SnapshotRunning from None
        yield


def _file_systems(config: Config) -> str:
    root = config.system.path
    usage = shutil.disk_usage(root)
    lines = [f"{root.resolve()}: {usage.total} bytes, {usage.used} used, {usage.free} free"]
    listed = omitted = 0
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted(files):
            if listed >= FILES_MAX:
                omitted += 1
                continue
            listed += 1
            lines.append(_file_line(root, Path(folder, name)))
    return _text([*lines, f"{omitted} more files"] if omitted else lines)


def _file_line(root: Path, path: Path) -> str:
    try:
        status = path.lstat()
    except OSError as error:  # gone meanwhile
        return f"{path.relative_to(root)}: {error.strerror}"
    return f"{path.relative_to(root)}: {status.st_size} bytes, mode {status.st_mode & 0o7777:o}"


def _processes(config: Config) -> str:
    """Names only: arguments and environments of processes hold secrets."""
    del config
    lines: list[str] = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        if len(lines) >= PROCESSES_MAX:
            break
        with contextlib.suppress(OSError, IndexError):  # it has ended
            name = (folder / "comm").read_text().strip()
            pages = (folder / "statm").read_text().split()[1]
            resident = int(pages) * os.sysconf("SC_PAGE_SIZE")
            lines.append(f"{folder.name} {name}: {resident} bytes resident")
    return _text(lines)


def _resources(config: Config) -> str:
    del config
    used = resource.getrusage(resource.RUSAGE_SELF)
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    lines = [
        f"load: {' '.join(f'{load:.2f}' for load in os.getloadavg())}",
        f"cores: {os.cpu_count()}",
        f"this process: {used.ru_utime:.2f} s user, {used.ru_stime:.2f} s system",
        f"this process: {used.ru_maxrss} KiB at most, {files_max} files allowed",
    ]
    with contextlib.suppress(OSError):
        lines += Path("/proc/meminfo").read_text().splitlines()
    return _text(lines)


def _test(config: Config) -> str:
    del config
    return "test\n"


def _logs(config: Config) -> str:
    lines = [
        f"level: {config.system.logging.level}",
        "Logs go to standard error, one JSON object a line; whoever runs the broker keeps them.",
        f"asked at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}",
    ]
    return _text(lines)


def _configuration(config: Config) -> str:
    return configuration.effective(config)


# Iggy protocol 0.11: snapshot types. File names are the types' own.
CONTENTS: Final[dict[int, tuple[str, Callable[[Config], str]]]] = {
    1: ("filesystem_overview", _file_systems),
    2: ("process_list", _processes),
    3: ("resource_usage", _resources),
    4: ("test", _test),
    5: ("server_logs", _logs),
    6: ("server_config", _configuration),
}


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
