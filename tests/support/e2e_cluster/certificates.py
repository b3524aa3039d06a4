"""The cluster's certificates: one authority, one pair for each program, all made by openssl."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import places
from .trouble import ClusterError, run, succeeds

VALID_DAYS = 365
RENEW_BEFORE_S = 7 * 24 * 3600
AUTHORITY = "ca"
SERVICE_ACCOUNTS = "service-accounts"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a certificate is for: the file's name, user, groups, and names it serves under."""

    name: str
    user: str
    group: str = ""
    serves: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.user}"


_API_NAMES = (
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    f"DNS:kubernetes.default.svc.{places.DOMAIN}",
    f"IP:{places.API_SERVICE}",
    f"IP:{places.BRIDGE_ADDRESS}",
    f"IP:{places.LOOPBACK}",
)
# Each program has a name of its own, so that the audit log tells who did what.
IDENTITIES = (
    Identity("admin", "admin", "system:masters"),
    Identity("apiserver", "kube-apiserver", serves=_API_NAMES),
    Identity("apiserver-to-kubelet", "kube-apiserver-to-kubelet", "system:masters"),
    Identity("controllers", "system:kube-controller-manager"),
    Identity("scheduler", "system:kube-scheduler"),
    Identity(
        "kubelet",
        f"system:node:{places.NODE}",
        "system:nodes",
        serves=(f"DNS:{places.NODE}", f"IP:{places.BRIDGE_ADDRESS}"),
    ),
    Identity("proxy", "system:kube-proxy"),
    Identity("coredns", "iggykube-e2e:coredns", "system:masters"),
    Identity("provisioner", "iggykube-e2e:provisioner", "system:masters"),
)


def ensure(folder: Path) -> None:
    """Make what is missing; ClusterError if what is there ends soon."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = folder / f"{AUTHORITY}.crt"
    if not authority.exists():
        _make_authority(folder)
    elif not succeeds(
        ["openssl", "x509", "-in", authority, "-noout", "-checkend", str(RENEW_BEFORE_S)]
    ):
        raise ClusterError(
            "the cluster's certificates end within a week; make a new cluster: "
            "make cluster-down && make cluster-up"
        )
    for identity in IDENTITIES:
        if not (folder / f"{identity.name}.crt").exists():
            _make_pair(folder, identity)


def _make_authority(folder: Path) -> None:
    signer = folder / f"{SERVICE_ACCOUNTS}.key"
    run(["openssl", "genpkey", "-algorithm", "RSA", "-out", signer])
    run(["openssl", "pkey", "-in", signer, "-pubout", "-out", folder / f"{SERVICE_ACCOUNTS}.pub"])
    unfinished = folder / f"{AUTHORITY}.unfinished"
    run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(VALID_DAYS),
            "-subj", "/CN=iggykube-e2e", "-keyout", folder / f"{AUTHORITY}.key", "-out", unfinished,
        ]
    )  # fmt: skip
    # The certificate comes last and whole: where it is, the keys are too.
    unfinished.replace(folder / f"{AUTHORITY}.crt")


def _make_pair(folder: Path, identity: Identity) -> None:
    key, request = folder / f"{identity.name}.key", folder / f"{identity.name}.csr"
    usage = folder / f"{identity.name}.ext"
    unfinished = folder / f"{identity.name}.unfinished"
    names = ",".join(identity.serves)
    usage.write_text(
        "extendedKeyUsage=clientAuth,serverAuth\n" + (f"subjectAltName={names}\n" if names else "")
    )
    run(
        [
            "openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", identity.subject,
            "-keyout", key, "-out", request,
        ]
    )  # fmt: skip
    run(
        [
            "openssl", "x509", "-req", "-in", request, "-days", str(VALID_DAYS),
            "-CA", folder / f"{AUTHORITY}.crt", "-CAkey", folder / f"{AUTHORITY}.key",
            "-CAcreateserial", "-extfile", usage, "-out", unfinished,
        ]
    )  # fmt: skip
    request.unlink()
    usage.unlink()
    unfinished.replace(folder / f"{identity.name}.crt")
