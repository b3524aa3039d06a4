"""The clusters that tests can run on: our own, one of kind, or whatever the kubeconfig names.

`E2E_BACKEND` chooses. Tests ask a backend for what differs, and are skipped where it has none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from e2e_cluster import images, places, tools
from e2e_cluster.cluster import Cluster
from e2e_cluster.places import Places, cache_folder
from e2e_cluster.trouble import ClusterError, run, succeeds

VARIABLE = "E2E_BACKEND"
IMAGES_VARIABLE = "E2E_IMAGES"
MACHINE_VARIABLE = "E2E_MACHINE_ADDRESS"
KIND_CLUSTER = "iggykube-e2e"
KIND_CREATE_S = 600.0


class Backend(Protocol):
    """One kind of cluster."""

    @property
    def name(self) -> str: ...

    @property
    def kubectl(self) -> str: ...

    @property
    def kubeconfig(self) -> Path: ...

    def load(self, archives: Iterable[Path]) -> None:
        """Give its nodes images from OCI archives."""

    @property
    def audit_log(self) -> Path | None:
        """Where the API server writes who asked for what, if this machine can read it."""

    @property
    def machine_address(self) -> str | None:
        """Where pods find this machine, if they and it reach one another."""


@dataclass(frozen=True, slots=True)
class Own:
    """The cluster of tests/e2e/cluster, which must be up."""

    where: Places
    name: str = "own"

    @property
    def kubectl(self) -> str:
        return str(self.where.kubectl)

    @property
    def kubeconfig(self) -> Path:
        return self.where.kubeconfig

    @property
    def audit_log(self) -> Path | None:
        return self.where.audit_log

    @property
    def machine_address(self) -> str | None:
        return places.BRIDGE_ADDRESS

    def load(self, archives: Iterable[Path]) -> None:
        images.load(archives)


@dataclass(frozen=True, slots=True)
class Kind:
    """A cluster that kind makes in Docker or Podman, when it is not there; it is kept."""

    program: str
    kubectl: str
    kubeconfig: Path
    name: str = "kind"
    audit_log: Path | None = None
    machine_address: str | None = None

    def load(self, archives: Iterable[Path]) -> None:
        for archive in archives:
            command = [
                self.program,
                "load",
                "image-archive",
                str(archive),
                f"--name={KIND_CLUSTER}",
            ]
            run(command, timeout_s=KIND_CREATE_S)


@dataclass(frozen=True, slots=True)
class Current:
    """Whatever the kubeconfig's current context names. Its nodes are out of our reach."""

    kubectl: str
    kubeconfig: Path
    has_images: bool
    machine_address: str | None = None
    name: str = "current"
    audit_log: Path | None = None

    def load(self, archives: Iterable[Path]) -> None:
        if not self.has_images:
            names = sorted(name for archive in archives for name in images.archived(archive))
            raise ImagesOutOfReach(
                f"the nodes of this cluster need {', '.join(names)}; load or push them there "
                f"and say so with {IMAGES_VARIABLE}=present"
            )


class ImagesOutOfReach(Exception):
    """Nobody has said that the nodes have the images: a reason to skip, not a failure."""


def chosen(environment: Mapping[str, str] = os.environ) -> Backend:
    """The backend that the environment names; ClusterError if this machine does not have it."""
    name = environment.get(VARIABLE, "own")
    if name == "own":
        return own()
    if name == "kind":
        return kind()
    if name == "current":
        return current(environment)
    raise ClusterError(f"{VARIABLE}={name} is none of own, kind and current")


def own() -> Own:
    cluster = Cluster(Places(cache_folder()))
    if not cluster.is_up():
        raise ClusterError("the test cluster is not up; run: make cluster-up (as root)")
    return Own(cluster.where)


def kind() -> Kind:
    program = shutil.which("kind")
    if program is None:
        raise ClusterError(
            f"{VARIABLE}=kind needs the program kind on PATH, and Docker or Podman for it; "
            f"without them: {VARIABLE}=own (as root) or {VARIABLE}=current"
        )
    kubeconfig = cache_folder() / "kind.conf"
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    if KIND_CLUSTER not in run([program, "get", "clusters"]).split():
        command = [program, "create", "cluster", f"--name={KIND_CLUSTER}", "--wait=120s"]
        run([*command, f"--kubeconfig={kubeconfig}"], timeout_s=KIND_CREATE_S)
    else:
        command = [program, "export", "kubeconfig", f"--name={KIND_CLUSTER}"]
        run([*command, f"--kubeconfig={kubeconfig}"])
    return Kind(program, _kubectl(), kubeconfig)


def current(environment: Mapping[str, str]) -> Current:
    """A copy of the context, so that no `kubectl config use-context` moves a test elsewhere."""
    kubectl = _kubectl()
    try:
        config = run([kubectl, "config", "view", "--raw", "--flatten", "--minify"])
    except ClusterError as error:
        raise ClusterError(f"{VARIABLE}=current needs a current context: {error}") from None
    kubeconfig = cache_folder() / "current.conf"
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(config)
    if not succeeds([kubectl, f"--kubeconfig={kubeconfig}", "version", "--request-timeout=10s"]):
        raise ClusterError("the cluster of the current context does not answer: kubectl version")
    has_images = environment.get(IMAGES_VARIABLE) == "present"
    return Current(kubectl, kubeconfig, has_images, environment.get(MACHINE_VARIABLE))


def _kubectl() -> str:
    """The person's own, or else the one of the test cluster."""
    built = Places(cache_folder()).kubectl
    found = shutil.which("kubectl") or (str(built) if built.exists() else None)
    if found is None:
        raise ClusterError("kubectl is not on PATH; install it, as its cluster's version or newer")
    return found


def helm() -> str:
    """The Helm that the project names, built if it has to be."""
    where = Places(cache_folder())
    tools.ensure(where, ["helm"])
    return str(where.program("helm", places.HELM))
