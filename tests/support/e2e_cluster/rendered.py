"""Every configuration file of the cluster, as values. Pure: places in, documents out."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from . import places
from .certificates import AUTHORITY
from .places import Places

Document = dict[str, Any]

PROVISIONER = "iggykube.dev/e2e-host-path"
DEFAULT_CLASS = "host-path"
RETAINING_CLASS = "host-path-retain"
GROWING_CLASS = "host-path-growing"
OWN_USERS = ("iggykube-e2e:coredns", "iggykube-e2e:provisioner")


def kubeconfig(where: Places, identity: str) -> Document:
    """How `identity` reaches the API server, with its certificate inside."""

    def embedded(name: str) -> str:
        return base64.b64encode((where.keys / name).read_bytes()).decode()

    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": places.NODE,
        "clusters": [
            {
                "name": places.NODE,
                "cluster": {
                    "server": places.API_URL,
                    "certificate-authority-data": embedded(f"{AUTHORITY}.crt"),
                },
            }
        ],
        "users": [
            {
                "name": identity,
                "user": {
                    "client-certificate-data": embedded(f"{identity}.crt"),
                    "client-key-data": embedded(f"{identity}.key"),
                },
            }
        ],
        "contexts": [{"name": places.NODE, "context": {"cluster": places.NODE, "user": identity}}],
    }


def pod_network(where: Places) -> Document:
    """One bridge, addresses kept below the state folder, no way out of the machine (no ipMasq)."""
    return {
        "cniVersion": "1.0.0",
        "name": places.NODE,
        "plugins": [
            {
                "type": "bridge",
                "bridge": places.BRIDGE,
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(where.run / "addresses"),
                    "ranges": [[{"subnet": places.POD_NETWORK, "gateway": places.BRIDGE_ADDRESS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }


def containerd(where: Places) -> str:
    """Configuration of containerd, in TOML; the settings that let it run without all rights."""
    quoted = json.dumps  # a JSON string is a TOML string
    return f"""version = 2
root = {quoted(str(where.run / "containerd"))}
state = {quoted(str(places.CONTAINERD_STATE))}

[grpc]
  address = {quoted(str(places.CONTAINERD_SOCKET))}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {quoted(places.PAUSE_IMAGE)}
  # Without CAP_SYS_RESOURCE nobody may lower a score, and AppArmor may be absent.
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {quoted(str(places.PLUGINS))}
    conf_dir = {quoted(str(where.settings / "cni"))}

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


def kubelet(where: Places) -> Document:
    keys = where.keys
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": places.BRIDGE_ADDRESS,
        "port": places.KUBELET_PORT,
        "healthzBindAddress": places.LOOPBACK,
        "healthzPort": places.KUBELET_HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / f"{AUTHORITY}.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(keys / "kubelet.crt"),
        "tlsPrivateKeyFile": str(keys / "kubelet.key"),
        "clusterDNS": [places.BRIDGE_ADDRESS],
        "clusterDomain": places.DOMAIN,
        "resolvConf": str(where.settings / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{places.CONTAINERD_SOCKET}",
        "podLogsDir": str(where.run / "pod-logs"),
        "volumePluginDir": str(where.run / "kubelet" / "volume-plugins"),
        "maxPods": 200,
        # So often a volume that has grown, and a Secret, is looked at: tests need not wait long.
        "syncFrequency": "10s",
        # What a machine without all rights, with swap, or with the older cgroups needs.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{places.NODE}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "featureGates": {"KubeletInUserNamespace": True},
        "makeIPTablesUtilChains": False,
        # A person's disk may be rather full, and an image that was removed could not be had again.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
    }


def corefile(where: Places) -> str:
    """Names of the cluster; any other one is answered at once: there is none.

    Two blocks: within one, `template` comes before `kubernetes`, whatever their order here.
    """
    return f"""{places.DOMAIN}:{places.DNS_PORT} in-addr.arpa:{places.DNS_PORT} {{
  bind {places.BRIDGE_ADDRESS}
  errors
  ready {places.LOOPBACK}:{places.DNS_READY_PORT}
  kubernetes {places.DOMAIN} in-addr.arpa {{
    kubeconfig {where.settings / "coredns.conf"} {places.NODE}
    pods insecure
    ttl 5
  }}
}}
.:{places.DNS_PORT} {{
  bind {places.BRIDGE_ADDRESS}
  errors
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""


def audit_policy() -> Document:
    """Who asked for what, by verb and object; of deletions and denials that is all one needs.

    The cluster's own programs read and renew leases all the time: of them only changes are told.
    """
    programs = [
        "system:apiserver",
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:kube-proxy",
        f"system:node:{places.NODE}",
        *OWN_USERS,
    ]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {
                "level": "None",
                "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/openapi/*"],
            },
            {"level": "None", "users": programs, "verbs": ["get", "list", "watch"]},
            {
                "level": "None",
                "users": programs,
                "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
            },
            {
                "level": "None",
                "userGroups": ["system:serviceaccounts:kube-system"],
                "verbs": ["get", "list", "watch"],
            },
            {"level": "Request", "verbs": ["delete", "deletecollection"]},
            {"level": "Metadata"},
        ],
    }


def storage_classes() -> list[Document]:
    def one(name: str, reclaim: str, *, grows: bool, default: bool = False) -> Document:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": name,
                "annotations": {
                    "storageclass.kubernetes.io/is-default-class": str(default).lower()
                },
            },
            "provisioner": PROVISIONER,
            "reclaimPolicy": reclaim,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": grows,
        }

    return [
        one(DEFAULT_CLASS, "Delete", grows=False, default=True),
        one(RETAINING_CLASS, "Retain", grows=False),
        one(GROWING_CLASS, "Delete", grows=True),
    ]


def files(where: Places) -> dict[Path, str]:
    """Every settings file with its text. The certificates must be there."""
    folder = where.settings
    named: dict[str, Document] = {
        f"{name}.conf": kubeconfig(where, name)
        for name in ("controllers", "scheduler", "kubelet", "proxy", "coredns", "provisioner")
    }
    named |= {"kubelet.json": kubelet(where), "audit.json": audit_policy()}
    named |= {"cni/10-bridge.conflist": pod_network(where)}
    texts = {folder / name: json.dumps(document, indent=1) for name, document in named.items()}
    return texts | {
        where.kubeconfig: json.dumps(kubeconfig(where, "admin"), indent=1),
        folder / "containerd.toml": containerd(where),
        folder / "Corefile": corefile(where),
        folder / "resolv.conf": "",
    }
