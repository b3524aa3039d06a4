"""Kubeflow's Spark operator: `sparkoperator.k8s.io/v1beta2`. No field that needs its webhook."""

from typing import Any, Final

from iggy_operator.desired.metadata import Manifest
from iggy_operator.launchers.job import JOB_FILE, JOB_FOLDER, ConnectorJob
from iggy_operator.launchers.pods import driver_template, executor_template
from iggy_operator.launchers.spark_conf import memory_mib, spark_conf

API_VERSION: Final = "sparkoperator.k8s.io/v1beta2"
PROGRAM: Final = "local:///opt/iggykube/sink_job.py"
"""The job of sinks and sources in our image, as a file: spark-submit takes no module."""
SPARK_ACCOUNT: Final = "iggy-spark"
"""Of the operator's chart: it may make executors. The operator itself hands out no rights."""
# Spark from 4.2 on makes a NetworkPolicy, for which Kubeflow's chart lacks the right.
_WITHOUT: Final = {
    "spark.kubernetes.driver.pod.excludedFeatureSteps": (
        "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"
    )
}


def application(job: ConnectorJob) -> Manifest:
    """A SparkApplication. Never patched: what changes is deleted and made anew."""
    spark = job.spark
    account = spark.get("serviceAccountName", SPARK_ACCOUNT)
    return {
        "apiVersion": API_VERSION,
        "kind": "SparkApplication",
        "metadata": job.family.metadata(job.name),
        "spec": {
            "type": "Python",
            "mode": "cluster",  # its default comes from the webhook
            "sparkVersion": spark.get("version", job.release.spark_version),
            "image": spark.get("image", job.release.spark_image),
            "imagePullPolicy": job.release.image_pull_policy,
            "mainApplicationFile": PROGRAM,
            "arguments": ["--config", f"{JOB_FOLDER}/{JOB_FILE}"],
            "restartPolicy": _restart_policy(job),
            "sparkConf": {**spark_conf(job), **_WITHOUT},
            "driver": {
                **_sizes(job, "driver"),
                "serviceAccount": account,
                "template": driver_template(job),
            },
            "executor": {
                **_sizes(job, "executor"),
                "instances": spark["executor"]["instances"],
                "serviceAccount": account,
                "template": executor_template(job),
            },
        },
    }


def _sizes(job: ConnectorJob, role: str) -> Manifest:
    block = job.spark[role]
    heap_mib, overhead_mib = memory_mib(job, role)
    sizes: Manifest = {
        "cores": block["cores"],
        "memory": f"{heap_mib}m",
        "memoryOverhead": f"{overhead_mib}m",
    }
    if "coreLimit" in block:
        sizes["coreLimit"] = block["coreLimit"]
    return sizes


def _restart_policy(job: ConnectorJob) -> Manifest:
    """Both intervals are always given: their default, too, comes from the webhook."""
    restart = job.connector.restart
    if restart.policy == "Never":
        return {"type": "Never"}
    intervals: dict[str, Any] = {
        "onFailureRetryInterval": restart.pause_s_max,
        "onSubmissionFailureRetryInterval": restart.pause_s_max,
    }
    if restart.policy == "Always" and not job.is_bounded:
        return {"type": "Always", **intervals}
    return {
        "type": "OnFailure",
        "onFailureRetries": restart.retries_max,
        "onSubmissionFailureRetries": restart.retries_max,
        **intervals,
    }
