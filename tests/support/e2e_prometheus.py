"""A real Prometheus on this machine that reads the pods which ask for it.

Debian's knows no Kubernetes, so a file tells it what discovery would: by the annotations of pods.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e_kubectl import Document, Kubectl
from waiting import wait_until

START_S = 60.0
STOP_S = 30.0
INTERVAL_S = 2
ANNOTATION = "prometheus.io/"


@dataclass(frozen=True, slots=True)
class Series:
    """One value of a query."""

    labels: dict[str, str]
    value: float


class Prometheus:
    """One process over `folder`. It reads the pods of `namespaces`, as `discover` last saw them."""

    def __init__(
        self, folder: Path, namespaces: Sequence[Kubectl], rules: Sequence[Path] = ()
    ) -> None:
        self.log = folder / "prometheus.log"
        self.config = folder / "prometheus.yml"
        self._data = folder / "data"
        self._targets = folder / "targets.json"
        self._namespaces = namespaces
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._targets.write_text("[]")
        self.config.write_text(yaml.safe_dump(config(self._targets, rules)))

    def discover(self) -> None:
        """Look which pods there are now."""
        pods = [pod for namespace in self._namespaces for pod in namespace.items("pods")]
        new = self._targets.with_suffix(".new")
        new.write_text(json.dumps([target for pod in pods for target in target_of(pod)]))
        new.rename(self._targets)

    def start(self) -> Prometheus:
        """Start, and return when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={self.config}",
                    f"--storage.tsdb.path={self._data}",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._is_ready, self._last_words, within_s=START_S)
        return self

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(STOP_S)

    def query(self, expression: str) -> list[Series]:
        """What an expression is now."""
        found = self._ask("query?" + urllib.parse.urlencode({"query": expression}))
        assert found["resultType"] == "vector", f"{expression} is a {found['resultType']}"
        return [Series(one["metric"], float(one["value"][1])) for one in found["result"]]

    def value(self, expression: str) -> float | None:
        """The one value of an expression; None if there is none."""
        series = self.query(expression)
        assert len(series) <= 1, f"{expression} has {len(series)} values: {series}"
        return series[0].value if series else None

    def names(self) -> set[str]:
        """Of all metrics that were ever read."""
        return set(self._ask("label/__name__/values"))

    def targets(self) -> list[dict[str, Any]]:
        """What it reads, with `labels`, `health` and `lastError`."""
        found: list[dict[str, Any]] = self._ask("targets?state=active")["activeTargets"]
        return found

    def alerts(self) -> dict[str, str]:
        """Health of each alert that is loaded: `ok` once it was computed, or what is wrong."""
        groups = self._ask("rules?type=alert")["groups"]
        return {
            rule["name"]: rule.get("lastError") or rule["health"]
            for group in groups
            for rule in group["rules"]
        }

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api/v1/{path}") as answer:
            return json.load(answer)["data"]

    def _is_ready(self) -> bool:
        assert self._process is not None, "started"
        assert self._process.poll() is None, self._last_words()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready") as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    def _last_words(self) -> str:
        return f"Prometheus is ready; it said:\n{self.log.read_text('utf-8', 'replace')[-2000:]}"


def config(targets: Path, rules: Sequence[Path] = ()) -> dict[str, Any]:
    """What Prometheus is to do."""
    found = {"files": [str(targets)], "refresh_interval": f"{INTERVAL_S}s"}
    times = {"scrape_interval": f"{INTERVAL_S}s", "evaluation_interval": f"{INTERVAL_S}s"}
    return {
        "global": times,
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": "pods", "file_sd_configs": [found]}],
    }


def target_of(pod: Document) -> list[dict[str, Any]]:
    """What the usual rules of discovery make of a pod: nothing if it does not ask to be read."""
    metadata = pod["metadata"]
    asks = {
        name.removeprefix(ANNOTATION): text
        for name, text in metadata.get("annotations", {}).items()
        if name.startswith(ANNOTATION)
    }
    address = pod.get("status", {}).get("podIP")
    if asks.get("scrape") != "true" or not address:
        return []
    labels = {
        "__metrics_path__": asks["path"],
        "namespace": metadata["namespace"],
        "pod": metadata["name"],
    }
    return [{"targets": [f"{address}:{asks['port']}"], "labels": labels}]


def program(name: str) -> str:
    """`prometheus` or `promtool`."""
    found = shutil.which(name)
    assert found, f"{name} is not on PATH; run: .ci/machine --e2e --install"
    return found


def complaints(*words: str | Path) -> str:
    """What promtool says against a file, `complaints("check", "rules", …)`; nothing if sound."""
    done = subprocess.run(
        [program("promtool"), *map(str, words)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


@contextmanager
def running_prometheus(prometheus: Prometheus) -> Iterator[Prometheus]:
    """For the length of a block."""
    try:
        yield prometheus.start()
    finally:
        prometheus.stop()


def _free_port() -> int:
    with socket.socket() as item:
        item.bind(("127.0.0.1", 0))
        return int(item.getsockname()[1])
