"""Native: a driver of our own that does all work itself. Needs nothing installed, and no rights.

Its process is Python, so that SIGTERM finishes the running batch. A StatefulSet never has two pods
of one name; a job that ends by itself is a Job.
"""

from typing import Final

from iggy_operator.decide.connectors import EXIT_STOPPED, FOR_A_PERSON
from iggy_operator.desired.broker import REVISIONS_KEPT
from iggy_operator.desired.metadata import Manifest
from iggy_operator.launchers.job import ALIVE_FILE, JOB_FILE, JOB_FOLDER, ConnectorJob
from iggy_operator.launchers.pods import DRIVER, SUBMIT_VARIABLE, driver_template
from iggy_operator.launchers.spark_conf import memory_mib

LOOK: Final = ("python", "-m", "iggy_spark.alive")
START_LOOK_S: Final = 10
START_LOOKS: Final = 180
"""Half an hour: the job waits for others to leave its group, and looks at every file of a lake."""
CORES_RESERVED: Final = "spark.kubernetes.driver.request.cores"
COMMAND: Final = ("python", "-m", "iggy_spark.sink_job", "--config", f"{JOB_FOLDER}/{JOB_FILE}")


def application(job: ConnectorJob) -> Manifest:
    """A Job for one that ends by itself, else a StatefulSet. Without the marks of staging."""
    template = _template(job)
    return _job(job, template) if job.is_bounded else _stateful_set(job, template)


def service_account(job: ConnectorJob) -> Manifest | None:
    """One without any right, unless the spec names another."""
    if "serviceAccountName" in job.spark:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": job.family.metadata(job.name),
        "automountServiceAccountToken": False,
    }


def _template(job: ConnectorJob) -> Manifest:
    template = driver_template(job)
    spec = template["spec"]
    container = spec["containers"][0]
    container = {
        **container,
        "env": [*container["env"], *_submit_arguments(job)],
        "image": job.spark.get("image", job.release.spark_image),
        "imagePullPolicy": job.release.image_pull_policy,
        "command": list(COMMAND),
        "resources": _resources(job),
        **_probes(),
    }
    spec = {
        **spec,
        "containers": [container],
        "serviceAccountName": job.spark.get("serviceAccountName", job.name),
        "automountServiceAccountToken": False,
    }
    if job.is_bounded:
        spec["restartPolicy"] = "Never"
    return {"metadata": template["metadata"], "spec": spec}


def _probes() -> Manifest:
    """The job itself says whether it is well; a stuck one is started anew, an idle one is not."""
    look = {"exec": {"command": [*LOOK, ALIVE_FILE]}, "timeoutSeconds": 20}
    return {
        "startupProbe": {**look, "periodSeconds": START_LOOK_S, "failureThreshold": START_LOOKS},
        "livenessProbe": {**look, "periodSeconds": 60, "failureThreshold": 3},
    }


def _submit_arguments(job: ConnectorJob) -> list[Manifest]:
    """For the Java that PySpark starts: it is what loads packages."""
    lists = {"--packages": job.spark.get("packages"), "--py-files": job.spark.get("pyFiles")}
    words = [word for flag, names in lists.items() if names for word in (flag, ",".join(names))]
    if not words:
        return []
    return [{"name": SUBMIT_VARIABLE, "value": " ".join([*words, "pyspark-shell"])}]


def _resources(job: ConnectorJob) -> Manifest:
    driver = job.spark["driver"]
    memory = f"{sum(memory_mib(job, 'driver'))}Mi"
    limits = {"memory": memory}
    if "coreLimit" in driver:
        limits["cpu"] = driver["coreLimit"]
    # The property by which Spark's own launchers reserve less, or more, than they work with.
    cpu = job.spark.get("conf", {}).get(CORES_RESERVED, str(driver["cores"]))
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": limits}


def _stateful_set(job: ConnectorJob, template: Manifest) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": job.family.metadata(job.name),
        "spec": {
            "replicas": 1,
            "serviceName": job.name,
            "selector": {"matchLabels": {job.connector.uid_label: job.owner.uid}},
            # With OrderedReady, a pod that never started is never replaced by a mended one.
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": REVISIONS_KEPT,
            "template": template,
        },
    }


def _job(job: ConnectorJob, template: Manifest) -> Manifest:
    restart = job.connector.restart
    waits = _on_exit("FailJob", *FOR_A_PERSON)
    goes_on = _on_exit("Ignore", EXIT_STOPPED)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": job.family.metadata(job.name),
        "spec": {
            "backoffLimit": 0 if restart.policy == "Never" else restart.retries_max,
            # Not before the old pod is gone: never two drivers.
            "podReplacementPolicy": "Failed",
            # The same start would end the same way: a person must decide. A job that was asked to
            # stop, as on a node that is drained, has not failed.
            "podFailurePolicy": {"rules": [waits, goes_on]},
            "template": template,
        },
    }


def _on_exit(action: str, *codes: int) -> Manifest:
    exits = {"containerName": DRIVER, "operator": "In", "values": list(codes)}
    return {"action": action, "onExitCodes": exits}
