"""kubectl for tests: answers as documents, refusals as text, waits that end by themselves."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e_cluster.api import Api

Document = dict[str, Any]

CALL_S = 60.0
WAIT_S = 120.0
_LISTENING = re.compile(r"127\.0\.0\.1:(\d+)")


class Refused(AssertionError):
    """A command that should have worked did not; the text is what kubectl said."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One cluster, and the namespace that its commands are about."""

    program: str
    kubeconfig: Path
    namespace: str = "default"

    def at(self, namespace: str) -> Kubectl:
        return replace(self, namespace=namespace)

    def __call__(self, *words: str, stdin: str | None = None, within_s: float = CALL_S) -> str:
        """Its standard output; fails the test with what it said if it fails."""
        done = self._run(words, stdin, within_s)
        if done.returncode:
            raise Refused(
                f"kubectl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done.stdout

    def refusal(self, *words: str, stdin: str | None = None) -> str:
        """What a command that must fail says; fails the test if it works."""
        done = self._run(words, stdin, CALL_S)
        assert done.returncode, f"kubectl {' '.join(words)} worked: {done.stdout}"
        return done.stderr

    def get(self, *what: str) -> Document:
        """One object or a list of them: `get("pod", "a")`, `get("pods", "-l", "b=c")`."""
        document: Document = json.loads(self("get", *what, "--output=json"))
        return document

    def items(self, *what: str) -> list[Document]:
        found: list[Document] = self.get(*what)["items"]
        return found

    def exists(self, *what: str) -> bool:
        return bool(self("get", *what, "--ignore-not-found", "--output=name").strip())

    def apply(self, *documents: Document | str | Path) -> None:
        """Server-side, as one call; a text or file may hold several documents."""
        self("apply", "--server-side", "--filename=-", stdin=as_yaml(documents))

    def apply_refusal(self, *documents: Document | str | Path) -> str:
        words = ("apply", "--server-side", "--filename=-")
        return self.refusal(*words, stdin=as_yaml(documents))

    def delete(self, *what: str, within_s: float = WAIT_S) -> None:
        """Delete, and return when it is gone."""
        timeout = f"--timeout={within_s:.0f}s"
        self("delete", "--ignore-not-found", timeout, *what, within_s=within_s + CALL_S)

    def wait(self, what: str, condition: str, within_s: float = WAIT_S) -> None:
        """Until `condition` holds: `condition=Ready`, `delete`, `create`, `jsonpath={.a}=b`.

        For what does not exist yet, it first waits for that.
        """
        words = ["wait", what, f"--timeout={within_s:.0f}s"]
        if condition not in ("delete", "create"):
            self(*words, "--for=create", within_s=within_s + CALL_S)
        self(*words, f"--for={condition}", within_s=within_s + CALL_S)

    def logs(self, pod: str, *words: str) -> str:
        return self("logs", pod, *words)

    def execute(self, pod: str, *command: str, container: str = "") -> str:
        """Standard output of a command in a pod."""
        chosen = [f"--container={container}"] if container else []
        return self("exec", pod, *chosen, "--", *command)

    @contextmanager
    def forwarded(self, target: str, port: int) -> Iterator[int]:
        """A port of this machine's loopback that leads to `port` of a pod or service."""
        command = [*self._command(), "port-forward", target, f":{port}", "--address=127.0.0.1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                first = process.stdout.readline()
                found = _LISTENING.search(first)
                assert found, f"kubectl port-forward {target}: {first or 'it ended'}"
                yield int(found[1])
            finally:
                process.terminate()

    @contextmanager
    def streamed(self, *words: str) -> Iterator[Iterator[str]]:
        """The lines of a command that goes on by itself, such as `get --watch`."""
        command = [*self._command(), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process.stdout
            finally:
                process.terminate()

    @contextmanager
    def proxied(self) -> Iterator[int]:
        """A port of loopback where the API server answers in plain HTTP, with our rights."""
        with self.streamed("proxy", "--port=0", "--address=127.0.0.1") as lines:
            first = next(lines, "")
            found = _LISTENING.search(first)
            assert found, f"kubectl proxy: {first or 'it ended'}"
            yield int(found[1])

    @contextmanager
    def api(self) -> Iterator[Api]:
        """The API server as JSON over HTTP, with this kubeconfig's rights: for watches, patches."""
        with self.proxied() as port:
            yield Api(f"http://127.0.0.1:{port}")

    def _command(self) -> list[str]:
        return [
            self.program,
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
        ]

    def _run(
        self, words: Sequence[str], stdin: str | None, within_s: float
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command(), *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )


def as_yaml(documents: Sequence[Document | str | Path]) -> str:
    texts = [
        one.read_text()
        if isinstance(one, Path)
        else one
        if isinstance(one, str)
        else yaml.safe_dump(one, sort_keys=False)
        for one in documents
    ]
    return "\n---\n".join(texts)
