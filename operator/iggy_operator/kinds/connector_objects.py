"""What a sink or source has in the cluster: applications, pods, claim, user. Reading, writing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator.blocked import Blocked
from iggy_operator.cache import Entry
from iggy_operator.cluster import DeniedError, NotFoundError, Object, Ref
from iggy_operator.desired.metadata import Manifest, label_value
from iggy_operator.kinds.common import World
from iggy_operator.launchers.choice import RESOURCE_TYPES, Launcher
from iggy_operator.launchers.pods import DRIVER
from iggy_operator.launchers.secrets import mounted
from iggy_operator.launchers.states import (
    Reading,
    read_apache,
    read_kubeflow,
    read_native,
    running_since,
)
from iggy_operator.launchers.steps import Stop
from iggy_operator.objects import is_owned, ref_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Connector
from iggy_operator.units import time_of

_NATIVE: Final = ("StatefulSet", "Job")
_SPARK: Final[Mapping[Launcher, str]] = {
    "Kubeflow": "SparkApplication.sparkoperator.k8s.io",
    "Apache": "SparkApplication.spark.apache.org",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What is there of a connector at this moment."""

    application: Object | None
    reading: Reading | None
    remains: tuple[str, ...]
    """Names of pods, and of other applications."""
    installed: frozenset[str]
    """Resource types of Spark operators that the cluster knows."""
    running_s: float
    since_s: float
    driver: Object | None = None
    """The driver's pod, if there is one."""


def connector_of(entry: Entry) -> Connector:
    """The spec of an object that is known to be a sink or source."""
    assert isinstance(entry.resource, Connector)
    return entry.resource


async def observe(world: World, entry: Entry) -> Found:
    """Applications first, then pods: what an application still makes is seen. Raises ClusterError.

    Everything with its name is looked at, so also what an earlier one of that name has left.
    """
    connector = connector_of(entry)
    labels = {connector.label: label_value(entry.ref.name)}
    namespace = entry.ref.namespace
    applications: list[Object] = []
    for kind in _NATIVE:
        applications += await world.cluster.list(kind, namespace=namespace, labels=labels)
    installed = set()
    for launcher, kind in _SPARK.items():
        try:
            applications += await world.cluster.list(kind, namespace=namespace, labels=labels)
        except NotFoundError:
            continue  # that operator is not installed
        installed.add(RESOURCE_TYPES[launcher])
    pods = await world.cluster.list("Pod", namespace=namespace, labels=labels)
    own = [item for item in applications if is_owned(item, entry.value)]
    own.sort(key=lambda item: str(item["metadata"].get("creationTimestamp", "")))
    application = own[-1] if own else None
    others = [f"{ref_of(item).kind} {ref_of(item).name}" for item in applications
              if item is not application]  # fmt: skip
    return Found(
        application=application,
        reading=None if application is None else _read(application, pods, connector),
        remains=(*others, *sorted(f"pod {item['metadata']['name']}" for item in pods)),
        installed=frozenset(installed),
        running_s=_running_s(pods, world.clock.now_s()),
        since_s=0 if application is None else _since_s(application),
        driver=_driver(pods),
    )


def launcher_of(kind: str, api_version: str) -> Launcher:
    """Who runs an application."""
    if kind in _NATIVE:
        return "Native"
    return "Kubeflow" if api_version.startswith("sparkoperator") else "Apache"


def _driver(pods: Any) -> Object | None:
    """The newest pod that has the driver's container."""
    drivers = [
        pod
        for pod in pods
        if any(item.get("name") == DRIVER for item in pod["spec"].get("containers", ()))
    ]
    return max(drivers, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)


def _read(application: Object, pods: list[Object] | Any, connector: Connector) -> Reading:
    launcher = launcher_of(application["kind"], application["apiVersion"])
    if launcher == "Native":
        return read_native(application, pods)
    if launcher == "Kubeflow":
        return read_kubeflow(application, connector.restart, _driver(pods))
    return read_apache(application, _driver(pods))


def _running_s(pods: Any, now_s: float) -> float:
    """How long the driver runs without a break."""
    since = next(filter(None, map(running_since, pods)), "")
    return now_s - time_of(since) if since else 0


def _since_s(application: Object) -> float:
    """When it was last started, or ended."""
    status = application.get("status") or {}
    current = status.get("currentState") or {}
    times = (
        application["metadata"].get("creationTimestamp"),
        status.get("lastSubmissionAttemptTime"),
        status.get("terminationTime"),
        current.get("lastTransitionTime"),
    )
    return max((time_of(text) for text in times if text), default=0)


async def start(world: World, entry: Entry, file: Manifest, application: Manifest) -> None:
    """The file, then the application that reads it. Raises Blocked, ClusterError."""
    await write(world, entry, file)
    await world.cluster.create(application)


async def write(world: World, entry: Entry, wanted: Manifest) -> Object:
    """Make a child of the object, or bring it in line. Raises Blocked if it is somebody else's."""
    ref = ref_of(wanted)
    try:
        there = await world.cluster.get(ref)
    except NotFoundError:
        return await world.cluster.create(wanted)
    if not is_owned(there, entry.value):
        text = f"{ref} exists and is not this {connector_of(entry).word}'s: remove it"
        raise Blocked(Reason.NAME_CONFLICT, text, again_s=5)
    metadata = {**wanted["metadata"], "uid": uid_of(there)}
    return await world.cluster.apply({**wanted, "metadata": metadata})


async def stop(world: World, application: Object) -> None:
    """Delete it; it stays visible until its pods are gone. Raises ClusterError."""
    try:
        await world.cluster.delete(
            ref_of(application), uid=uid_of(application), propagation="Foreground"
        )
    except NotFoundError:
        return


async def claim(
    world: World, entry: Entry, name: str, wanted: Manifest | None, *, may_act: bool
) -> Object | None:
    """The claim of the checkpoint, made if it is ours to make. Raises Blocked, ClusterError."""
    try:
        there = await world.cluster.get(Ref("PersistentVolumeClaim", entry.ref.namespace, name))
    except NotFoundError:
        return await world.cluster.create(wanted) if wanted is not None and may_act else None
    connector = connector_of(entry)
    label = there["metadata"].get("labels", {}).get(connector.label)
    if wanted is not None and label != label_value(entry.ref.name):
        text = f"claim {name} exists and is not this {connector.word}'s: "
        raise Blocked(
            Reason.NAME_CONFLICT, text + "name it in checkpoint.volume.existingClaim, or remove it"
        )
    return there


async def account_trouble(world: World, entry: Entry, name: str) -> Stop | None:
    """Why no pod can be made: its service account is missing. Raises ClusterError."""
    try:
        await world.cluster.get(Ref("ServiceAccount", entry.ref.namespace, name))
    except DeniedError:
        return None  # nobody knows, and the pod would tell
    except NotFoundError:
        return Stop(
            Reason.SERVICE_ACCOUNT_NOT_FOUND,
            f"there is no service account {name} in namespace {entry.ref.namespace}: make it, name "
            "another in spark.serviceAccountName, or use spark.launcher Native without one",
        )
    return None


async def secret_trouble(world: World, entry: Entry) -> Stop | None:
    """Why no pod can start: a Secret that the spec names, or a key of it. Raises ClusterError."""
    for wanted in mounted(connector_of(entry)):
        where = f"{wanted.field}: "
        try:
            secret = await world.cluster.get(Ref("Secret", entry.ref.namespace, wanted.name))
        except NotFoundError:
            text = f"there is no Secret {wanted.name} in namespace {entry.ref.namespace}: make it"
            return Stop(Reason.SECRET_NOT_FOUND, where + text)
        if missing := wanted.lacks(set(secret.get("data") or ())):
            text = f"Secret {wanted.name} lacks {missing}: add what is missing"
            return Stop(Reason.SECRET_INVALID, where + text)
    return None
