"""A real MariaDB, in a temporary folder and a process of its own, and its driver for Java."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

USERNAME = "iggy"
PASSWORD = "secret-of-the-database"
DATABASE = "shop"
DRIVER_JAR = Path("/usr/share/java/mariadb-java-client.jar")  # where Debian has it
START_S = 60.0
STOP_S = 30.0
LOOK_S = 0.05
QUICK = ("--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=16M")
_PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb")


class MariaDb:
    """One server on a free port."""

    def __init__(self, folder: Path, settings: Sequence[str]) -> None:
        self.folder, self.settings = folder, settings
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._data = folder / "data"
        self._socket = folder / "socket"
        self._user = pwd.getpwuid(os.geteuid()).pw_name

    @property
    def url(self) -> str:
        """The database as the sink's block has it."""
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{DATABASE}"

    def login(self, password: str = PASSWORD) -> Path:
        """A login as a Secret is mounted: a folder of files."""
        folder = self.folder / f"login-{len(password)}"
        folder.mkdir(exist_ok=True)
        (folder / "username").write_text(USERNAME)
        (folder / "password").write_text(f"{password}\n")
        return folder

    def make(self) -> MariaDb:
        """Make the files of a new server."""
        self._done(
            "mariadb-install-db", "--no-defaults", f"--datadir={self._data}",
            f"--user={self._user}", "--auth-root-authentication-method=normal",
            "--skip-test-db",
        )  # fmt: skip
        return self

    def start(self) -> MariaDb:
        """Start, and return when it takes connections."""
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    _program("mariadbd"), "--no-defaults", f"--datadir={self._data}",
                    f"--socket={self._socket}", f"--port={self.port}",
                    "--bind-address=127.0.0.1", f"--user={self._user}", *self.settings,
                ],
                stdout=log,
                stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while self._query("select 1", database="").returncode:
            told = (self.folder / "server.log").read_text("utf-8", "replace")[-4000:]
            assert self.process.poll() is None, f"MariaDB ended at start:\n{told}"
            assert time.monotonic() < deadline, f"MariaDB is not ready:\n{told}"
            time.sleep(LOOK_S)
        return self

    def kill(self) -> None:
        """End it at once, as a crash does; `start` again recovers."""
        assert self.process is not None, "started"
        self.process.kill()
        self.process.wait(STOP_S)

    def run(self, text: str, *, database: str = DATABASE) -> list[list[str]]:
        """What the last of these statements returns, as texts."""
        done = self._query(text, database=database)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def _query(self, text: str, *, database: str) -> subprocess.CompletedProcess[str]:
        words = [_program("mariadb"), "--no-defaults", f"--socket={self._socket}", "--user=root"]
        given: dict[str, Any] = {"capture_output": True, "text": True, "check": False}
        return subprocess.run([*words, "--batch", "-N", "--execute", text, database], **given)

    def _done(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_program(program), *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program}: {done.stdout} {done.stderr}"


def _program(name: str) -> str:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin") or ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def driver_settings() -> dict[str, str]:
    """Settings of Spark with the driver for Java, where it is on this machine."""
    return {"spark.driver.extraClassPath": str(DRIVER_JAR)} if DRIVER_JAR.exists() else {}


@contextmanager
def running_mariadb(settings: Sequence[str] = QUICK) -> Iterator[MariaDb]:
    """A server with an empty database for the length of a block; `settings` are arguments of its
    program. Skips where there is none.
    """
    if not all(map(_program, _PROGRAMS)) or not DRIVER_JAR.exists():
        pytest.skip(
            "MariaDB is not on this machine: apt-get install mariadb-server libmariadb-java"
        )
    with tempfile.TemporaryDirectory(prefix="mariadb-") as name:
        server = MariaDb(Path(name), settings).make()
        try:
            server.start()
            server.run(
                f"create database {DATABASE}; create user {USERNAME}@'127.0.0.1' "
                f"identified by '{PASSWORD}'; grant all on {DATABASE}.* to {USERNAME}@'127.0.0.1'",
                database="",
            )
            yield server
        finally:
            if server.process is not None:
                server.kill()
