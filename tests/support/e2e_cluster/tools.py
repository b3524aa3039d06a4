"""The programs of the cluster: built from their released Go modules once, then kept by version."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import places
from .places import Places
from .trouble import OUTPUT_LINES_SHOWN, ClusterError, say

_KUBERNETES_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Build:
    """What one call of Go makes: `package` by name, or what a module of ours names."""

    name: str
    version: str
    programs: tuple[str, ...]
    package: str = ""  # without a module of ours: `go install package@vVERSION`
    target: str = "."  # with one: what of it is installed
    stamps: tuple[tuple[str, str], ...] = ()  # variables that tell the program its version


BUILDS = (
    Build(
        "helm",
        places.HELM,
        ("helm",),
        package="helm.sh/helm/v3/cmd/helm",
        stamps=(("helm.sh/helm/v3/internal/version.version", f"v{places.HELM}"),),
    ),
    Build("pause", "1", ("pause",)),
    Build("etcd", places.ETCD, ("etcd",)),
    Build(
        "kubernetes",
        places.KUBERNETES,
        (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-proxy",
            "kube-scheduler",
            "kubectl",
            "kubelet",
        ),
        target="tool",
        stamps=(
            (f"{_KUBERNETES_VERSION}.gitVersion", f"v{places.KUBERNETES}"),
            (f"{_KUBERNETES_VERSION}.gitMajor", places.KUBERNETES.split(".")[0]),
            (f"{_KUBERNETES_VERSION}.gitMinor", places.KUBERNETES.split(".")[1]),
            (f"{_KUBERNETES_VERSION}.gitTreeState", "clean"),
        ),
    ),
    Build("coredns", places.COREDNS, ("coredns",)),
)
NAMES = tuple(build.name for build in BUILDS)


def missing(where: Places, names: Iterable[str] = NAMES) -> list[Build]:
    """The builds among `names` of which a program is not in the cache."""
    return [
        build
        for build in BUILDS
        if build.name in names
        and not all(where.program(program, build.version).exists() for program in build.programs)
    ]


def ensure(where: Places, names: Iterable[str] = NAMES) -> None:
    """Build what is missing, one after the other, politely."""
    for build in missing(where, names):
        say(f"building {build.name} {build.version}, once (the log: {_log(where, build)})")
        _make(where, build)


def command(build: Build) -> list[str]:
    flags = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in build.stamps)])
    target = f"{build.package}@v{build.version}" if build.package else build.target
    return ["nice", "-n", "10", "go", "install", "-trimpath", "-ldflags", flags, target]


def _log(where: Places, build: Build) -> Path:
    return where.programs / f"{build.name}-{build.version}.log"


def _make(where: Places, build: Build) -> None:
    if shutil.which("go") is None:
        raise ClusterError(
            "Go is not installed, and the cluster's programs are built with it; "
            "install Go 1.26 or newer and put its bin folder on PATH"
        )
    # Into a folder of its own first: a build that was cut short leaves nothing that looks whole.
    unfinished = where.programs / f".unfinished-{build.name}-{build.version}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    log = _log(where, build)
    with log.open("wb") as output:
        done = subprocess.run(
            command(build),
            cwd=unfinished if build.package else places.SOURCES / build.name,
            env=os.environ | {"GOBIN": str(unfinished), "CGO_ENABLED": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    made = {path.name for path in unfinished.iterdir()}
    if done.returncode or not made.issuperset(build.programs):
        said = "\n".join(log.read_text(errors="replace").splitlines()[-OUTPUT_LINES_SHOWN:])
        raise ClusterError(
            f"{build.name} {build.version} could not be built; go needs its module proxy "
            f"(go env GOPROXY) and about 5 GB of disk. The end of {log}:\n{said}"
        )
    for program in build.programs:
        target = where.program(program, build.version)
        target.parent.mkdir(parents=True, exist_ok=True)
        (unfinished / program).replace(target)
    shutil.rmtree(unfinished)
    log.unlink()
