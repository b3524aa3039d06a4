"""The cluster itself keeps what the other scenarios rely on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from e2e_backends import Backend
from e2e_kubectl import Document, Kubectl

PROGRAM = Path(__file__).parent / "cluster"
DATA = "/data"


def pod(name: str, image: str, *command: str, claim: str = "") -> Document:
    """A pod that the restricted profile allows, with a volume of `claim` if one is named."""
    container: Document = {
        "name": "main",
        "image": image,
        "command": list(command),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec: Document = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if claim:
        container["volumeMounts"] = [{"name": "data", "mountPath": DATA}]
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def idle(name: str, image: str, claim: str = "") -> Document:
    return pod(name, image, "sleep", "3600", claim=claim)


def claim(name: str, size: str = "10Mi", cls: str | None = None) -> Document:
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
    }
    if cls is not None:
        spec["storageClassName"] = cls
    metadata = {"name": name}
    kind = "PersistentVolumeClaim"
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


def service(name: str, port: int) -> Document:
    spec = {"selector": {"app": name}, "ports": [{"port": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def finished(kubectl: Kubectl, name: str) -> str:
    """What a pod wrote that has ended well."""
    kubectl.wait(f"pod/{name}", "jsonpath={.status.phase}=Succeeded")
    return kubectl.logs(name)


def volume_of(kubectl: Kubectl, claim_name: str) -> str:
    return str(kubectl.get("pvc", claim_name)["spec"]["volumeName"])


def test_every_node_takes_pods(cluster: Kubectl) -> None:
    nodes = cluster.items("nodes")

    assert nodes
    for node in nodes:
        ready = {one["type"]: one["status"] for one in node["status"]["conditions"]}
        assert ready["Ready"] == "True"


def test_a_pod_finds_the_api_server_by_its_name(kubectl: Kubectl, busybox: str) -> None:
    name = "kubernetes.default.svc.cluster.local"
    kubectl.apply(pod("asks", busybox, "nslookup", name))

    answer = finished(kubectl, "asks")

    address = kubectl.at("default").get("service", "kubernetes")["spec"]["clusterIP"]
    assert address in answer


def test_a_service_leads_to_its_pod(kubectl: Kubectl, busybox: str) -> None:
    serve = "echo found > /tmp/page && exec httpd -f -p 8080 -h /tmp"
    kubectl.apply(pod("web", busybox, "sh", "-c", serve), service("web", 8080))
    kubectl.wait("pod/web", "condition=Ready")

    # A page that is not there yet ends wget, so the pod asks until it is.
    ask = "until wget -q -O - http://web:8080/page; do sleep 0.2; done"
    kubectl.apply(pod("asks", busybox, "sh", "-c", ask))

    assert finished(kubectl, "asks") == "found\n"


def test_a_pod_reaches_itself_through_its_service(kubectl: Kubectl, busybox: str) -> None:
    serve = "echo found > /tmp/page && exec httpd -f -p 8080 -h /tmp"
    kubectl.apply(pod("web", busybox, "sh", "-c", serve), service("web", 8080))
    kubectl.wait("pod/web", "condition=Ready")

    # By its address: its own name would lead it to itself, past the service.
    address = kubectl.get("service", "web")["spec"]["clusterIP"]
    ask = f"until wget -q -O - http://{address}:8080/page; do sleep 0.2; done"
    answer = kubectl.execute("web", "sh", "-c", ask)

    assert answer == "found\n"


def test_commands_run_in_a_pod_and_its_log_is_kept(kubectl: Kubectl, busybox: str) -> None:
    kubectl.apply(pod("talks", busybox, "sh", "-c", "echo hello; exec sleep 3600"))
    kubectl.wait("pod/talks", "condition=Ready")

    user = kubectl.execute("talks", "id", "-u")
    log = kubectl.logs("talks")

    assert (user, log) == ("10001\n", "hello\n")


def test_a_port_is_forwarded(kubectl: Kubectl, busybox: str) -> None:
    kubectl.apply(pod("web", busybox, "nc", "-l", "-p", "8080", "-e", "echo", "found"))
    kubectl.wait("pod/web", "condition=Ready")

    with (
        kubectl.forwarded("pod/web", 8080) as port,
        socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
    ):
        answer = connection.recv(100)

    assert answer == b"found\n"


def test_a_claim_waits_for_a_pod_and_keeps_its_data(kubectl: Kubectl, busybox: str) -> None:
    kubectl.apply(claim("data"))
    kubectl.apply(pod("writes", busybox, "sh", "-c", f"echo kept > {DATA}/word", claim="data"))
    finished(kubectl, "writes")
    kubectl.delete("pod", "writes")

    kubectl.apply(pod("reads", busybox, "cat", f"{DATA}/word", claim="data"))

    assert finished(kubectl, "reads") == "kept\n"


def test_a_volume_goes_with_its_claim(kubectl: Kubectl, busybox: str) -> None:
    kubectl.apply(claim("data"), pod("uses", busybox, "ls", DATA, claim="data"))
    finished(kubectl, "uses")
    volume = volume_of(kubectl, "data")

    kubectl.delete("pod/uses", "pvc/data")

    kubectl.wait(f"pv/{volume}", "delete")
    assert not kubectl.exists("pv", volume)


def test_a_volume_that_is_retained_outlives_its_claim(kubectl: Kubectl, busybox: str) -> None:
    kubectl.apply(claim("data"), pod("uses", busybox, "ls", DATA, claim="data"))
    finished(kubectl, "uses")
    volume = volume_of(kubectl, "data")
    policy = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
    kubectl("patch", "pv", volume, "--patch", json.dumps(policy))

    kubectl.delete("pod/uses", "pvc/data")

    kubectl.wait(f"pv/{volume}", "jsonpath={.status.phase}=Released")
    policy["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    kubectl("patch", "pv", volume, "--patch", json.dumps(policy))
    kubectl.wait(f"pv/{volume}", "delete")
    assert not kubectl.exists("pv", volume)


def test_a_claim_grows_while_a_pod_uses_it(
    kubectl: Kubectl, busybox: str, growing_class: str
) -> None:
    kubectl.apply(claim("data", "10Mi", growing_class), idle("uses", busybox, claim="data"))
    kubectl.wait("pod/uses", "condition=Ready")
    before = kubectl.get("pod", "uses")["metadata"]["uid"]

    kubectl.apply(claim("data", "20Mi", growing_class))

    kubectl.wait("pvc/data", "jsonpath={.status.capacity.storage}=20Mi")
    assert kubectl.get("pod", "uses")["metadata"]["uid"] == before


def test_a_class_that_does_not_grow_refuses(kubectl: Kubectl, busybox: str) -> None:
    fixed = [one for one in kubectl.items("storageclasses") if not one.get("allowVolumeExpansion")]
    if not fixed:
        pytest.skip("every storage class of this cluster lets volumes grow")
    cls = fixed[0]["metadata"]["name"]
    kubectl.apply(claim("data", "10Mi", cls), idle("uses", busybox, claim="data"))
    kubectl.wait("pvc/data", "jsonpath={.status.phase}=Bound")

    said = kubectl.apply_refusal(claim("data", "20Mi", cls))

    assert "must support resize" in said


def test_a_restricted_namespace_refuses_a_privileged_pod(restricted: Kubectl, busybox: str) -> None:
    privileged = idle("strong", busybox)
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}

    said = restricted.apply_refusal(privileged)

    assert 'violates PodSecurity "restricted:latest"' in said


def test_a_restricted_namespace_takes_a_pod_that_obeys(restricted: Kubectl, busybox: str) -> None:
    restricted.apply(pod("obeys", busybox, "echo", "in"))

    assert finished(restricted, "obeys") == "in\n"


def test_what_is_deleted_is_in_the_audit_log(kubectl: Kubectl, audit_log: Path) -> None:
    kubectl("create", "configmap", "short-lived")
    kubectl.delete("configmap", "short-lived")

    entries = [json.loads(line) for line in audit_log.read_text().splitlines()]
    found = [
        (entry["verb"], entry["user"]["username"])
        for entry in entries
        if entry.get("objectRef", {}).get("namespace") == kubectl.namespace
        and entry["objectRef"].get("name") == "short-lived"
    ]

    assert ("delete", "admin") in found


def test_up_again_leaves_everything_alone(backend: Backend, kubectl: Kubectl, busybox: str) -> None:
    if backend.name != "own":
        pytest.skip(f"the backend {backend.name} is brought up by others")
    kubectl.apply(idle("stays", busybox))
    kubectl.wait("pod/stays", "condition=Ready")
    before = kubectl.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"]

    command = [sys.executable, str(PROGRAM), "up"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "nothing to do" in said
    after = kubectl.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"]
    assert after == before
