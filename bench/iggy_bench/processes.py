"""Starts and stops the servers under test, and reads what they cost from /proc."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

USERNAME = "bench"
PASSWORD = "bench-password"
START_S_MAX = 120.0
STOP_S_MAX = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BARE_SERVER = Path(__file__).resolve().parent.parent / "bare_server.py"


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def process_tree(root: int) -> list[int]:
    """The process and all its descendants."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(int(entry))
            if fields:
                parents[int(entry)] = int(fields[1])
    tree = [root]
    for parent in tree:
        tree.extend(child for child, its_parent in parents.items() if its_parent == parent)
    return tree


def cpu_s(root: int) -> float:
    """CPU seconds that the process tree has used: user and system, of all threads."""
    return sum(own_cpu_s(pid) for pid in process_tree(root))


def own_cpu_s(pid: int) -> float:
    """The same of one process; 0 if it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S if fields else 0.0


def ended_cpu_s(pid: int) -> float:
    """The same of its children that have ended and that it knows of."""
    fields = _stat(pid)
    return (int(fields[13]) + int(fields[14])) / TICKS_PER_S if fields else 0.0


def children(root: int) -> list[int]:
    """Its children, those too that have ended and that it has not asked after."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in pids if (fields := _stat(pid)) and int(fields[1]) == root]


def pss_bytes(root: int) -> int:
    """Proportional set size of the process tree: shared pages are counted once."""
    total = 0
    for pid in process_tree(root):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
    return total


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2 :].split()


@dataclass(slots=True)
class Server:
    """A running server: where it listens and its process."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    started_s: float = 0.0  # from the start of the process until it was ready
    started_cpu_s: float = 0.0  # what that took of the processors
    monitoring_port: int = 0
    log: Path = field(default=Path(os.devnull))

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """CPU seconds used so far."""
        return cpu_s(self.process.pid)

    def pss_bytes(self) -> int:
        """Memory now."""
        return pss_bytes(self.process.pid)

    def stop(self) -> None:
        """End it in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_S_MAX)

    def kill(self) -> None:
        """End all of it at once, as a crash would."""
        pids = process_tree(self.process.pid)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(STOP_S_MAX)

    def __enter__(self) -> Self:
        """The server itself: it is running already."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop it if nobody has."""
        if self.process.poll() is None:
            self.stop()


def start_broker(folder: Path, *, shards: int, settings: dict[str, str] | None = None) -> Server:
    """A broker on `folder`, ready for requests. Raises RuntimeError with its log if it dies."""
    folder.mkdir(parents=True, exist_ok=True)
    port, monitoring_port = free_port(), free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("IGGY_")},
        "IGGY_ROOT_USERNAME": USERNAME,
        "IGGY_ROOT_PASSWORD": PASSWORD,
        "IGGY_SYSTEM_PATH": str(folder / "data"),
        "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": str(shards),
        "IGGY_TCP_ADDRESS": f"127.0.0.1:{port}",
        "IGGY_HTTP_ENABLED": "false",
        "IGGY_MONITORING_ADDRESS": f"127.0.0.1:{monitoring_port}",
        "IGGY_WEBSOCKET_ENABLED": "false",
        "IGGY_QUIC_ENABLED": "false",
        **(settings or {}),
    }
    log = folder / "broker.log"
    began = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "iggy_broker"],
            env=environment,
            stdout=output,
            stderr=output,
            cwd=folder,
        )
    server = Server("broker", port, process, monitoring_port=monitoring_port, log=log)
    _wait(server, lambda: _is_ready(monitoring_port))
    server.started_s = time.monotonic() - began
    server.started_cpu_s = server.cpu_s()
    return server


def start_bare(folder: Path, *, processes: int) -> Server:
    """The bare server, writing below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [sys.executable, str(BARE_SERVER), str(port), str(folder), str(processes)]
    server = Server("bare server", port, subprocess.Popen(command))
    _wait(server, lambda: _accepts(port))
    return server


def _wait(server: Server, is_ready: object) -> None:
    assert callable(is_ready)
    end = time.monotonic() + START_S_MAX
    while not is_ready():
        if server.process.poll() is not None or time.monotonic() > end:
            log = server.log.read_text() if server.log.is_file() else ""
            server.kill()
            raise RuntimeError(f"the {server.name} did not get ready:\n{log[-4000:]}")
        time.sleep(0.002)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=1) as response:
            ready: bool = response.status == 200  # noqa: PLR2004 -- HTTP's OK
            return ready
    except (urllib.error.URLError, OSError):
        return False


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
