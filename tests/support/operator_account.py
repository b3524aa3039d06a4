"""The rights that the chart gives the operator, for operators that are processes here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from e2e_kubectl import Document, Kubectl, Refused
from e2e_operator import RELEASE
from operator_rights import rules
from waiting import wait_until

TOKEN_FOR = "2h"
_LEASES = {
    "apiGroups": ["coordination.k8s.io"],
    "resources": ["leases"],
    "verbs": ["get", "create", "update"],
}
_RBAC = "rbac.authorization.k8s.io"


def account(kubectl: Kubectl, path: Path) -> Kubectl:
    """kubectl with the operator's rights in its namespace and in no other; `path` becomes its
    kubeconfig.
    """
    metadata = {"name": RELEASE}
    kubectl.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    grant(kubectl, kubectl.namespace, [*rules(), _LEASES])
    token = kubectl("create", "token", RELEASE, f"--duration={TOKEN_FOR}").strip()
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"] = [{**user, "user": {"token": token}} for user in config["users"]]
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    found = replace(kubectl, kubeconfig=path)
    wait_until(lambda: _may_work(found), "the API server knows the account's rights")
    return found


def _may_work(kubectl: Kubectl) -> bool:
    try:
        return kubectl("auth", "can-i", "get", "leases").strip() == "yes"
    except Refused:
        return False


def grant(kubectl: Kubectl, home: str, asked: list[Document] | None = None) -> None:
    """Rights in one more namespace, for the account of the namespace `home`."""
    metadata = {"name": RELEASE}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": RELEASE}
    subject = {"kind": "ServiceAccount", "name": RELEASE, "namespace": home}
    version = {"apiVersion": f"{_RBAC}/v1", "metadata": metadata}
    kubectl.apply(
        version | {"kind": "Role", "rules": rules() if asked is None else asked},
        version | {"kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
    )
