"""The operator as a real process on this machine, with a kubeconfig: started, killed, asked."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waiting import wait_until

START_S = 120.0  # on a machine that is busy with images and drivers
STOP_S = 40.0
_PORT = re.compile(r"metrics on port (\d+)")


class OperatorProcess:
    """One replica. `settings` without the prefix of their variables."""

    def __init__(
        self, folder: Path, kubeconfig: Path, settings: Mapping[str, str], *, name: str = "one"
    ) -> None:
        self.log = folder / f"operator-{name}.log"
        self.name = name
        self.settings = {"POD_NAME": name, "HTTP_PORT": "0", "LEASE_SECONDS": "3", **settings}
        self.kubeconfig = kubeconfig
        self.process: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    def start(self) -> OperatorProcess:
        """Without waiting for anything."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("IGGY_OPERATOR_", "KUBERNETES_"))
        }
        environment |= {f"IGGY_OPERATOR_{name}": value for name, value in self.settings.items()}
        environment["KUBECONFIG"] = str(self.kubeconfig)
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "iggy_operator"], env=environment, stderr=log, stdout=log
            )
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None, "started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def lines(self) -> list[dict[str, Any]]:
        """The log of this start: every line is one JSON object."""
        with self.log.open("rb") as log:
            log.seek(self._log_from)
            return [json.loads(line) for line in log.read().splitlines()]

    def said(self, text: str) -> bool:
        return any(text in line["message"] for line in self.lines())

    @property
    def port(self) -> int:
        wait_until(lambda: self._port() or not self.is_running, "the port of the operator", START_S)
        return self._port()

    def _port(self) -> int:
        for line in self.lines():
            if found := _PORT.search(line["message"]):
                return int(found[1])
        return 0

    def asked(self, path: str) -> tuple[int, str]:
        """Status and text of a probe or of the metrics."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:  # a machine that is busy with other tests
            return 0, str(error)

    def wait_ready(self) -> OperatorProcess:
        """A leader that has read all, or a standby."""
        wait_until(
            lambda: self.is_running and self.asked("/readyz")[0] == 200,
            lambda: f"operator {self.name} ready: {self.lines()[-3:]}",
            START_S,
        )
        return self

    def is_leader(self) -> bool:
        return "iggy_operator_leader 1.0" in self.asked("/metrics")[1]

    def kill(self) -> None:
        """As a lost node: no word to anybody."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As Kubernetes does; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
