"""A namespace is deleted with all that holds objects up in it: it ends, also without rights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from e2e_broker import POD, broker, make, ours, small_driver, topic
from e2e_helm import Helm
from e2e_kubectl import Kubectl
from e2e_namespaces import Namespaces
from e2e_operator import DEPLOYMENT, RELEASE, Operator
from iggy_operator.objects import FINALIZER
from waiting import wait_until

pytestmark = pytest.mark.timeout(900)

VALUES = {"resyncSeconds": 5}
GONE_S = 120.0
"""Of these Kubernetes itself takes 31 where a driver is: it looks again after half of its grace."""
READY_S = 240.0
TOPICS, USERS = 20, 3

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """One operator that watches four namespaces; in `main` there is a broker for all of them."""

    operator: Operator
    main: Kubectl
    first: Kubectl
    second: Kubectl
    third: Kubectl


@pytest.fixture(scope="module")
def scene(helm: Helm, module_namespace: Namespaces, project_images: None) -> Iterator[Scene]:
    system, *work = (module_namespace(restricted=True) for _ in range(5))
    watch = {"all": False, "namespaces": [one.namespace for one in work]}
    values = {"watch": watch, "replicas": 1, "rbac": {"outliveNamespaces": True}, **VALUES}
    operator = Operator(helm.at(system.namespace), system, work[0], values)
    operator.install()
    try:
        make(work[0], broker(allowedNamespaces={"from": "All"}))
        yield Scene(operator, *work)
    finally:
        operator.clear()
        operator.uninstall()


def test_with_its_broker_and_the_others_go_on(
    scene: Scene, cluster: Kubectl, measured: Note
) -> None:
    here = scene.first
    make(here, broker())
    fill(here, here, sinks=True)

    measured(f"namespace with broker, sink, topics and users gone: {end(cluster, here):.1f} s")

    make(scene.second, stream_in(scene.main, "later"))
    scene.operator.system("rollout", "restart", DEPLOYMENT)
    scene.operator.wait_until_ready()
    make(scene.second, ours("IggyTopic", "later", streamRef={"name": "later"}))


def test_that_was_deleted_while_no_operator_ran(scene: Scene, cluster: Kubectl) -> None:
    here = scene.third
    fill(here, scene.main)
    scene.operator.system("scale", DEPLOYMENT, "--replicas=0")
    wait_until(lambda: not scene.operator.pods(), "the operator is away", READY_S)

    cluster("delete", "namespace", here.namespace, "--wait=false")
    here.wait(f"role/{RELEASE}", "delete", within_s=READY_S)
    assert held(here)
    scene.operator.system("scale", DEPLOYMENT, "--replicas=1")

    cluster.wait(f"namespace/{here.namespace}", "delete", within_s=READY_S)


def test_with_a_broker_elsewhere_that_does_not_answer(
    scene: Scene, cluster: Kubectl, measured: Note
) -> None:
    here = scene.second
    fill(here, scene.main)
    scene.main("delete", "statefulset", "main", "--cascade=orphan")
    scene.main("delete", "pod", POD, "--grace-period=0", "--force")

    measured(f"namespace gone, its broker elsewhere is down: {end(cluster, here):.1f} s")


def test_with_the_operator_in_it_whose_leader_was_killed_before(
    helm: Helm, make_namespace: Namespaces, cluster: Kubectl, measured: Note
) -> None:
    here = make_namespace(restricted=True)
    values = {"watch": {"all": False}, "replicas": 2, **VALUES}
    operator = Operator(helm.at(here.namespace), here, here, values)
    operator.install()
    make(here, broker())
    fill(here, here, sinks=True)
    (lease,) = here.items("leases")
    leader, _, _ = lease["spec"]["holderIdentity"].partition("_")

    here("delete", "pod", leader, "--grace-period=0", "--force")

    measured(f"namespace of the operator gone, leader killed: {end(cluster, here):.1f} s")


def fill(kubectl: Kubectl, at: Kubectl, *, sinks: bool = False) -> None:
    """A stream, topics, users and maybe a sink, in the broker of a namespace, all to be deleted."""
    place = {"name": "main", "namespace": at.namespace}
    # Users of several namespaces are in one broker: the number and the run, as in 3-bdee.
    name = "-".join(kubectl.namespace.split("-")[-2:])
    sink = {"name": "tail", "type": "Console", "spark": small_driver()}
    shop = stream_in(at, "shop", deletionPolicy="Delete", streamName=f"shop-{name}")
    make(
        kubectl,
        shop,
        topic(deletionPolicy="DeleteIfEmpty", sinks=[sink] if sinks else []),
        *(topic(f"t{number}", deletionPolicy="Delete") for number in range(TOPICS)),
        *(ours("IggyUser", f"u{number}-{name}", brokerRef=place) for number in range(USERS)),
    )
    if sinks:
        kubectl.wait("igk/orders.tail", "condition=Ready", within_s=READY_S)
    assert len(held(kubectl)) == 1 + 1 + TOPICS + USERS + sinks, "the sink has a user, too"


def held(kubectl: Kubectl) -> list[str]:
    """Objects that do not go by themselves."""
    return [
        one["metadata"]["name"]
        for one in kubectl.items("igs,igt,igu")
        if FINALIZER in one["metadata"].get("finalizers", [])
    ]


def stream_in(at: Kubectl, name: str, **spec: str) -> dict[str, object]:
    place = {"name": "main", "namespace": at.namespace}
    return ours("IggyStream", name, brokerRef=place, **spec)


def end(cluster: Kubectl, kubectl: Kubectl) -> float:
    """Delete the namespace; how many seconds that took."""
    began = time.monotonic()
    cluster.delete("namespace", kubectl.namespace, within_s=GONE_S)
    return time.monotonic() - began
