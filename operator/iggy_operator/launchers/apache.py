"""Apache's Spark Kubernetes operator: `spark.apache.org/v1`."""

from typing import Final

from iggy_operator.decide.connectors import RETRIES_RESET_S
from iggy_operator.desired.metadata import Manifest
from iggy_operator.launchers.job import JOB_FILE, JOB_FOLDER, ConnectorJob
from iggy_operator.launchers.kubeflow import PROGRAM, SPARK_ACCOUNT
from iggy_operator.launchers.pods import driver_template, executor_template
from iggy_operator.launchers.spark_conf import memory_mib, spark_conf

API_VERSION: Final = "spark.apache.org/v1"
ATTEMPTS_MAX: Final = 1_000_000
"""For a job that is to run for good: when to give up is our decision."""
LOG_KEPT_MS: Final = 3_600_000
"""How long the pod of a failed driver stays, and its log with it."""


def application(job: ConnectorJob) -> Manifest:
    """A SparkApplication. It cannot be changed once it was submitted: deleted and made anew."""
    instances = job.spark["executor"]["instances"]
    return {
        "apiVersion": API_VERSION,
        "kind": "SparkApplication",
        "metadata": job.family.metadata(job.name),
        "spec": {
            "pyFiles": PROGRAM,
            "driverArgs": ["--config", f"{JOB_FOLDER}/{JOB_FILE}"],
            "runtimeVersions": {
                "sparkVersion": job.spark.get("version", job.release.spark_version)
            },
            "sparkConf": dict(sorted({**spark_conf(job), **_own_conf(job)}.items())),
            "driverSpec": {"podTemplateSpec": driver_template(job)},
            "executorSpec": {"podTemplateSpec": executor_template(job)},
            "applicationTolerations": {
                "restartConfig": _restart_config(job),
                "instanceConfig": {
                    "initExecutors": 0,
                    "minExecutors": 0,
                    "maxExecutors": instances,
                },
                "resourceRetainPolicy": "OnFailure",
                "resourceRetainDurationMillis": LOG_KEPT_MS,
            },
        },
    }


def _own_conf(job: ConnectorJob) -> dict[str, str]:
    """What has a field of its own in the other launchers."""
    spark = job.spark
    conf = {
        "spark.kubernetes.container.image": spark.get("image", job.release.spark_image),
        "spark.kubernetes.container.image.pullPolicy": job.release.image_pull_policy,
        "spark.kubernetes.authenticate.driver.serviceAccountName": spark.get(
            "serviceAccountName", SPARK_ACCOUNT
        ),
        "spark.executor.instances": str(spark["executor"]["instances"]),
    }
    for role in ("driver", "executor"):
        heap_mib, overhead_mib = memory_mib(job, role)
        conf |= {
            f"spark.{role}.cores": str(spark[role]["cores"]),
            f"spark.{role}.memory": f"{heap_mib}m",
            f"spark.{role}.memoryOverhead": f"{overhead_mib}m",
        }
        if "coreLimit" in spark[role]:
            conf[f"spark.kubernetes.{role}.limit.cores"] = spark[role]["coreLimit"]
    return conf


def _restart_config(job: ConnectorJob) -> Manifest:
    restart = job.connector.restart
    policy = "OnFailure" if restart.policy == "Always" and job.is_bounded else restart.policy
    return {
        "restartPolicy": policy,
        "maxRestartAttempts": ATTEMPTS_MAX if policy == "Always" else restart.retries_max,
        "restartBackoffMillis": restart.pause_s_max * 1000,
        # Else failures count for the whole life of the job.
        "restartCounterResetMillis": RETRIES_RESET_S * 1000,
    }
