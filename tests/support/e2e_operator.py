"""An installed operator: its release, the namespace that it watches, and a clean end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from e2e_helm import Helm
from e2e_kubectl import Document, Kubectl, Refused
from e2e_namespaces import Namespaces
from waiting import wait_until

CHART = Path(__file__).parents[2] / "charts" / "iggy-operator"
RELEASE = "iggy-operator"  # and so the name of its Deployment
SELECTOR = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
DEPLOYMENT = f"deployment/{RELEASE}"
READY_S = 180.0
GONE_S = 120.0
KINDS = ("iggytopics", "iggysinks", "iggysources", "iggystreams", "iggyusers", "iggybrokers")
"""In this order: a topic makes a sink or source that is missing anew."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One release. `system` is its own namespace, `work` one that it watches."""

    helm: Helm
    system: Kubectl
    work: Kubectl
    values: Mapping[str, Any]
    """What it is installed with, besides the chart's own."""
    ready_s: float = 0.0
    """Seconds from `helm install` until it was ready."""

    def install(self) -> Operator:
        """`helm install`; itself, with `ready_s`."""
        # The definitions may be there from an earlier release: they stay when a release goes.
        began = time.monotonic()
        self._helm("install", "--take-ownership")
        return replace(self, ready_s=time.monotonic() - began)

    def upgrade(self, values: Mapping[str, Any]) -> None:
        """`helm upgrade` with these values beside its own, until it is ready."""
        self._helm("upgrade", more=values)

    def uninstall(self) -> None:
        self.helm("uninstall", RELEASE, "--wait", "--ignore-not-found")

    def pods(self) -> list[Document]:
        return self.system.items("pods", "--selector", SELECTOR)

    def wait_until_ready(self) -> None:
        """All of its pods are there, and ready."""
        self.system(
            "rollout", "status", DEPLOYMENT, f"--timeout={READY_S:.0f}s", within_s=READY_S + 10
        )

    def clear(self) -> None:
        """Delete everything of ours in `work`, and return when the operator has let go of it."""
        try:
            for kind in KINDS:
                # kubectl's own waiting looks at one object after the other.
                self.work("delete", kind, "--all", "--wait=false", within_s=GONE_S)
                wait_until(partial(self._has_none, kind), f"no {kind} is left", GONE_S)
        except AssertionError:
            self._force()
            raise

    def _has_none(self, kind: str) -> bool:
        return not self.work.items(kind)

    def _force(self) -> None:
        # Else the namespace would stay for ever, and with it everything in it.
        for kind in KINDS:
            for one in self.work.items(kind):
                patch = '{"metadata": {"finalizers": null}}'
                self.work(
                    "patch", kind, one["metadata"]["name"], "--type=merge", f"--patch={patch}"
                )

    def _helm(self, verb: str, *words: str, more: Mapping[str, Any] | None = None) -> None:
        values = yaml.safe_dump({**self.values, **(more or {})})
        self.helm(
            verb, RELEASE, str(CHART), "--values=-", "--wait", f"--timeout={READY_S:.0f}s", *words,
            stdin=values, within_s=READY_S + 30,
        )  # fmt: skip


@contextmanager
def installed(
    helm: Helm,
    namespaces: Namespaces,
    values: Mapping[str, Any] | None = None,
    *,
    characters: int = 0,
) -> Iterator[Operator]:
    """One that watches a namespace of its own and no other: several can be side by side.

    `characters`: how many the name of that namespace has, if that is more than by itself.
    """
    work = namespaces(restricted=True, characters=characters)
    watch = {"all": False, "namespaces": [work.namespace]}
    yield from _installed(helm, namespaces, work, {"watch": watch, **(values or {})})


@contextmanager
def installed_for_all(
    helm: Helm, namespaces: Namespaces, values: Mapping[str, Any] | None = None
) -> Iterator[Operator]:
    """One that watches the whole cluster, as the chart does by itself. There can be only one."""
    yield from _installed(helm, namespaces, namespaces(restricted=True), values or {})


def _installed(
    helm: Helm, namespaces: Namespaces, work: Kubectl, values: Mapping[str, Any]
) -> Iterator[Operator]:
    system = namespaces(restricted=True)
    operator = Operator(helm.at(system.namespace), system, work, values)
    try:
        try:
            operator = operator.install()
        except Refused:
            namespaces.write()
            raise
        yield operator
    finally:
        # Ours first, as long as the operator runs and has its rights: both end with a namespace.
        try:
            operator.clear()
        finally:
            operator.uninstall()
