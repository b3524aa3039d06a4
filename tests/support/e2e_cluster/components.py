"""What the cluster consists of: commands in order of their start, and when each is ready."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import places, probes
from .certificates import AUTHORITY, SERVICE_ACCOUNTS
from .places import LOOPBACK, Places

AUDIT_LOG_MB = 200
AUDIT_LOGS_KEPT = 2
PACKAGES = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Component:
    """One program of the cluster."""

    name: str
    command: tuple[str, ...]
    ready: Callable[[], bool]
    settings: tuple[Path, ...] = ()  # a change of one of these files restarts it
    environment: dict[str, str] = field(default_factory=dict)


def components(where: Places) -> list[Component]:
    """All of them, each after those that it needs."""
    return [
        _etcd(where),
        _api_server(where),
        _containerd(where),
        _controllers(where),
        _scheduler(where),
        _kubelet(where),
        _proxy(where),
        _coredns(where),
        _provisioner(where),
    ]


def _kubernetes(where: Places, name: str) -> str:
    return str(where.program(name, places.KUBERNETES))


def _etcd(where: Places) -> Component:
    clients = f"http://{LOOPBACK}:{places.ETCD_PORT}"
    peers = f"http://{LOOPBACK}:{places.ETCD_PEER_PORT}"
    return Component(
        "etcd",
        (
            str(where.program("etcd", places.ETCD)),
            f"--data-dir={where.run / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            # A test cluster may lose its state when the machine loses its power.
            "--unsafe-no-fsync",
        ),
        lambda: probes.http_ok(f"{clients}/health"),
    )


def _api_server(where: Places) -> Component:
    keys, policy = where.keys, where.settings / "audit.json"
    return Component(
        "kube-apiserver",
        (
            _kubernetes(where, "kube-apiserver"),
            f"--etcd-servers=http://{LOOPBACK}:{places.ETCD_PORT}",
            f"--bind-address={places.BRIDGE_ADDRESS}",
            f"--advertise-address={places.BRIDGE_ADDRESS}",
            f"--secure-port={places.API_PORT}",
            f"--service-cluster-ip-range={places.SERVICE_NETWORK}",
            f"--client-ca-file={keys / AUTHORITY}.crt",
            f"--tls-cert-file={keys / 'apiserver.crt'}",
            f"--tls-private-key-file={keys / 'apiserver.key'}",
            f"--service-account-key-file={keys / SERVICE_ACCOUNTS}.pub",
            f"--service-account-signing-key-file={keys / SERVICE_ACCOUNTS}.key",
            f"--service-account-issuer=https://kubernetes.default.svc.{places.DOMAIN}",
            f"--kubelet-client-certificate={keys / 'apiserver-to-kubelet.crt'}",
            f"--kubelet-client-key={keys / 'apiserver-to-kubelet.key'}",
            f"--kubelet-certificate-authority={keys / AUTHORITY}.crt",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            "--profiling=false",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={where.audit_log}",
            f"--audit-log-maxsize={AUDIT_LOG_MB}",
            f"--audit-log-maxbackup={AUDIT_LOGS_KEPT}",
        ),
        lambda: probes.https_ok(f"{places.API_URL}/readyz"),
        settings=(policy, keys / "apiserver.crt"),
    )


def _containerd(where: Places) -> Component:
    settings = where.settings / "containerd.toml"
    return Component(
        "containerd",
        ("containerd", f"--config={settings}"),
        lambda: probes.socket_open(places.CONTAINERD_SOCKET),
        settings=(settings, where.settings / "cni" / "10-bridge.conflist"),
    )


def _controllers(where: Places) -> Component:
    keys, kubeconfig = where.keys, where.settings / "controllers.conf"
    return Component(
        "kube-controller-manager",
        (
            _kubernetes(where, "kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={places.CONTROLLER_PORT}",
            f"--root-ca-file={keys / AUTHORITY}.crt",
            f"--cluster-signing-cert-file={keys / AUTHORITY}.crt",
            f"--cluster-signing-key-file={keys / AUTHORITY}.key",
            f"--service-account-private-key-file={keys / SERVICE_ACCOUNTS}.key",
            "--use-service-account-credentials",
            "--allocate-node-cidrs=false",  # the bridge has one network, and one node
            "--leader-elect=false",
            "--profiling=false",
        ),
        lambda: probes.https_ok(f"https://{LOOPBACK}:{places.CONTROLLER_PORT}/healthz"),
        settings=(kubeconfig,),
    )


def _scheduler(where: Places) -> Component:
    kubeconfig = where.settings / "scheduler.conf"
    return Component(
        "kube-scheduler",
        (
            _kubernetes(where, "kube-scheduler"),
            f"--kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={places.SCHEDULER_PORT}",
            "--leader-elect=false",
            "--profiling=false",
        ),
        lambda: probes.https_ok(f"https://{LOOPBACK}:{places.SCHEDULER_PORT}/healthz"),
        settings=(kubeconfig,),
    )


def _kubelet(where: Places) -> Component:
    settings, kubeconfig = where.settings / "kubelet.json", where.settings / "kubelet.conf"
    return Component(
        "kubelet",
        (
            _kubernetes(where, "kubelet"),
            f"--config={settings}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={where.run / 'kubelet'}",
            f"--cert-dir={where.keys}",
            f"--node-ip={places.BRIDGE_ADDRESS}",
            f"--hostname-override={places.NODE}",
        ),
        lambda: probes.http_ok(f"http://{LOOPBACK}:{places.KUBELET_HEALTH_PORT}/healthz"),
        settings=(settings, kubeconfig, where.keys / "kubelet.crt"),
    )


def _proxy(where: Places) -> Component:
    kubeconfig = where.settings / "proxy.conf"
    # Without the bridge's filter, an answer on the same bridge would not be translated back.
    translated = [] if Path("/proc/sys/net/bridge").exists() else ["--masquerade-all"]
    return Component(
        "kube-proxy",
        (
            _kubernetes(where, "kube-proxy"),
            f"--kubeconfig={kubeconfig}",
            f"--cluster-cidr={places.POD_NETWORK}",
            f"--hostname-override={places.NODE}",
            "--proxy-mode=iptables",
            "--nodeport-addresses=primary",
            "--iptables-localhost-nodeports=false",  # would change a setting of the kernel
            f"--healthz-bind-address={LOOPBACK}:{places.PROXY_HEALTH_PORT}",
            f"--metrics-bind-address={LOOPBACK}:{places.PROXY_METRICS_PORT}",
            "--conntrack-max-per-core=0",
            "--oom-score-adj=0",
            *translated,
        ),
        lambda: probes.http_ok(f"http://{LOOPBACK}:{places.PROXY_HEALTH_PORT}/healthz"),
        settings=(kubeconfig,),
    )


def _coredns(where: Places) -> Component:
    settings, kubeconfig = where.settings / "Corefile", where.settings / "coredns.conf"
    return Component(
        "coredns",
        (str(where.program("coredns", places.COREDNS)), "-conf", str(settings)),
        lambda: probes.http_ok(f"http://{LOOPBACK}:{places.DNS_READY_PORT}/ready"),
        settings=(settings, kubeconfig),
    )


def _provisioner(where: Places) -> Component:
    kubeconfig = where.settings / "provisioner.conf"
    code = tuple(
        Path(__file__).with_name(f"{name}.py") for name in ("provisioner", "volumes", "api")
    )
    ready = where.run / "provisioner.ready"
    return Component(
        "provisioner",
        (
            sys.executable, "-m", "e2e_cluster.provisioner",
            "--kubeconfig", str(kubeconfig), "--volumes", str(where.volumes), "--ready", str(ready),
        ),
        ready.exists,
        settings=(kubeconfig, *code),
        environment={"PYTHONPATH": str(PACKAGES)},
    )  # fmt: skip
