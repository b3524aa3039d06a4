"""What runs the job of a sink or source, on the fake cluster: the StatefulSet and Job controllers,
Kubeflow's and Apache's operators, and a kubelet. Each `tick` is one round of all of them.
"""

from __future__ import annotations

import copy
from typing import Any

from fake_cluster import FakeCluster
from iggy_operator.cluster import Ref
from iggy_operator.desired.metadata import owner_of
from iggy_operator.objects import ref_of
from iggy_operator.resources import CONNECTORS
from iggy_operator.units import time_text

POD_IP = "10.0.0.8"
GRACE = "fake/grace"  # a deleted pod ends a round later, as its process does
DRIVER = "spark-kubernetes-driver"
KUBEFLOW = "SparkApplication.sparkoperator.k8s.io"
APACHE = "SparkApplication.spark.apache.org"
APACHE_START_S = 300.0  # its operator waits so long for a driver


class FakeLaunchers:
    """`started` counts the drivers; more than one of a sink or source at a time fails the test."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self._seen: set[str] = set()
        self._clashes: list[str] = []
        cluster.watchers.append(self._watched)
        self._due_s = 0.0  # of a container that waits in its back-off
        self.started: list[str] = []  # uids of pods, in order
        self.is_stuck = False  # Kubeflow's operator does nothing with what failed
        self.drops_volumes = False  # as a Spark operator whose webhook does not run
        self.binds_claims = True
        self.exits: int | None = None  # every driver ends with that code, at once
        self.missing_images: set[str] = set()

    def tick(self) -> None:
        self._end_pods()
        if self.exits is not None and self.drivers():
            self.end(self.exits, "so it ended")
        for ref in list(self.cluster.objects):
            value = self.cluster.objects.get(ref)
            if value is None or "deletionTimestamp" in value["metadata"]:
                continue
            if ref.kind == "PersistentVolumeClaim":
                if self.binds_claims:
                    value["status"] = {"phase": "Bound"}
            elif ref.kind == "Pod":
                self._pull(value)
            elif ref.kind in _CONTROLLERS:
                _CONTROLLERS[ref.kind](self, value)
        self._check()

    def drivers(self) -> list[dict[str, Any]]:
        """Pods whose process may still do something."""
        return [
            value
            for ref, value in self.cluster.objects.items()
            if ref.kind == "Pod" and "running" in _container(value)["state"]
        ]

    def applications(self) -> list[dict[str, Any]]:
        return [value for ref, value in self.cluster.objects.items() if ref.kind in _CONTROLLERS]

    def end(self, code: int, message: str = "") -> None:
        """The driver's process ends by itself."""
        (pod,) = self.drivers()
        (status,) = pod["status"]["containerStatuses"]
        ended = {"exitCode": code, "message": message, "finishedAt": self._now()}
        status["state"] = {"terminated": ended}
        pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"

    def remove_driver(self) -> None:
        """By hand, or by a drain."""
        (pod,) = self.drivers()
        self.cluster.remove(ref_of(pod))

    def _now(self) -> str:
        return time_text(self.cluster.clock.now_s())

    def _end_pods(self) -> None:
        for ref, value in list(self.cluster.objects.items()):
            if ref.kind == "Pod" and "deletionTimestamp" in value["metadata"]:
                value["metadata"]["finalizers"] = []
                self.cluster._collect(ref)

    def _watched(self, ref: Ref, value: Any) -> None:
        """Nothing may be left of a sink or source when an application of it is made."""
        if value is None or ref.kind not in _CONTROLLERS or value["metadata"]["uid"] in self._seen:
            return
        self._seen.add(value["metadata"]["uid"])
        owner = _connector(value)
        for other, left in self.cluster.objects.items():
            is_ours = _connector(left) == owner
            if other != ref and is_ours and (other.kind == "Pod" or other.kind in _CONTROLLERS):
                self._clashes.append(f"{ref} was made beside {other}")

    def _check(self) -> None:
        assert not self._clashes, self._clashes
        names = [_connector(pod) for pod in self.drivers()]
        assert len(names) == len(set(names)), f"two drivers of one: {names}"

    def _pod(self, owner: dict[str, Any], name: str) -> dict[str, Any] | None:
        value = self.cluster.objects.get(Ref("Pod", owner["metadata"]["namespace"], name))
        if value is None:
            return None
        owners = value["metadata"]["ownerReferences"]
        return value if owners[0]["uid"] == owner["metadata"]["uid"] else None

    def _start(
        self, owner: dict[str, Any], name: str, template: dict[str, Any], image: str = ""
    ) -> None:
        """A pod, unless one of that name is still there. `image`: if the template names none."""
        namespace = owner["metadata"]["namespace"]
        if Ref("Pod", namespace, name) in self.cluster.objects:
            return
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": copy.deepcopy(template["metadata"]["labels"]),
            "ownerReferences": [owner_of(owner).reference],
            "finalizers": [GRACE],
        }
        spec = copy.deepcopy(template["spec"])
        if self.drops_volumes:
            spec.pop("volumes", None)
        spec["containers"][0].setdefault("image", image)
        self.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        pod = self.cluster.objects[Ref("Pod", namespace, name)]
        waiting = {"name": DRIVER, "restartCount": 0, "state": {"waiting": {}}}
        pod["status"] = {"phase": "Pending", "containerStatuses": [waiting]}
        self._pull(pod)
        self._check()

    def _pull(self, pod: dict[str, Any]) -> None:
        """A container that waits for its image runs once it is there."""
        status = _container(pod)
        if pod["status"]["phase"] != "Pending":
            return
        image = pod["spec"]["containers"][0]["image"]
        if image in self.missing_images:
            text = f'Back-off pulling image "{image}"'
            status["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": text}}
            return
        status["state"] = self._running()
        pod["status"] |= {"phase": "Running", "podIP": POD_IP}
        self.started.append(pod["metadata"]["uid"])

    def _running(self) -> dict[str, Any]:
        return {"running": {"startedAt": self._now()}}

    def _stateful_set(self, value: dict[str, Any]) -> None:
        name = f"{value['metadata']['name']}-0"
        pod = self._pod(value, name)
        if pod is None:
            self._start(value, name, value["spec"]["template"])
            return
        (status,) = pod["status"]["containerStatuses"]
        if pod["status"]["phase"] == "Pending":
            return
        if "terminated" in status["state"]:
            pause = {"waiting": {"reason": "CrashLoopBackOff"}}
            status |= {"lastState": status["state"], "state": pause}
            pod["status"]["phase"] = "Running"
            self._due_s = self.cluster.clock.now_s() + min(300, 10 << status["restartCount"])
        elif "waiting" in status["state"] and self.cluster.clock.now_s() >= self._due_s:
            status |= {"state": self._running(), "restartCount": status["restartCount"] + 1}
            self.started.append(pod["metadata"]["uid"])

    def _job(self, value: dict[str, Any]) -> None:
        name = f"{value['metadata']['name']}-abcde"
        pod = self._pod(value, name)
        if value.get("status"):
            return
        if pod is None:
            self._start(value, name, value["spec"]["template"])
        elif pod["status"]["phase"] not in ("Pending", "Running"):
            kind = "Complete" if pod["status"]["phase"] == "Succeeded" else "Failed"
            value["status"] = {"conditions": [{"type": kind, "status": "True"}]}

    def _kubeflow(self, value: dict[str, Any]) -> None:
        name = f"{value['metadata']['name']}-driver"
        status = value.setdefault("status", {"applicationState": {"state": ""}})
        state, pod = status["applicationState"], self._pod(value, name)
        always = value["spec"]["restartPolicy"]["type"] != "Never"
        match state["state"]:
            case "":
                self._submit(value, name)
            case "PENDING_RERUN" if not self.is_stuck:
                self._submit(value, name)
            case "SUBMITTED" if pod is None or pod["status"]["phase"] != "Pending":
                state["state"] = "RUNNING"  # else it stays for ever, and does not say why
            case "RUNNING":
                self._look_at_driver(status, pod)
            case "FAILING":
                state["state"] = "PENDING_RERUN" if always else "FAILED"
            case "SUCCEEDING":
                is_done = value["spec"]["restartPolicy"]["type"] != "Always"
                state["state"] = "COMPLETED" if is_done else "PENDING_RERUN"
        if state["state"] == "PENDING_RERUN" and pod and "deletionTimestamp" not in pod["metadata"]:
            self.cluster.remove(ref_of(pod))

    def _submit(self, value: dict[str, Any], name: str) -> None:
        self._start(value, name, value["spec"]["driver"]["template"], value["spec"]["image"])
        pod = self._pod(value, name)
        if pod is not None and pod["status"]["phase"] in ("Pending", "Running"):
            status = value["status"]
            status["applicationState"] = {"state": "SUBMITTED"}
            status["executionAttempts"] = status.get("executionAttempts", 0) + 1
            status["lastSubmissionAttemptTime"] = self._now()

    def _look_at_driver(self, status: dict[str, Any], pod: dict[str, Any] | None) -> None:
        state, text = "FAILING", "driver pod not found"
        if pod is not None and "deletionTimestamp" not in pod["metadata"]:
            ended = _container(pod)["state"].get("terminated")
            if ended is None:
                return
            text = f"driver failed, ExitCode: {ended['exitCode']}"
            state = "FAILING" if ended["exitCode"] else "SUCCEEDING"
        status["applicationState"] = {"state": state, "errorMessage": text}
        status["terminationTime"] = self._now()

    def _apache(self, value: dict[str, Any]) -> None:
        status = value.setdefault(
            "status", {"currentState": {"currentStateSummary": "Submitted"}, "number": 0}
        )
        name = f"{value['metadata']['name']}-{status['number']}-driver"
        state, pod = status["currentState"], self._pod(value, name)
        status["currentAttemptSummary"] = {"attemptInfo": {"id": status["number"]}}
        match state["currentStateSummary"]:
            case "Submitted" | "ScheduledToRestart":
                image = value["spec"]["sparkConf"]["spark.kubernetes.container.image"]
                template = value["spec"]["driverSpec"]["podTemplateSpec"]
                self._start(value, name, template, image)
                if (pod := self._pod(value, name)) is not None:
                    self._apache_looks(value, pod)
            case "DriverRequested" if pod is not None:
                self._apache_looks(value, pod)
            case "RunningHealthy" if pod is None or pod["status"]["phase"] != "Running":
                statuses = [] if pod is None else pod["status"]["containerStatuses"]
                good = pod is not None and pod["status"]["phase"] == "Succeeded"
                state["currentStateSummary"] = "Succeeded" if good else "Failed"
                state["lastObservedDriverStatus"] = {"containerStatuses": statuses}
            case "Failed" | "DriverStartTimedOut":
                self._apache_after(value, pod)

    def _apache_looks(self, value: dict[str, Any], pod: dict[str, Any]) -> None:
        """At a driver that was asked for: it runs, is awaited, or has not come in time."""
        now_s, status = self.cluster.clock.now_s(), value["status"]
        state = "RunningHealthy"
        if pod["status"]["phase"] == "Pending":
            asked_s = status.setdefault("asked", now_s)
            is_late = now_s - asked_s >= APACHE_START_S
            state = "DriverStartTimedOut" if is_late else "DriverRequested"
        if state != "DriverRequested":
            status.pop("asked", None)
        status["currentState"]["currentStateSummary"] = state

    def _apache_after(self, value: dict[str, Any], pod: dict[str, Any] | None) -> None:
        """A failure: another attempt, or the end, which keeps the pod as we ask for."""
        status, config = value["status"], value["spec"]["applicationTolerations"]["restartConfig"]
        ended = {"stateTransitionHistory": {"0": status.pop("currentState")}}
        is_over = status["number"] >= config["maxRestartAttempts"]
        if config["restartPolicy"] == "Never" or is_over:
            summary = "TerminatedWithoutReleaseResources"
            status |= {**ended, "currentState": {"currentStateSummary": summary}}
            return
        status["number"] += 1
        status["previousAttemptSummary"] = ended
        status["currentState"] = {"currentStateSummary": "ScheduledToRestart"}
        if pod is not None and pod["status"]["phase"] == "Pending":
            self.cluster.remove(ref_of(pod))


def _connector(value: dict[str, Any]) -> tuple[str, str]:
    """Whose it is by its labels: kind and name."""
    labels = value["metadata"].get("labels", {})
    return next(
        ((one.kind, labels[one.label]) for one in CONNECTORS if one.label in labels), ("", "")
    )


def _container(pod: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = pod["status"]["containerStatuses"][0]
    return status


_CONTROLLERS: dict[str, Any] = {
    "StatefulSet": FakeLaunchers._stateful_set,
    "Job": FakeLaunchers._job,
    KUBEFLOW: FakeLaunchers._kubeflow,
    APACHE: FakeLaunchers._apache,
}
