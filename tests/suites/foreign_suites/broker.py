"""A fresh broker on the ports that are written into the suites."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from broker_process import BrokerProcess
from foreign_suites.results import Outcome, Result

TCP_PORT = 8090
OTHER_PORTS = {"http": 3000, "quic": 8080, "websocket": 8092}
USERNAME = PASSWORD = "iggy"  # written into the suites, like the port
_WATCH_S = 0.5


class PortTaken(Exception):
    """Another broker listens where ours must."""


@contextmanager
def default_broker(run: Path) -> Iterator[BrokerProcess]:
    """A broker with an empty data directory, for the length of a block.

    Its log stays in `run`, its data does not. PortTaken: something listens on the port already.
    AssertionError: it did not start. A broker that ends by itself is for the caller to notice.
    """
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", TCP_PORT)) == 0:
            raise PortTaken(f"something listens on port {TCP_PORT}: stop it and try again")
    broker = BrokerProcess(run, settings={"IGGY_ROOT_PASSWORD": PASSWORD}, transports=OTHER_PORTS)
    broker.tcp_port = TCP_PORT
    broker.ports.update(OTHER_PORTS)
    broker.start()
    try:
        yield broker
        broker.stop()
    finally:
        broker.end()
        shutil.rmtree(broker.data, ignore_errors=True)


def health(broker: BrokerProcess) -> list[Result]:
    """A failed result if the broker ended by itself, or not with exit code 0 when told to."""
    assert broker.process is not None, "started"
    code = broker.process.returncode
    if code == 0:
        return []
    return [Result("the broker", Outcome.FAILED, f"it ended with {code}: {broker.log}")]


def run_beside(
    broker: BrokerProcess,
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    output: Path,
    limit_s: float,
) -> str:
    """Run a suite's process for as long as the broker lives, within the limit; how it ended."""
    with output.open("ab") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        return _wait(process, broker, limit_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(process: subprocess.Popen[bytes], broker: BrokerProcess, limit_s: float) -> str:
    deadline = time.monotonic() + limit_s
    while broker.is_running:
        try:
            return f"its process ended with {process.wait(_WATCH_S)}"
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                return f"it ran for {limit_s:.0f} s"
    return f"the broker ended: {broker.log}"
