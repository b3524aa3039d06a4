"""Kubernetes' controller of StatefulSets with one pod, and the storage behind claims, in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from fake_cluster import FakeCluster
from iggy_operator.cluster import InvalidError, Object, Ref
from iggy_operator.units import quantity

# What a StatefulSet lets nobody change (Kubernetes).
POD_IP = "10.0.0.7"
FINISHED_AT = "2027-01-15T08:00:00Z"
_IMMUTABLE = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")


class FakeStatefulSets:
    """Acts at once on each write: makes claims, pods, replaces them.

    Pods are ready at once, as long as their claims are bound and their image is there.
    """

    def __init__(self, cluster: FakeCluster, on_start: Callable[[Object], None]) -> None:
        self._cluster = cluster
        self._on_start = on_start
        self.binds_claims = True
        self.grows_volumes = True
        self.is_asleep = False
        self.missing_images: set[str] = set()
        self.refused_images: set[str] = set()
        """No pod with one of these is let into the cluster."""
        self.restores = ""
        """Last word of the containers that run before the others."""
        self.started: list[str] = []
        """Uids of all pods that ever were."""
        cluster.watchers.append(self._watch)
        cluster.admission.append(self._check)
        self.give_class("standard", grows=True)

    def give_class(self, name: str, *, grows: bool) -> None:
        value = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
        self._cluster.put(
            {**value, "metadata": {"name": name}, "allowVolumeExpansion": grows}, namespace=""
        )

    def bind(self) -> None:
        """Claims that wait get their volumes."""
        self.binds_claims = True
        self.work()

    def work(self) -> None:
        """Look at all StatefulSets, as after a sleep."""
        self.is_asleep = False
        for ref in list(self._cluster.objects):
            if ref.kind == "StatefulSet":
                self._control(ref)

    def _watch(self, ref: Ref, value: Object | None) -> None:
        if ref.kind == "StatefulSet" and value is not None:
            self._control(ref)
        elif ref.kind == "PersistentVolumeClaim" and value is not None:
            self._serve(ref)
        elif ref.kind == "Pod" and value is None:
            for other in list(self._cluster.objects):
                if other.kind == "StatefulSet" and ref.name == f"{other.name}-0":
                    self._control(other)

    def _check(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        if old["kind"] == "StatefulSet":
            for name in _IMMUTABLE:
                if old["spec"].get(name) != new["spec"].get(name):
                    raise InvalidError(f"spec.{name}: Forbidden: updates to it are forbidden")
        if old["kind"] == "PersistentVolumeClaim":
            sizes = [quantity(item["spec"]["resources"]["requests"]["storage"])
                     for item in (old, new)]  # fmt: skip
            if sizes[1] < sizes[0]:
                raise InvalidError("spec.resources.requests.storage: Forbidden: can not be less")
            grows = self._class_of(old).get("allowVolumeExpansion")
            if sizes[1] > sizes[0] and not grows:
                raise InvalidError("only dynamically provisioned pvc can be resized")

    def _class_of(self, claim: Mapping[str, Any]) -> Mapping[str, Any]:
        ref = Ref("StorageClass", "", claim["spec"].get("storageClassName", ""))
        return self._cluster.objects.get(ref, {})

    def _control(self, ref: Ref) -> None:
        value = self._cluster.objects.get(ref)
        if value is None or self.is_asleep or "deletionTimestamp" in value["metadata"]:
            return
        pod = Ref("Pod", ref.namespace, f"{ref.name}-0")
        found = self._cluster.objects.get(pod)
        if value["spec"]["replicas"] == 0:
            if found is not None:
                self._cluster.remove(pod)
            return
        is_bound = all(self._claim(value, item) for item in
                       value["spec"].get("volumeClaimTemplates", ()))  # fmt: skip
        if found is None:
            self._start(value, pod, is_bound=is_bound)
            return
        self._adopt(found, value)
        if _is_rolling(value, found):
            self._cluster.remove(pod)  # and its end leads here again
        elif not found["status"]["conditions"]:
            self._cluster.change(pod, status=self._status(found, is_bound=is_bound))
            if _is_ready(self._cluster.objects[pod]):
                self._on_start(found)

    def _adopt(self, child: dict[str, Any], owner: Mapping[str, Any]) -> None:
        child["metadata"]["ownerReferences"] = [_reference(owner)]

    def _claim(self, value: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
        metadata = value["metadata"]
        name = f"{template['metadata']['name']}-{metadata['name']}-0"
        ref = Ref("PersistentVolumeClaim", metadata["namespace"], name)
        if ref not in self._cluster.objects:
            spec = {"storageClassName": "standard", **copy.deepcopy(template["spec"])}
            labels = dict(template["metadata"]["labels"])
            self._cluster.put(
                {"apiVersion": "v1", "kind": ref.kind, "spec": spec, "status": {},
                 "metadata": {"name": name, "labels": labels}}, namespace=ref.namespace,
            )  # fmt: skip
        claim = self._cluster.objects[ref]
        is_deleted = (
            value["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
        )
        claim["metadata"]["ownerReferences"] = [_reference(value)] if is_deleted else []
        self._serve(ref)
        return bool(self._cluster.objects[ref]["status"].get("phase") == "Bound")

    def _serve(self, ref: Ref) -> None:
        claim = self._cluster.objects[ref]
        size = claim["spec"]["resources"]["requests"]["storage"]
        status = {"phase": "Pending"}
        if self.binds_claims or claim["status"].get("phase") == "Bound":
            before = claim["status"].get("capacity", {}).get("storage", size)
            capacity = size if self.grows_volumes else before
            status = {"phase": "Bound", "capacity": {"storage": capacity}}  # type: ignore[dict-item]
        self._cluster.change(ref, status=status)

    def _status(self, pod: Mapping[str, Any], *, is_bound: bool) -> dict[str, Any]:
        """As the kubelet tells it of a pod whose container has not run before."""
        (container,) = pod["spec"]["containers"]
        row = {"name": container["name"], "ready": False, "restartCount": 0}
        if not is_bound:
            return {"phase": "Pending", "conditions": []}
        if container["image"] in self.missing_images:
            text = f'Back-off pulling image "{container["image"]}"'
            row |= {"state": {"waiting": {"reason": "ImagePullBackOff", "message": text}}}
            return {"phase": "Pending", "conditions": [], "containerStatuses": [row]}
        row |= {"ready": True, "started": True, "state": {"running": {}}}
        ready = {"type": "Ready", "status": "True"}
        rows = {"conditions": [ready], "containerStatuses": [row]}
        ended = {"exitCode": 0, "finishedAt": FINISHED_AT, "message": self.restores}
        if before := pod["spec"].get("initContainers", ()):
            told = [{"name": one["name"], "state": {"terminated": ended}} for one in before]
            rows |= {"initContainerStatuses": told}
        return {"phase": "Running", "podIP": POD_IP, **rows}

    def _start(self, value: Mapping[str, Any], pod: Ref, *, is_bound: bool) -> None:
        template = value["spec"]["template"]
        if template["spec"]["containers"][0]["image"] in self.refused_images:
            return
        metadata = {"name": pod.name, **copy.deepcopy(template["metadata"])}
        made = self._cluster.put(
            {"apiVersion": "v1", "kind": "Pod", "spec": _running(value),
             "metadata": {**metadata, "ownerReferences": [_reference(value)]},
             "status": self._status(template, is_bound=is_bound)}, namespace=pod.namespace,
        )  # fmt: skip
        self.started.append(made["metadata"]["uid"])
        if _is_ready(made):
            self._on_start(made)


def _is_rolling(value: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether the controller replaces a pod by one of another template."""
    spec = value["spec"]
    if spec["podManagementPolicy"] != "Parallel" and not _is_ready(pod):
        return False  # one by one in their order: nothing comes after a pod that is not ready
    is_same = pod["spec"] == _running(value) and _marks(pod) == _marks(spec["template"])
    return spec["updateStrategy"]["type"] == "RollingUpdate" and not is_same


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return any(row["type"] == "Ready" for row in pod["status"]["conditions"])


def _running(value: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = copy.deepcopy(value["spec"]["template"]["spec"])
    return spec


def _marks(value: Mapping[str, Any]) -> Any:
    return value["metadata"].get("annotations", {})


def _reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    names = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    own = {name: owner["metadata"][name] for name in ("name", "uid")}
    return {**names, **own, "controller": True}
