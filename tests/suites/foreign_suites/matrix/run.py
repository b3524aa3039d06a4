"""Runs one cell: a program of a client against a broker, and what our client finds of it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from foreign_suites.matrix.check import problems
from foreign_suites.matrix.job import Job, Lack, Seen, Transport, seen
from foreign_suites.matrix.programs import Command
from iggy_client import Client, Tls

CELL_S_MAX = 120.0
_REASON_CHARACTERS_MAX = 300
_TLS = {f"IGGY_{name}_TLS_ENABLED": "true" for name in ("TCP", "WEBSOCKET", "HTTP")}


@contextmanager
def broker(folder: Path, *, is_tls: bool) -> Iterator[BrokerProcess]:
    """With every transport on; with TLS on all of them, or only where there is no other way."""
    settings, transports = _TLS if is_tls else {}, ("websocket", "quic", "http")
    with running_broker(folder, settings=settings, transports=transports) as running:
        yield running


def round_trip(
    command: Command, to: BrokerProcess, transport: Transport, log: Path
) -> tuple[str, frozenset[Lack]]:
    """What went wrong, or nothing; and what the client has no call for."""
    job = _job(to, transport)
    with _admin(to) as admin:
        with log.open("wb") as errors, _started(command, job, errors) as process:
            limit = threading.Timer(CELL_S_MAX, os.killpg, (process.pid, signal.SIGKILL))
            limit.start()
            try:
                said, problem = _judged(process, admin, job)
            finally:
                limit.cancel()
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        problem = problem or _ending(process.returncode, log)
        lacks = said.lacks if said else frozenset()
        if admin.get_stream(job.stream) is not None:
            admin.delete_stream(job.stream)
            if Lack.DELETE not in lacks:
                problem = problem or "the stream is there after it was deleted"
    return problem or ("" if said else "it said nothing"), lacks


def _started(command: Command, job: Job, errors: IO[bytes]) -> subprocess.Popen[str]:
    others = {name: text for name, text in os.environ.items() if not name.startswith("IGGY_")}
    return subprocess.Popen(
        command.words,
        env=others | dict(command.environment) | job.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )


def _judged(process: subprocess.Popen[str], admin: Client, job: Job) -> tuple[Seen | None, str]:
    assert process.stdin is not None, "a pipe"
    assert process.stdout is not None, "a pipe"
    line = next((line for line in process.stdout if line.startswith("{")), None)
    if line is None:
        process.wait()
        return None, ""  # how it ended says why
    said = seen(line)
    problem = "; ".join(problems(admin, job, said))
    with suppress(BrokenPipeError):  # it ended without waiting
        process.stdin.write("delete\n")
        process.stdin.close()
    process.wait()
    return said, problem


def _ending(code: int, log: Path) -> str:
    if code == 0:
        return ""
    if code == -signal.SIGKILL:
        return f"no end in {CELL_S_MAX:.0f} s"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith("at ")]
    return (told[-1] if told else f"exit code {code}")[:_REASON_CHARACTERS_MAX]


def _job(to: BrokerProcess, transport: Transport) -> Job:
    name = transport.listener
    port = to.tcp_port if name == "tcp" else to.ports[name]
    return Job(
        transport,
        f"{'localhost' if transport.is_tls else '127.0.0.1'}:{port}",
        USERNAME,
        PASSWORD,
        str(_certificate(to)),
        f"matrix-{transport.replace('+', '-')}",
    )


def _certificate(to: BrokerProcess) -> Path:
    return to.data / "tls" / "self_signed_cert.pem"


def _admin(to: BrokerProcess) -> Client:
    is_tls = bool(to.settings)
    tls = Tls(_certificate(to).read_text()) if is_tls else None
    return Client.connect(to.address, USERNAME, PASSWORD, tls=tls)
