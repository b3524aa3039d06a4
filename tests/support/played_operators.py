"""The Spark operators of Kubeflow and Apache, played on a real API server for one namespace.

They make driver pods that no scheduler takes, and write the pods' states themselves, as a kubelet
would. States, their order and what they keep in a status: the operators' own, as seen on a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self

from iggy_operator.clock import SystemClock
from iggy_operator.cluster import ConflictError, NotFoundError, Object, ThrottledError
from iggy_operator.desired.metadata import SINK_LABEL
from iggy_operator.launchers.pods import DRIVER
from iggy_operator.program.api_client import APPLY, JSON_PATCH, ApiClient
from iggy_operator.program.api_kinds import API_KINDS
from iggy_operator.units import time_of, time_text

KUBEFLOW = "SparkApplication.sparkoperator.k8s.io"
APACHE = "SparkApplication.spark.apache.org"
FINALIZER = "sparkapplications.spark.apache.org/finalizer"
# State and the driver's phase → the next state.
KUBEFLOW_NEXT = {
    ("SUBMITTED", "Running"): "RUNNING",
    ("SUBMITTED", "Succeeded"): "SUCCEEDING",
    ("SUBMITTED", "Failed"): "FAILING",
    ("RUNNING", "Succeeded"): "SUCCEEDING",
    ("RUNNING", "Failed"): "FAILING",
    ("RUNNING", "gone"): "FAILING",
}
# State and restart policy → the next state, whatever the driver does.
KUBEFLOW_LATER = {
    ("FAILING", "Never"): "FAILED",
    ("FAILING", "OnFailure"): "PENDING_RERUN",
    ("FAILING", "Always"): "PENDING_RERUN",
    ("SUCCEEDING", "Never"): "COMPLETED",
    ("SUCCEEDING", "OnFailure"): "COMPLETED",
    ("SUCCEEDING", "Always"): "PENDING_RERUN",
}
APACHE_NEXT = {
    ("DriverRequested", "Running"): "RunningHealthy",
    ("RunningHealthy", "Succeeded"): "Succeeded",
    ("RunningHealthy", "Failed"): "Failed",
    ("RunningHealthy", "gone"): "Failed",
}
APACHE_LATER = {
    "": "Submitted",
    "Submitted": "DriverRequested",
    "ScheduledToRestart": "DriverRequested",
    "Failed": "ScheduledToRestart",
    "Succeeded": "ResourceReleased",
}
_BY = {"fieldManager": "spark-operator", "force": "true"}
_TICK_S = 0.2
_NOBODY = "played"  # a scheduler that does not exist


class PlayedOperators:
    """Both of them, at work within `async with`: what goes wrong with them ends the block.

    `clashes` must stay empty: moments with two drivers of one sink.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = SystemClock()
        self.clashes: list[str] = []
        self.exits: int | None = None  # every driver ends with that code, at once
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._work = self._tasks.create_task(self._live_on())
        return self

    async def __aexit__(self, *problem: Any) -> None:
        self._work.cancel()
        await self._tasks.__aexit__(*problem)

    async def _live_on(self) -> None:
        while True:
            await self.tick()
            await asyncio.sleep(_TICK_S)

    async def tick(self) -> None:
        """One round."""
        pods = {item["metadata"]["name"]: item for item in await self._list("Pod")}
        for pod in pods.values():
            await self._live(pod)
        for application in await self._list(KUBEFLOW):
            await self._kubeflow(application, pods)
        for application in await self._list(APACHE):
            await self._apache(application, pods)
        names = [pod["metadata"]["labels"].get(SINK_LABEL) for pod in await self.drivers()]
        self.clashes += [str(name) for name in names if names.count(name) > 1]

    async def drivers(self) -> list[Object]:
        """Pods of drivers that have not ended."""
        ended = ("Succeeded", "Failed")
        return [pod for pod in await self._list("Pod") if pod["status"].get("phase") not in ended]

    async def applications(self) -> list[Object]:
        return [*await self._list(KUBEFLOW), *await self._list(APACHE)]

    async def let_go(self) -> None:
        """Take the finalizers away, as nobody works any more."""
        for application in await self._list(APACHE):
            held = {"op": "replace", "path": "/metadata/finalizers", "value": []}
            await self._patch(application, held)

    async def _list(self, kind: str) -> list[Object]:
        path = API_KINDS[kind].path(namespace=self._namespace)
        while True:
            try:
                page = await self._client.get(path)
                break
            except ThrottledError as error:  # while a definition is new
                await asyncio.sleep(error.retry_after_s)
        head = {"apiVersion": API_KINDS[kind].api_version, "kind": API_KINDS[kind].kind}
        return [{**head, **item} for item in page["items"]]

    def _path(self, kind: str, name: str, subresource: str = "") -> str:
        return API_KINDS[kind].path(namespace=self._namespace, name=name, subresource=subresource)

    async def _say(self, kind: str, value: Object, status: Mapping[str, Any]) -> None:
        name = value["metadata"]["name"]
        body = {
            "apiVersion": value["apiVersion"],
            "kind": value["kind"],
            "metadata": {"name": name, "namespace": self._namespace},
            "status": status,
        }
        with suppress(NotFoundError, ConflictError):
            path = self._path(kind, name, "status")
            await self._client.request("PATCH", path, query=_BY, body=body, content=APPLY)

    async def _live(self, pod: Object) -> None:
        """What a kubelet tells: the driver runs, or it ended."""
        now, state = time_text(self._clock.now_s()), pod["status"].get("phase")
        told: dict[str, Any]
        if state == "Pending":
            phase, told = "Running", {"running": {"startedAt": now}}
        elif state == "Running" and self.exits is not None:
            phase = "Failed" if self.exits else "Succeeded"
            # All times, as a kubelet: one left out is read as null, which Apache's status refuses.
            times = {"startedAt": pod["metadata"]["creationTimestamp"], "finishedAt": now}
            told = {"terminated": {"exitCode": self.exits, "reason": "Error", **times}}
        else:
            return
        container = {
            "name": DRIVER, "ready": phase == "Running", "restartCount": 0, "image": "played",
            "imageID": "played", "state": told,
        }  # fmt: skip
        await self._say("Pod", pod, {"phase": phase, "containerStatuses": [container]})

    async def _start(self, owner: Object, name: str, template: Mapping[str, Any]) -> None:
        """A driver's pod; one of that name that is still there is waited for."""
        spec = {**template["spec"], "schedulerName": _NOBODY, "restartPolicy": "Never"}
        spec["containers"] = [{**item, "image": "played"} for item in spec["containers"]]
        metadata = {"name": name, "namespace": self._namespace, **template["metadata"]}
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"], "kind": owner["kind"],
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True,
            }
        ]  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        with suppress(ConflictError):
            path = self._path("Pod", "")
            await self._client.request("POST", path, query=None, body=body)

    async def _remove(self, name: str) -> None:
        with suppress(NotFoundError):
            await self._client.request("DELETE", self._path("Pod", name))

    async def _kubeflow(self, value: Object, pods: Mapping[str, Object]) -> None:
        if "deletionTimestamp" in value["metadata"]:
            return  # it has no finalizer: pods go by their owner
        name = f"{value['metadata']['name']}-driver"
        status = dict(value.get("status") or {})
        state = (status.get("applicationState") or {}).get("state", "")
        policy = value["spec"]["restartPolicy"]
        later = KUBEFLOW_LATER.get((state, policy["type"])) or KUBEFLOW_NEXT.get(
            (state, _phase(pods.get(name))), state
        )
        if state == "FAILING" and later == "PENDING_RERUN":
            pause_s = policy["onFailureRetryInterval"] * status["executionAttempts"]
            if not self._is_over(status["lastSubmissionAttemptTime"], pause_s):
                return
        if state in ("", "PENDING_RERUN"):
            if name in pods:
                await self._remove(name)
                return
            await self._start(value, name, value["spec"]["driver"]["template"])
            later = "SUBMITTED"
            status["executionAttempts"] = status.get("executionAttempts", 0) + 1
            status["lastSubmissionAttemptTime"] = time_text(self._clock.now_s())
            status["driverInfo"] = {"podName": name}
        if later != state:
            text = _ended(pods.get(name)) if later in ("FAILING", "PENDING_RERUN", "FAILED") else ""
            status["applicationState"] = {"state": later, "errorMessage": text}
            await self._say(KUBEFLOW, value, status)

    async def _apache(self, value: Object, pods: Mapping[str, Object]) -> None:
        if "deletionTimestamp" in value["metadata"]:
            await self._release(value, pods)
            return
        if FINALIZER not in value["metadata"].get("finalizers", ()):
            await self._hold(value)
            return
        status = dict(value.get("status") or {})
        state = (status.get("currentState") or {}).get("currentStateSummary", "")
        attempt = (status.get("currentAttemptSummary") or {}).get("attemptInfo") or {"id": 0}
        name = f"{value['metadata']['name']}-{attempt['id']}-driver"
        later = APACHE_LATER.get(state) or APACHE_NEXT.get((state, _phase(pods.get(name))), state)
        if state == "ScheduledToRestart":
            restart = value["spec"]["applicationTolerations"]["restartConfig"]
            since = status["currentState"]["lastTransitionTime"]
            if not self._is_over(since, restart["restartBackoffMillis"] / 1000):
                return
        if later == state:
            return
        if later == "DriverRequested":
            await self._start(value, name, value["spec"]["driverSpec"]["podTemplateSpec"])
        if later == "ScheduledToRestart":
            await self._remove(name)  # whatever is to be kept: it is to start again
        await self._say(APACHE, value, self._moved(status, later, pods.get(name)))

    def _moved(self, status: Object, state: str, pod: Object | None) -> Object:
        """The status of an application of Apache's in its next state."""
        attempt = (status.get("currentAttemptSummary") or {}).get("attemptInfo") or {"id": 0}
        history = dict(status.get("stateTransitionHistory") or {})
        entry: dict[str, Any] = {"currentStateSummary": state, "message": ""}
        entry["lastTransitionTime"] = time_text(self._clock.now_s())
        if state == "Failed" and pod is not None:
            statuses = pod["status"].get("containerStatuses", [])
            entry["lastObservedDriverStatus"] = {"containerStatuses": statuses}
        number = str(max(map(int, history), default=-1) + 1)
        if state != "ScheduledToRestart":
            history[number] = entry
            return {**status, "currentState": entry, "stateTransitionHistory": history,
                    "currentAttemptSummary": {"attemptInfo": attempt}}  # fmt: skip
        return {
            "currentState": entry,
            "stateTransitionHistory": {number: entry},
            "previousAttemptSummary": {"attemptInfo": attempt, "stateTransitionHistory": history},
            "currentAttemptSummary": {"attemptInfo": {"id": attempt["id"] + 1}},
        }

    def _is_over(self, since: str, pause_s: float) -> bool:
        return self._clock.now_s() >= time_of(since) + pause_s

    async def _hold(self, value: Object) -> None:
        held = {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}
        await self._patch(value, held)

    async def _release(self, value: Object, pods: Mapping[str, Object]) -> None:
        """Its finalizer goes when the driver's pod has gone."""
        uid = value["metadata"]["uid"]
        own = [name for name, pod in pods.items() if _owner(pod) == uid]
        for name in own:
            await self._remove(name)
        left = [item for item in value["metadata"].get("finalizers", ()) if item != FINALIZER]
        if not own and left != value["metadata"].get("finalizers", []):
            await self._patch(
                value, {"op": "replace", "path": "/metadata/finalizers", "value": left}
            )

    async def _patch(self, value: Object, *steps: Mapping[str, Any]) -> None:
        path = self._path(APACHE, value["metadata"]["name"])
        with suppress(NotFoundError, ConflictError):
            await self._client.request(
                "PATCH", path, query=None, body=list(steps), content=JSON_PATCH
            )


def _phase(pod: Object | None) -> str:
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return "gone"
    return str(pod["status"].get("phase", ""))


def _owner(pod: Object) -> str:
    return str((pod["metadata"].get("ownerReferences") or [{}])[0].get("uid", ""))


def _ended(pod: Object | None) -> str:
    """Kubeflow's words for the end of a driver."""
    for status in ((pod or {}).get("status") or {}).get("containerStatuses") or ():
        if ended := status["state"].get("terminated"):
            code, why = ended["exitCode"], ended.get("reason", "")
            return f"driver container failed with ExitCode: {code}, Reason: {why}"
    return "driver pod not found"
