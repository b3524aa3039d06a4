"""Where the test cluster lives: folders, addresses, ports, versions. Does nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.34.4"
ETCD = "3.6.16"
COREDNS = "1.14.7"
HELM = "3.22.0"

NODE = "iggykube-e2e"  # not the machine's own name, which may change while the state stays
BRIDGE = "iggykube0"
BRIDGE_ADDRESS = "10.244.0.1"  # the node's address too: what pods reach, and nobody outside
POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"  # the first address of the services is the API server's
DOMAIN = "cluster.local"

LOOPBACK = "127.0.0.1"
API_PORT = 6443
ETCD_PORT = 2379
ETCD_PEER_PORT = 2380
KUBELET_PORT = 10250
KUBELET_HEALTH_PORT = 10248
PROXY_METRICS_PORT = 10249
PROXY_HEALTH_PORT = 10256
CONTROLLER_PORT = 10257
SCHEDULER_PORT = 10259
DNS_PORT = 53
DNS_READY_PORT = 10254
API_URL = f"https://{BRIDGE_ADDRESS}:{API_PORT}"

# Everything that must be free before the first start: component, address, port.
PORTS = (
    ("etcd", LOOPBACK, ETCD_PORT),
    ("etcd", LOOPBACK, ETCD_PEER_PORT),
    ("kube-apiserver", BRIDGE_ADDRESS, API_PORT),
    ("kube-controller-manager", LOOPBACK, CONTROLLER_PORT),
    ("kube-scheduler", LOOPBACK, SCHEDULER_PORT),
    ("kubelet", BRIDGE_ADDRESS, KUBELET_PORT),
    ("kubelet", LOOPBACK, KUBELET_HEALTH_PORT),
    ("kube-proxy", LOOPBACK, PROXY_METRICS_PORT),
    ("kube-proxy", LOOPBACK, PROXY_HEALTH_PORT),
    ("coredns", BRIDGE_ADDRESS, DNS_PORT),
    ("coredns", LOOPBACK, DNS_READY_PORT),
)

PAUSE_IMAGE = "localhost/iggykube/e2e-pause:1"
BUSYBOX_IMAGE = "localhost/iggykube/e2e-busybox:1"

# Sockets of containers have short paths by law of the kernel, so this one is not below the cache.
CONTAINERD_STATE = Path("/run/iggykube-e2e")
CONTAINERD_SOCKET = CONTAINERD_STATE / "containerd.sock"
PLUGINS = Path("/usr/lib/cni")

SOURCES = Path(__file__).resolve().parents[2] / "e2e" / "cluster" / "tools"


def cache_folder() -> Path:
    """Tools, images and state of the cluster: in the user's cache, shared by all checkouts."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "iggykube" / "e2e"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one cluster."""

    root: Path

    @property
    def programs(self) -> Path:
        return self.root / "bin"

    @property
    def images(self) -> Path:
        return self.root / "images"

    @property
    def run(self) -> Path:
        """All state of the running cluster; `down` removes it whole."""
        return self.root / "run"

    @property
    def keys(self) -> Path:
        return self.run / "pki"

    @property
    def logs(self) -> Path:
        return self.run / "logs"

    @property
    def settings(self) -> Path:
        return self.run / "settings"

    @property
    def volumes(self) -> Path:
        return self.run / "volumes"

    @property
    def kubeconfig(self) -> Path:
        return self.run / "admin.conf"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    def program(self, name: str, version: str) -> Path:
        return self.programs / f"{name}-{version}" / name

    @property
    def kubectl(self) -> Path:
        return self.program("kubectl", KUBERNETES)

    @property
    def helm(self) -> Path:
        return self.program("helm", HELM)
