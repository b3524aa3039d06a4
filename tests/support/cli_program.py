"""The command line as a process, towards a broker process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client.client import Client

PROGRAM = [sys.executable, "-m", "iggykube"]
PROGRAM_S = 60.0


def clean_environment(**more: str) -> dict[str, str]:
    """Ours without settings and logins, and with these."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("IGGY")}
    return ours | more


def login_of(broker: BrokerProcess) -> dict[str, str]:
    """The environment of whoever works as root."""
    return clean_environment(IGGY_USERNAME=USERNAME, IGGY_PASSWORD=PASSWORD)


def run_program(
    *arguments: str | Path,
    environment: dict[str, str] | None = None,
    stdin: bytes = b"",
    folder: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        env=environment or clean_environment(),
        cwd=folder,
        timeout=PROGRAM_S,
    )


class TopicProgram:
    """`produce` and `consume` on one topic of a broker."""

    def __init__(self, broker: BrokerProcess, stream: str, partitions: int) -> None:
        self.broker = broker
        self.stream = stream
        with broker.client() as client:
            client.create_stream(stream)
            client.create_topic(stream, "orders", partitions)

    def command(self, name: str, *arguments: str | Path) -> list[str]:
        """For Popen."""
        place = ["--servers", self.broker.address, self.stream, "orders"]
        return [*PROGRAM, name, *place, *map(str, arguments)]

    @property
    def environment(self) -> dict[str, str]:
        return login_of(self.broker)

    def run(
        self, name: str, *arguments: str | Path, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one of them to its end."""
        return subprocess.run(
            self.command(name, *arguments),
            input=stdin,
            capture_output=True,
            check=False,
            env=self.environment,
            timeout=PROGRAM_S,
        )

    def produce(self, stdin: bytes, *arguments: str | Path) -> dict[str, Any]:
        """Send, and what the command says."""
        done = self.run("produce", "--output", "json", *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def consume(self, *arguments: str | Path) -> list[dict[str, Any]]:
        """Read, one object a message."""
        done = self.run("consume", "--output", "json", *arguments)
        assert (done.returncode, done.stderr) == (0, b"")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def payloads(self, *arguments: str | Path) -> list[str]:
        """Read payloads."""
        return [line["payload"] for line in self.consume(*arguments)]

    def client(self) -> Client:
        """For what the command line cannot do."""
        return self.broker.client()
