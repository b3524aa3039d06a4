"""Helm for tests: releases in one namespace, with a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from e2e_kubectl import Refused

CALL_S = 180.0


@dataclass(frozen=True, slots=True)
class Helm:
    """One cluster, and the namespace of its releases. `home` keeps Helm's own files."""

    program: str
    kubeconfig: Path
    home: Path
    namespace: str = "default"

    def at(self, namespace: str) -> Helm:
        return replace(self, namespace=namespace)

    def __call__(self, *words: str, stdin: str | None = None, within_s: float = CALL_S) -> str:
        """Its standard output; fails the test with what it said if it fails."""
        done = self._run(words, stdin, within_s)
        if done.returncode:
            raise Refused(f"helm {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def refusal(self, *words: str, stdin: str | None = None) -> str:
        """What a command that must fail says; fails the test if it works."""
        done = self._run(words, stdin, CALL_S)
        assert done.returncode, f"helm {' '.join(words)} worked: {done.stdout}"
        return done.stderr

    def releases(self) -> list[str]:
        listed: list[dict[str, Any]] = json.loads(self("list", "--all", "--output=json"))
        return [release["name"] for release in listed]

    def _run(
        self, words: tuple[str, ...], stdin: str | None, within_s: float
    ) -> subprocess.CompletedProcess[str]:
        folders = {
            f"HELM_{name}_HOME": str(self.home / name) for name in ("CACHE", "CONFIG", "DATA")
        }
        return subprocess.run(
            [
                self.program,
                f"--kubeconfig={self.kubeconfig}",
                f"--namespace={self.namespace}",
                *words,
            ],
            input=stdin,
            env=os.environ | folders,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )
