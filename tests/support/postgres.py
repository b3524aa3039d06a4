"""A real PostgreSQL, in a temporary folder and processes of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
import pytest

USERNAME = "iggy"
PASSWORD = "secret-of-the-database"
DATABASE = "shop"
START_S = 60.0
STOP_S = 30.0
LOOK_S = 0.05
_LIBRARIES = Path("/usr/lib/postgresql")  # Debian keeps servers of several versions there
_MISSING = "PostgreSQL's server is not on this machine: apt-get install postgresql"


class Postgres:
    """One server on a free port. Its files are its user's alone: it refuses to run as root."""

    def __init__(
        self, programs: Path, folder: Path, settings: Mapping[str, str], *, host: str = "127.0.0.1"
    ) -> None:
        """`settings` are those of postgresql.conf, `host` is the address where it listens."""
        self.folder = folder
        self.host = host
        self.port = _free_port(host)
        self.settings = dict(settings)
        self.process: subprocess.Popen[bytes] | None = None
        self._programs = programs
        self._user = _user()

    @property
    def url(self) -> str:
        """The database as the sink's block has it."""
        return f"jdbc:postgresql://{self.host}:{self.port}/{DATABASE}"

    @property
    def source_url(self) -> str:
        """The same as a source's block has it."""
        return self.url.removeprefix("jdbc:")

    @cached_property
    def login(self) -> Path:
        """The login as a Secret is mounted: a folder of files."""
        folder = self.folder / "login"
        folder.mkdir(exist_ok=True)
        (folder / "username").write_text(USERNAME)
        (folder / "password").write_text(f"{PASSWORD}\n")
        return folder

    def connect(self, database: str = DATABASE, **more: Any) -> psycopg.Connection[Any]:
        """A connection that commits by itself."""
        login: dict[str, Any] = {"user": USERNAME, "password": PASSWORD, **more}
        return psycopg.connect(
            host=self.host, port=self.port, dbname=database, autocommit=True, **login
        )

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """What the last of these statements returns."""
        with self.connect() as connection:
            for text in statements:
                cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def make(self) -> Postgres:
        """Make the files of a new server."""
        os.chmod(self.folder, 0o755)
        data = self.folder / "data"
        data.mkdir()
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        for path in (data, secret):
            if self._user is not None:
                shutil.chown(path, self._user)
        self._run(
            "initdb", f"--pgdata={data}", f"--username={USERNAME}", f"--pwfile={secret}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync",
        )  # fmt: skip
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")  # by itself it knows loopback alone
        return self

    def secure(self, certificate: Path, key: Path) -> None:
        """Speak TLS with this certificate, from the next start on."""
        for name, path in (("ssl_cert_file", certificate), ("ssl_key_file", key)):
            own = self.folder / path.name
            shutil.copyfile(path, own)
            own.chmod(0o600)
            if self._user is not None:
                shutil.chown(own, self._user)
            self.settings[name] = str(own)
        self.settings["ssl"] = "on"

    def start(self) -> Postgres:
        """Start, and return when it takes connections."""
        fixed = {
            "port": str(self.port),
            "listen_addresses": self.host,
            "unix_socket_directories": "",
        }
        settings = {**fixed, **self.settings}
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(self._programs / "postgres"),
                    f"-D{self.folder / 'data'}",
                    *(f"-c{name}={value}" for name, value in settings.items()),
                ],
                stdout=log,
                stderr=log,
                **self._as_user(),
            )
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            assert self.process is not None, "started"
            told = (self.folder / "server.log").read_text("utf-8", "replace")[-4000:]
            assert self.process.poll() is None, f"PostgreSQL ended at start:\n{told}"
            try:
                self.connect("postgres").close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, f"PostgreSQL is not ready:\n{told}"
                time.sleep(LOOK_S)

    def start_reader(self, slot: str, publication: str) -> subprocess.Popen[bytes]:
        """Somebody else who reads a slot, by a program that comes with the server."""
        return subprocess.Popen(
            [
                str(self._programs / "pg_recvlogical"), "--start", "--no-loop", f"--slot={slot}",
                f"--dbname={DATABASE}", "--host=127.0.0.1", f"--port={self.port}",
                f"--username={USERNAME}", "--file=/dev/null", "--option=proto_version=1",
                f"--option=publication_names={publication}",
            ],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self) -> None:
        """End it at once, as a crash does; `start` again recovers."""
        assert self.process is not None, "started"
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
        self.process.wait(STOP_S)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            **self._as_user(),
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {"cwd": self.folder}
        found = pwd.getpwnam(self._user)
        return {
            "cwd": self.folder,
            "user": found.pw_uid,
            "group": found.pw_gid,
            "extra_groups": [],
        }


def _user() -> str | None:
    """Who it runs as, where that is not who runs the tests."""
    if os.geteuid() != 0:
        return None
    names = {item.pw_name for item in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _programs() -> Path | None:
    on_path = shutil.which("postgres")
    # `initdb` and the server's libraries are beside the program itself, not beside a link to it.
    found = [Path(on_path).resolve()] if on_path else []
    found += sorted(_LIBRARIES.glob("*/bin/postgres"), key=lambda path: -int(path.parts[-3]))
    return found[0].parent if found else None


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_postgres(*, host: str = "127.0.0.1", **settings: str) -> Iterator[Postgres]:
    """A server with an empty database for the length of a block."""
    programs = _programs()
    if programs is None:
        if os.environ.get("CI") == "true":
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)
    # Not in a test's own folder: that is its user's, and this server's user may not look into it.
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        server = Postgres(programs, Path(name), settings, host=host).make()
        try:
            server.start()
            with server.connect("postgres") as connection:
                connection.execute(f"create database {DATABASE}".encode())
            yield server
        finally:
            if server.process is not None:
                server.kill()
