"""The bridge of the pods and the kernel's settings for it; taken away without a trace."""

from __future__ import annotations

import json
from pathlib import Path

from . import places
from .places import Places
from .trouble import run, succeeds

WANTED = {
    "net/ipv4/ip_forward": "1",
    "net/bridge/bridge-nf-call-iptables": "1",  # absent where the kernel has no bridge filter
}


FIREWALL = "KUBE-FIREWALL"
"""The kubelet's own chain, which kube-proxy's cleaning leaves there."""


def up(where: Places) -> None:
    """Make the bridge, and remember what the kernel's settings were."""
    before = where.run / "kernel-settings.json"
    if not before.exists():
        found = {name: _read(name) for name in WANTED if _path(name).exists()}
        before.write_text(json.dumps(found))
    for name, value in WANTED.items():
        if _path(name).exists() and _read(name) != value:
            _path(name).write_text(value)
    if not succeeds(["ip", "link", "show", places.BRIDGE]):
        run(["ip", "link", "add", places.BRIDGE, "type", "bridge"])
    addresses = run(["ip", "-4", "-o", "address", "show", "dev", places.BRIDGE])
    if f" {places.BRIDGE_ADDRESS}/" not in addresses:
        prefix = places.POD_NETWORK.partition("/")[2]
        run(["ip", "address", "add", f"{places.BRIDGE_ADDRESS}/{prefix}", "dev", places.BRIDGE])
    run(["ip", "link", "set", places.BRIDGE, "up"])


def down(where: Places) -> None:
    """Remove the rules of kube-proxy and kubelet, the bridge, and what the kernel was told."""
    proxy = where.program("kube-proxy", places.KUBERNETES)
    if proxy.exists():
        # Rules that it cannot find are reported as a failure; there is then nothing to remove.
        succeeds([proxy, "--cleanup", "--oom-score-adj=0"])
    _remove_firewall()
    if succeeds(["ip", "link", "show", places.BRIDGE]):
        run(["ip", "link", "delete", places.BRIDGE])
    before = where.run / "kernel-settings.json"
    if before.exists():
        for name, value in json.loads(before.read_text()).items():
            if _path(name).exists():
                _path(name).write_text(value)


def _remove_firewall() -> None:
    for program in ("iptables", "ip6tables"):
        if succeeds([program, "--list-rules", FIREWALL]):
            for chain in ("INPUT", "OUTPUT"):
                succeeds([program, "--delete", chain, "--jump", FIREWALL])
            run([program, "--flush", FIREWALL])
            run([program, "--delete-chain", FIREWALL])


def _path(name: str) -> Path:
    return Path("/proc/sys") / name


def _read(name: str) -> str:
    return _path(name).read_text().strip()
