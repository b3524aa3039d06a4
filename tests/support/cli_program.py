"""The command line as a process, towards a broker process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_client.client import Client
from iggy_wire.permissions import Permissions, StreamPermissions, TopicPermissions

PROGRAM = [sys.executable, "-m", "iggykube"]
PROGRAM_S = 60.0
STREAMS = count()


def clean_environment(**more: str) -> dict[str, str]:
    """Ours without settings and logins, and with these."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("IGGY")}
    return ours | more


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
        self.username = USERNAME
        with broker.client() as client:
            client.create_stream(stream)
            client.create_topic(stream, "orders", partitions)

    def command(self, name: str, *arguments: str | Path) -> list[str]:
        """For Popen."""
        place = ["--servers", self.broker.address, self.stream, "orders"]
        return [*PROGRAM, name, *place, *map(str, arguments)]

    @property
    def environment(self) -> dict[str, str]:
        return clean_environment(IGGY_USERNAME=self.username, IGGY_PASSWORD=PASSWORD)

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

    def log_in_with(self, **rights: bool) -> None:
        """From now on as a user who may do just this with the topic."""
        with self.client() as client:
            stream, topic = client.get_stream(self.stream), client.get_topic(self.stream, "orders")
            assert stream is not None
            assert topic is not None
            on_topic = TopicPermissions(topic.topic.id, **rights)
            on_stream = StreamPermissions(stream.stream.id, topics=(on_topic,))
            name = f"user of {self.stream}"
            client.create_user(name, PASSWORD, permissions=Permissions(streams=(on_stream,)))
        self.username = name

    def client(self) -> Client:
        """For what the command line cannot do."""
        return self.broker.client()


def fresh_topic(broker: BrokerProcess, partitions: int) -> TopicProgram:
    """An empty topic in a stream of its own, so that tests can share a broker."""
    return TopicProgram(broker, f"stream {next(STREAMS)}", partitions)
