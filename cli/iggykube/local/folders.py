"""The data directory of one local instance: its folders, its lock, its root password, its ports."""

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from iggykube.errors import LocalError

ROOT_USERNAME: Final = "iggy"
LOG_BYTES_MAX: Final = 16 << 20
"""A log that grows larger is moved to `.1`, in place of an older one."""
_PASSWORD_BYTES: Final = 24
_LOCK_TRIES: Final = 10
_LOCK_PAUSE_S: Final = 0.02
HOST: Final = "127.0.0.1"
"""Where the broker listens, for this machine only."""
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the broker listens on this machine. 0 takes a free port."""

    tcp: int = 8090
    monitoring: int = 9099
    http: int = 0  # the broker itself takes a free one, and says which in its log

    def resolved(self) -> "Ports":
        """Real port numbers. Raises LocalError naming the option if one is taken."""
        tcp, monitoring = socket.socket(), socket.socket()
        with tcp, monitoring:
            for option, port, sock in (
                ("--port", self.tcp, tcp),
                ("--monitoring-port", self.monitoring, monitoring),
            ):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    sock.bind((HOST, port))
                except OSError as error:
                    fix = f"choose another with {option}, or 0 for a free one"
                    raise LocalError(
                        f"port {port} cannot be used: {error.strerror}: {fix}"
                    ) from error
            return Ports(tcp.getsockname()[1], monitoring.getsockname()[1], self.http)

    @property
    def address(self) -> str:
        """Host and port for clients."""
        return f"{HOST}:{self.tcp}"

    @property
    def http_address(self) -> str:
        """Host and port of the HTTP API."""
        return f"{HOST}:{self.http}"

    @property
    def monitoring_address(self) -> str:
        """Host and port of probes and metrics."""
        return f"{HOST}:{self.monitoring}"


@dataclass(frozen=True, slots=True)
class Folders:
    """Where things lie. `root` is absolute and without dots; take it from `at`."""

    root: Path

    @classmethod
    def at(cls, data_dir: Path) -> "Folders":
        """The folders of a data directory."""
        return cls(Path(os.path.abspath(data_dir)))

    @property
    def broker(self) -> Path:
        """The broker's own data: messages and metadata."""
        return self.root / "broker"

    @property
    def files(self) -> Path:
        """Below here lie relative paths of sinks and sources."""
        return self.root / "files"

    @property
    def claims(self) -> Path:
        """In place of volume claims: `<namespace>/<claim>`."""
        return self.root / "claims"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """What only matters while the instance runs."""
        return self.root / "run"

    @property
    def redrives(self) -> Path:
        """Requests to write dead letters again, until they are carried out."""
        return self.root / "redrives"

    @property
    def state_file(self) -> Path:
        """What was applied last."""
        return self.root / "state.json"

    @property
    def snapshot_file(self) -> Path:
        """The newest snapshot, for `iggykube status`."""
        return self.run / "snapshot.json"

    @property
    def password_file(self) -> Path:
        """The root user's password, readable by its owner only."""
        return self.root / "secrets" / "root-password"

    @property
    def secrets(self) -> Path:
        """Secrets that are named: `<namespace>/<name>/<key>`, readable by their owner only."""
        return self.password_file.parent / "sinks"

    def secret(self, namespace: str, name: str) -> Path:
        """One of them."""
        return self.secrets / namespace / name

    def create(self) -> None:
        """Make what is missing. Raises LocalError if the place does not allow it."""
        folders = (self.broker, self.files, self.claims, self.logs, self.run, self.run / "jobs")
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (*folders, self.password_file.parent, self.secrets):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LocalError(f"data directory {self.root}: {error.strerror}: {_OTHER}") from error

    def password(self) -> str:
        """The root password; made the first time."""
        try:
            return self.password_file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            password = secrets.token_urlsafe(_PASSWORD_BYTES)
            write_private(self.password_file, password + "\n")
            return password
        except OSError as error:
            raise LocalError(f"{self.password_file}: {error.strerror}") from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the data directory. Raises LocalError if another process does."""
        with (self.run / "lock").open("a+") as file:
            if not _locked(file):
                owner = self.owner_pid()
                fix = f"stop it with `iggykube down --data {self.root}`, or choose another folder"
                message = f"data directory {self.root} is in use by process {owner}: {fix}"
                raise LocalError(message)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
            file.truncate(0)

    def owner_pid(self) -> int | None:
        """The process that holds the data directory, None if none does."""
        try:
            with (self.run / "lock").open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = file.read().strip()
                    return int(text) if text.isdigit() else None
        except OSError:
            pass
        return None


_OTHER: Final = "choose another place with --data"


def _locked(file: TextIO) -> bool:
    """Take the lock. `iggykube status` holds it for a moment, too: that is waited for."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_S)
        else:
            return True
    return False


def write_private(path: Path, content: str | bytes, *, is_lasting: bool = True) -> None:
    """Replace a file's content in one step; nobody else may read it.

    `is_lasting`: it must be there after the machine has crashed.
    """
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
        file.flush()
        if is_lasting:
            os.fsync(file.fileno())
    part.replace(path)
