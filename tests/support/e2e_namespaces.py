"""Namespaces of one test or module: fresh, waited away at the end, kept as files on failure."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import e2e_findings
from e2e_kubectl import Document, Kubectl

FINDINGS = Path(__file__).parents[2] / "build" / "e2e"
_NUMBERS = itertools.count(1)
_NAME = re.compile(r"e2e-(?P<module>[a-z0-9-]+)-\d+-[0-9a-f]+")


class Namespaces:
    """Makes namespaces for `title`, the name of a test of `module`, or of the module itself."""

    def __init__(self, cluster: Kubectl, title: str, module: str) -> None:
        self._cluster = cluster
        self._title = title
        self._module = module
        self._made: list[Kubectl] = []
        self._is_written = False
        shutil.rmtree(self.findings, ignore_errors=True)  # those of an earlier run

    def __call__(self, *, restricted: bool = False, characters: int = 0) -> Kubectl:
        """One more; `restricted` lets only pods of that profile in; a name of fewer `characters`
        is filled up.
        """
        name = _name(self._module).ljust(characters, "0")
        level = "restricted" if restricted else "privileged"
        labels = {"pod-security.kubernetes.io/enforce": level, "iggykube.dev/e2e": "test"}
        self._cluster.apply(_namespace(name, labels))
        self._made.append(self._cluster.at(name))
        self._cluster.at(name).wait("serviceaccount/default", "create")
        return self._made[-1]

    @property
    def findings(self) -> Path:
        """The folder below build/e2e for what a person needs to see why it failed."""
        return FINDINGS / re.sub(r"[^\w.-]+", "-", self._title)

    def write(self) -> None:
        """What is in the namespaces, as files. Once: whoever cleans up first asks for it."""
        if self._is_written:
            return
        self._is_written = True
        for kubectl in self._made:
            e2e_findings.write(kubectl, self.findings / kubectl.namespace)

    def remove(self) -> None:
        """Delete all of them, and return when they are gone."""
        for kubectl in self._made:
            name = kubectl.namespace
            self._cluster("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        for kubectl in self._made:
            self._cluster.wait(f"namespace/{kubectl.namespace}", "delete")


@contextmanager
def fresh(cluster: Kubectl, title: str, module: str) -> Iterator[Namespaces]:
    """For the length of a block."""
    namespaces = Namespaces(cluster, title, module)
    try:
        yield namespaces
    finally:
        namespaces.remove()


def module_of(namespace: str) -> str:
    """For which test module a namespace of these was made; "" for any other."""
    found = _NAME.fullmatch(namespace)
    return f"test_{found['module'].replace('-', '_')}" if found else ""


def _name(module: str) -> str:
    """Never used before, and tells the module; what objects are named after it has room."""
    words = module.removeprefix("test_").replace("_", "-")
    return f"e2e-{words}-{next(_NUMBERS)}-{e2e_findings.PART}"


def _namespace(name: str, labels: dict[str, str]) -> Document:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
