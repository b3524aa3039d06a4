"""A real broker in a process group of its own: any ports, logs kept, ended by its id."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from iggy_client.client import Client

USERNAME = "iggy"
PASSWORD = "secret-of-tests"
# Off unless a test asks for them: many brokers run side by side.
TRANSPORTS = ("websocket", "quic", "http")
START_S = 30.0  # how long a broker may take, on a busy machine
STOP_S = 30.0


class BrokerProcess:
    """One broker over `folder`, which outlives it: `start` after `stop` or `kill` is a restart."""

    def __init__(
        self,
        folder: Path,
        *,
        shards: int = 2,
        settings: Mapping[str, str] | None = None,
        monitoring: bool = False,
        transports: Collection[str] = (),
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self.shards = shards
        self.settings = dict(settings or {})
        self.monitoring = monitoring
        self.wrapper: list[str] = []  # a command that runs the broker in its own place
        self.arguments: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.tcp_port = 0
        self.monitoring_port = 0
        self.ports = dict.fromkeys(transports, 0)  # beside TCP, by the name of their settings

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.tcp_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("IGGY_")}
        return ours | {
            "IGGY_SYSTEM_PATH": str(self.data),
            "IGGY_TCP_ADDRESS": f"127.0.0.1:{self.tcp_port}",
            "IGGY_MONITORING_ENABLED": str(self.monitoring).lower(),  # starts faster without
            "IGGY_MONITORING_ADDRESS": f"127.0.0.1:{self.monitoring_port}",
            "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": str(self.shards),
            "IGGY_ROOT_USERNAME": USERNAME,
            "IGGY_ROOT_PASSWORD": PASSWORD,
            **{
                f"IGGY_{name.upper()}_ENABLED": str(name in self.ports).lower()
                for name in TRANSPORTS
            },
            **{
                f"IGGY_{name.upper()}_ADDRESS": f"127.0.0.1:{port}"
                for name, port in self.ports.items()
            },
            **self.settings,
        }

    def start(self) -> BrokerProcess:
        """Start, and return when every shard is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        runtime = self.data / "runtime" / "current_config.toml"
        runtime.unlink(missing_ok=True)  # of an earlier life that was killed
        self.launch()
        deadline = time.monotonic() + START_S
        while not runtime.exists():
            assert self.is_running, f"the broker ended at start:\n{self.text()}"
            assert time.monotonic() < deadline, f"the broker is not ready:\n{self.text()}"
            time.sleep(0.005)
        bound = tomllib.loads(runtime.read_text())
        self.tcp_port = int(bound["tcp"]["address"].rpartition(":")[2])
        self.monitoring_port = int(bound["monitoring"]["address"].rpartition(":")[2])
        for name in self.ports:
            self.ports[name] = int(bound[name]["address"].rpartition(":")[2])
        return self

    def launch(self) -> subprocess.Popen[bytes]:
        """Start, and return at once."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, sys.executable, "-m", "iggy_broker", *self.arguments],
                env=self.environment(),
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        assert self.process is not None, "started"
        if self.is_running:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        finally:
            self.end()

    def kill(self) -> None:
        """SIGKILL the whole process group, as a machine that runs out of memory might."""
        assert self.process is not None, "started"
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_S)

    def shard_pids(self) -> list[int]:
        """Processes of the shards."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(child) for child in children.split()]

    def text(self) -> str:
        """All that it wrote to standard output and error."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def records(self) -> list[dict[str, object]]:
        """Its log lines."""
        lines = self.text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def client(self, timeout_s: float = 20.0) -> Client:
        """Our own client, logged in as root."""
        return Client.connect(self.address, USERNAME, PASSWORD, timeout_s=timeout_s)

    def end(self) -> None:
        """Kill it if it still runs."""
        if self.is_running:
            self.kill()


@contextmanager
def running_broker(
    folder: Path,
    *,
    shards: int = 2,
    settings: Mapping[str, str] | None = None,
    monitoring: bool = False,
    transports: Collection[str] = (),
) -> Iterator[BrokerProcess]:
    """A broker for the length of a block, which must then stop with exit code 0."""
    broker = BrokerProcess(
        folder, shards=shards, settings=settings, monitoring=monitoring, transports=transports
    ).start()
    try:
        yield broker
        if broker.is_running:
            assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def wait_for_exit(process: subprocess.Popen[bytes], timeout_s: float = STOP_S) -> int:
    """The exit code of a process that ends by itself."""
    return process.wait(timeout_s)


def readable(descriptor: int, timeout_s: float) -> bool:
    """Whether something (or the end) can be read within the time."""
    return bool(select.select([descriptor], [], [], timeout_s)[0])
