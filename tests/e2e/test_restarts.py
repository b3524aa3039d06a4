"""When a broker restarts and when not: settings, releases of the operator, and its volume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import e2e_tls
from e2e_broker import (
    BROKER,
    CLAIM,
    POD,
    STREAM,
    TOPIC,
    broker,
    everything,
    make,
    root,
    send,
    stream,
    topic,
)
from e2e_kubectl import Document, Kubectl
from e2e_operator import RELEASE, Operator
from e2e_watch import condition, watching
from server_certificates import server_secret
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)

OPERATOR_VALUES = {"replicas": 1}
OPERATOR_DELETES = {"pods", "statefulsets"}
DONE_S = 120.0
PAYLOADS = [b"one", b"two", b"three"]
NEXT = "iggykube/broker:next"
PODS = ("pods", "--selector", f"iggykube.dev/broker={BROKER}")


class Wishes:
    """What the IggyBroker asks for; each wish stays until it is changed."""

    def __init__(self, kubectl: Kubectl, **spec: Any) -> None:
        self.kubectl = kubectl
        self.spec = spec

    def change(self, **spec: Any) -> None:
        self.spec |= spec
        self.kubectl.apply(broker(**self.spec))

    def storage(self, size: str) -> None:
        self.change(storage={**self.spec["storage"], "size": size})

    def note(self, text: str) -> None:
        """A change that restarts nothing, to see that it is carried out."""
        self.change(listeners={"serviceAnnotations": {"example.com/note": text}})
        self.wait_for(lambda: self._note() == text, f"the Service has the note {text!r}")

    def _note(self) -> str:
        metadata = self.kubectl.get("service", BROKER)["metadata"]
        return str(metadata.get("annotations", {}).get("example.com/note", ""))

    def says(self, kind: str) -> tuple[str, str]:
        """Of the present spec."""
        value = self.kubectl.get("igb", BROKER)
        found = condition(value, kind)
        if found.get("observedGeneration") != value["metadata"]["generation"]:
            return "", ""
        return found["status"], found["reason"]

    def message(self, kind: str) -> str:
        return str(condition(self.kubectl.get("igb", BROKER), kind)["message"])

    def wait_until(self, kind: str, status: str, reason: str) -> None:
        self.wait_for(lambda: self.says(kind) == (status, reason), f"{kind} is {status}, {reason}")

    def wait_for(self, look: Any, what: str) -> None:
        wait_until(
            look, lambda: f"{what}: {self.kubectl.get('igb', BROKER)['status']}", within_s=DONE_S
        )

    def restart(self, at: str) -> None:
        self.kubectl("annotate", "igb", BROKER, f"iggykube.dev/restart-at={at}", "--overwrite")

    def wait_for_another(self, pod: Document) -> None:
        """Another pod serves, and nothing waits."""
        old = pod["metadata"]["uid"]
        self.wait_for(
            lambda: (
                self.says("Ready")[0] == "True"
                and self.says("ConfigApplied")[0] == "True"
                and self.kubectl.get("pod", POD)["metadata"]["uid"] != old
            ),
            "another pod serves",
        )


@pytest.fixture(scope="module")
def storage_class(cluster: Kubectl, operator: Operator, growing_class: str) -> Iterator[str]:
    """One whose volumes could grow, and whose owner has not allowed it yet."""
    found = cluster.get("storageclass", growing_class)
    name = f"{operator.work.namespace}-class"
    found |= {"metadata": {"name": name}, "allowVolumeExpansion": False}
    cluster.apply(found)
    yield name
    cluster.delete("storageclass", name)


@pytest.fixture(scope="module")
def wishes(operator: Operator, storage_class: str) -> Wishes:
    """A broker with messages."""
    wishes = Wishes(operator.work, storage={"size": "1Gi", "storageClassName": storage_class})
    make(operator.work, broker(**wishes.spec), stream(), topic())
    send(root(operator.work), TOPIC, PAYLOADS)
    return wishes


@pytest.fixture
def may_read_classes(cluster: Kubectl, operator: Operator) -> Iterator[None]:
    """The right that an operator of one namespace lacks, as docs/install.md says."""
    name = f"{operator.system.namespace}-classes"
    account = f"--serviceaccount={operator.system.namespace}:{RELEASE}"
    try:
        cluster("create", "clusterrole", name, "--verb=get", "--resource=storageclasses")
        cluster("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
        yield
    finally:
        cluster.delete("clusterrolebinding", name)
        cluster.delete("clusterrole", name)


def test_a_setting_restarts_once(wishes: Wishes) -> None:
    kubectl = wishes.kubectl
    old = kubectl.get("pod", POD)

    with watching(kubectl, *PODS) as pods, watching(kubectl, "igb") as brokers:
        wishes.change(config={"heartbeat.interval": "40 s"})
        wishes.wait_for_another(old)
        wishes.note("after the restart")

    assert len({event.uid for event in pods}) == 2
    found = {condition(event.value, "ConfigApplied").get("reason") for event in brokers}
    assert found == {"Synced", "RollingOut"}
    assert "lastRestartTime" in kubectl.get("igb", BROKER)["status"]["restart"]
    assert stored(kubectl) == PAYLOADS


def test_a_setting_waits_for_a_person_where_that_is_wished(wishes: Wishes) -> None:
    old = wishes.kubectl.get("pod", POD)

    wishes.change(updateStrategy="OnDelete", config={"heartbeat.interval": "50 s"})
    wishes.wait_until("ConfigApplied", "False", "RestartPending")
    assert "a change of the spec" in wishes.message("ConfigApplied")
    assert wishes.kubectl.get("pod", POD)["metadata"]["uid"] == old["metadata"]["uid"]

    wishes.restart("now")
    wishes.wait_for_another(old)
    wishes.change(updateStrategy="Automatic")


def test_another_release_of_the_operator_restarts_nothing_until_asked(
    wishes: Wishes, operator: Operator
) -> None:
    kubectl = wishes.kubectl
    old = kubectl.get("pod", POD)

    operator.upgrade({"broker": {"image": {"tag": "next"}}})
    wishes.wait_until("ConfigApplied", "False", "RestartPending")
    restart = kubectl.get("igb", BROKER)["status"]["restart"]
    assert restart["pending"] is True
    assert any(NEXT in reason for reason in restart["reasons"]), restart
    wishes.note("while a release waits")
    wishes.wait_until("Ready", "True", "Synced")

    # One that this cluster can start.
    operator.upgrade({"children": {"imagePullPolicy": "Never"}})
    wishes.wait_for(
        lambda: reasons(kubectl) and not any(NEXT in reason for reason in reasons(kubectl)),
        "the other release waits",
    )
    assert kubectl.get("pod", POD)["metadata"]["uid"] == old["metadata"]["uid"]
    wishes.restart("later")
    wishes.wait_for_another(old)
    (container,) = kubectl.get("pod", POD)["spec"]["containers"]
    assert container["imagePullPolicy"] == "Never"
    assert stored(kubectl) == PAYLOADS


def test_a_volume_that_may_not_grow_is_told_and_the_rest_is_done(wishes: Wishes) -> None:
    wishes.storage("2Gi")

    wishes.wait_until("StorageReady", "False", "ExpansionUnsupported")
    assert "storageclasses" in wishes.message("StorageReady"), "the right to read them is missing"
    wishes.note("although it cannot grow")
    assert size(wishes.kubectl) == "1Gi"

    wishes.storage("1Gi")
    wishes.wait_until("StorageReady", "True", "Synced")


def test_a_volume_grows_under_its_pod(
    wishes: Wishes, cluster: Kubectl, storage_class: str, may_read_classes: None
) -> None:
    kubectl = wishes.kubectl
    old = kubectl.get("pod", POD)

    wishes.storage("2Gi")
    wishes.note("the right is there")
    wishes.wait_for(
        lambda: "does not allow growth" in wishes.message("StorageReady"), "the class is told"
    )
    wishes.wait_until("StorageReady", "False", "ExpansionUnsupported")
    assert size(kubectl) == "1Gi"
    allow = '{"allowVolumeExpansion": true}'
    cluster("patch", "storageclass", storage_class, "--type=merge", f"--patch={allow}")
    wishes.note("its class allows it")
    wishes.wait_for(lambda: size(kubectl) == "2Gi", "the volume has grown")
    wishes.wait_until("StorageReady", "True", "Synced")

    refusal = kubectl.apply_refusal(broker(storage={**wishes.spec["storage"], "size": "1Gi"}))
    assert "storage cannot shrink" in refusal

    # Somebody else enlarges the claim.
    patch = '{"spec": {"resources": {"requests": {"storage": "4Gi"}}}}'
    kubectl("patch", "pvc", CLAIM, "--type=merge", f"--patch={patch}")
    wishes.storage("3Gi")
    wishes.wait_until("StorageReady", "False", "Unsupported")
    assert CLAIM in wishes.message("StorageReady")
    wishes.note("although the claim is larger")
    wishes.storage("5Gi")
    wishes.wait_for(lambda: size(kubectl) == "5Gi", "the volume has grown again")
    wishes.wait_until("StorageReady", "True", "Synced")

    new = kubectl.get("pod", POD)
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert new["status"]["containerStatuses"] == old["status"]["containerStatuses"]
    template = kubectl.get("statefulset", BROKER)["spec"]["volumeClaimTemplates"][0]
    assert template["spec"]["resources"]["requests"]["storage"] == "5Gi"


def test_the_claim_outlives_its_broker_and_is_used_again(wishes: Wishes) -> None:
    kubectl = wishes.kubectl
    claim = kubectl.get("pvc", CLAIM)

    kubectl.delete("igb", BROKER)
    kubectl.wait(f"pod/{POD}", "delete")
    assert kubectl.get("pvc", CLAIM)["metadata"]["uid"] == claim["metadata"]["uid"]
    make(kubectl, broker(**wishes.spec), stream(), topic())

    assert kubectl.get("pvc", CLAIM)["metadata"]["uid"] == claim["metadata"]["uid"]
    assert stored(kubectl) == PAYLOADS
    assert condition(kubectl.get("igt", TOPIC), "DataContinuity")["status"] == "True"


def test_a_certificate_comes_with_one_restart_and_is_renewed_without(
    wishes: Wishes, tmp_path: Path
) -> None:
    kubectl = wishes.kubectl
    old, ca_file = kubectl.get("pod", POD), tmp_path / "ca.crt"
    first, renewed = (server_secret(e2e_tls.host(kubectl)) for _ in range(2))
    ca_file.write_text(first["ca.crt"])

    # Without its Secret nothing is restarted, and the broker serves on as it did.
    tls = {"secretName": e2e_tls.SECRET}
    wishes.change(listeners={"websocketPort": e2e_tls.SCHEMES["iggy+ws"], "tls": tls})
    wishes.wait_until("CertificateReady", "False", "SecretNotFound")
    wishes.wait_until("ConfigApplied", "False", "RestartPending")
    assert e2e_tls.SECRET in wishes.message("ConfigApplied")
    assert kubectl.get("pod", POD)["metadata"]["uid"] == old["metadata"]["uid"]
    assert stored(kubectl) == PAYLOADS

    kubectl.apply(e2e_tls.tls_secret(first))
    look(kubectl, "igb", BROKER)  # Secrets are not watched
    wishes.wait_for_another(old)
    wishes.wait_until("CertificateReady", "True", "Synced")
    served = kubectl.get("pod", POD)
    for scheme in e2e_tls.SCHEMES:
        assert e2e_tls.streams(kubectl, root(kubectl), scheme, ca_file) == [STREAM]

    kubectl.apply(e2e_tls.tls_secret(renewed))
    look(kubectl, "pod", POD)  # the kubelet does at its volumes once a minute
    for port in e2e_tls.SCHEMES.values():
        wishes.wait_for(
            lambda port=port: e2e_tls.shown(kubectl, port) == e2e_tls.der(renewed["tls.crt"]),
            f"port {port} shows the renewed certificate",
        )
    now = kubectl.get("pod", POD)
    assert now["metadata"]["uid"] == served["metadata"]["uid"]
    assert now["status"]["containerStatuses"] == served["status"]["containerStatuses"]
    assert e2e_tls.streams(kubectl, root(kubectl), "iggy+tcp", ca_file) == [STREAM]


def look(kubectl: Kubectl, kind: str, name: str) -> None:
    """Whoever looks at it from time to time does so now, since it has changed."""
    kubectl("annotate", kind, name, "example.com/look=now", "--overwrite")


def stored(kubectl: Kubectl) -> list[bytes]:
    return list(everything(root(kubectl)).values())


def reasons(kubectl: Kubectl) -> list[str]:
    found: list[str] = kubectl.get("igb", BROKER)["status"]["restart"]["reasons"]
    return found


def size(kubectl: Kubectl) -> str:
    """What the volume has, not what is asked for."""
    return str(kubectl.get("pvc", CLAIM)["status"]["capacity"]["storage"])
