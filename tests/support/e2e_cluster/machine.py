"""What a machine must have to carry the cluster; each lack comes with what helps."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from . import places, probes
from .images import BUSYBOX
from .trouble import ClusterError

INSTALL = "run: .ci/machine --e2e --install"
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mount": "mount",
    "openssl": "openssl",
    "nice": "coreutils",
}
CONTROLLERS = ("cpu", "memory", "pids")
CGROUPS = Path("/sys/fs/cgroup")


def check(running: Callable[[str], bool]) -> None:
    """ClusterError with all that is missing; `running(component)` tells which ports are ours."""
    lacks = [*_system(), *_programs(), *_kernel(), *taken_ports(running)]
    if lacks:
        raise ClusterError("this machine cannot carry the cluster:\n  " + "\n  ".join(lacks))


def _system() -> Iterator[str]:
    if platform.system() != "Linux":
        yield f"{platform.system()} has no containers; use another cluster: E2E_BACKEND=current"
    elif os.geteuid() != 0:
        yield (
            "the cluster needs root (bridge, mounts, containers); run make as root, "
            "or use a cluster that exists: E2E_BACKEND=current or kind"
        )


def _programs() -> Iterator[str]:
    for program, package in PACKAGES.items():
        if shutil.which(program) is None:
            yield f"{program} is missing (Debian's package {package}); {INSTALL}"
    for path, package in (
        (places.PLUGINS / "bridge", "containernetworking-plugins"),
        (BUSYBOX, "busybox-static"),
    ):
        if not path.exists():
            yield f"{path} is missing (Debian's package {package}); {INSTALL}"


def _kernel() -> Iterator[str]:
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        yield "the kernel has no overlayfs; load it: modprobe overlay"
    missing = [name for name in CONTROLLERS if name not in controllers(CGROUPS)]
    if missing:
        yield (
            f"no cgroup controller for {', '.join(missing)} below {CGROUPS}; mount cgroups there "
            "(mount -t cgroup2 none /sys/fs/cgroup) and see that this machine may use them"
        )


def controllers(cgroups: Path) -> set[str]:
    """The limits that the kernel offers here, in the unified hierarchy or in the older ones."""
    unified = cgroups / "cgroup.controllers"
    if unified.exists():
        return set(unified.read_text().split())
    return {path.name for path in cgroups.iterdir()} if cgroups.is_dir() else set()


def taken_ports(running: Callable[[str], bool]) -> Iterator[str]:
    for component, address, port in places.PORTS:
        if not running(component) and probes.port_taken(address, port):
            yield (
                f"port {port} of {address}, which {component} needs, is taken; see who has it: "
                f"ss -ltnp 'sport = :{port}'"
            )
