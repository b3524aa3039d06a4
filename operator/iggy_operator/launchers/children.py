"""The children of a sink or source, whoever launches it, and what of them a pass applies."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from iggy_operator.desired import staging
from iggy_operator.desired.claims import volume_claim
from iggy_operator.desired.metadata import Manifest
from iggy_operator.launchers import apache, job, kubeflow, native, pods, spark_conf
from iggy_operator.launchers.choice import Launcher
from iggy_operator.launchers.job import JOB_FILE, ConnectorJob, asked, job_file

_APPLICATIONS: Final[Mapping[Launcher, Callable[[ConnectorJob], Manifest]]] = {
    "Native": native.application,
    "Kubeflow": kubeflow.application,
    "Apache": apache.application,
}
_ONE_NODE: Final = ("ReadWriteOnce", "ReadWriteOncePod")


@dataclass(frozen=True, slots=True)
class ConnectorChildren:
    """Manifests of one sink or source.

    `claim` and `account` may be applied at any time. `file` and `application` belong together: they
    are applied when `change` says so, after the old application and its pods are gone. Else a
    driver that merely restarts would read the file of another release.
    """

    claim: Manifest | None
    account: Manifest | None
    file: Manifest
    application: Manifest


def problems(connector_job: ConnectorJob, launcher: Launcher) -> tuple[str, ...]:
    """What of the spec cannot be had: one sentence each, with field and way out.

    Nothing is started while there is one.
    """
    return (
        *job.problems(connector_job),
        *spark_conf.problems(connector_job),
        *pods.problems(connector_job),
        *checkpoint_problems(connector_job, launcher),
    )


def checkpoint_problems(connector_job: ConnectorJob, launcher: Launcher) -> tuple[str, ...]:
    """A volume of one node under executors of several: they would hang, or write elsewhere."""
    volume = connector_job.connector.spec.get("checkpoint", {}).get("volume", {})
    mode = volume.get("accessMode", "ReadWriteMany")
    if launcher == "Native" or "existingClaim" in volume or mode not in _ONE_NODE:
        return ()
    return (
        f"checkpoint.volume.accessMode: executors on other nodes cannot mount {mode}: use "
        "ReadWriteMany, or spark.launcher Native, where the driver does all work",
    )


def connector_children(connector_job: ConnectorJob, launcher: Launcher) -> ConnectorChildren:
    """Everything that it needs beside its login. It must have passed `problems`."""
    text = json.dumps(job_file(connector_job), indent=2, sort_keys=True) + "\n"
    application = _APPLICATIONS[launcher](connector_job)
    marks = staging.marks(
        asked=asked(connector_job, launcher),
        rendered=[application["spec"], text],
        restart_at=connector_job.restart_at,
    )
    return ConnectorChildren(
        claim=_claim(connector_job),
        account=native.service_account(connector_job) if launcher == "Native" else None,
        file={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": connector_job.family.metadata(connector_job.file_name),
            "data": {JOB_FILE: text},
        },
        application=_marked(application, marks),
    )


def _marked(application: Manifest, marks: Mapping[str, str]) -> Manifest:
    return {**application, "metadata": {**application["metadata"], "annotations": dict(marks)}}


def _claim(connector_job: ConnectorJob) -> Manifest | None:
    """Outlives its owner, unless Delete was asked for: then Kubernetes deletes it, too."""
    checkpoint = connector_job.connector.spec.get("checkpoint", {})
    volume = checkpoint.get("volume")
    if volume is None or "existingClaim" in volume:
        return None
    is_owned = checkpoint["deletionPolicy"] == "Delete"
    metadata = connector_job.family.metadata(str(connector_job.claim), is_owned=is_owned)
    return volume_claim(volume, metadata)
