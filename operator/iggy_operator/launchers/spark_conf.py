"""The one Spark configuration that all launchers pass on."""

from collections.abc import Iterator, Mapping
from typing import Final

from iggy_operator.launchers.job import ConnectorJob, mebibytes

OVERHEAD_MIB_MIN: Final = 512
"""Beside the Java heap. Python and Arrow live there: 40 % of a small heap is too little."""
_OVERHEAD_PERCENT: Final = 40

# Set by the operator or the launcher, and refused in `spark.conf`. Kubeflow's webhook refuses some
# of them, too; without it they would win over the launcher's own fields. Folders of a node would
# come in past the pod template.
RESERVED: Final = (
    "spark.app.name",
    "spark.driver.memory",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.kubernetes.authenticate.",
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.container.image",
    "spark.kubernetes.driver.label.",
    "spark.kubernetes.driver.master",
    "spark.kubernetes.driver.podTemplate",
    "spark.kubernetes.driver.pod.",
    "spark.kubernetes.driver.volumes.hostPath.",
    "spark.kubernetes.executor.container.image",
    "spark.kubernetes.executor.label.",
    "spark.kubernetes.executor.podTemplate",
    "spark.kubernetes.executor.volumes.hostPath.",
    "spark.kubernetes.namespace",
    "spark.master",
    "spark.sql.streaming.checkpointLocation",
    "spark.submit.deployMode",
)


def spark_conf(job: ConnectorJob) -> dict[str, str]:
    """Sorted by key. What the user adds never wins over what is ours."""
    conf = {
        **{key: value for key, value in job.spark.get("conf", {}).items() if not _is_reserved(key)},
        **_dependencies(job.spark),
        "spark.app.name": job.name,
        "spark.sql.session.timeZone": "UTC",
        # Where the interface is on, Prometheus can read it; the job's own figures are the broker's.
        "spark.ui.prometheus.enabled": "true",
        "spark.kubernetes.executor.deleteOnTermination": "true",
    }
    return dict(sorted(conf.items()))


def _dependencies(spark: Mapping[str, list[str]]) -> dict[str, str]:
    lists = {
        "spark.jars.packages": spark.get("packages"),
        "spark.submit.pyFiles": spark.get("pyFiles"),
    }
    return {key: ",".join(names) for key, names in lists.items() if names}


def _is_reserved(key: str) -> bool:
    return key.startswith(RESERVED)


def problems(job: ConnectorJob) -> Iterator[str]:
    """Properties that the operator sets."""
    for key in sorted(job.spark.get("conf", {})):
        if _is_reserved(key):
            yield f"spark.conf: {key} is set by the operator: remove it, it has a field of its own"


def memory_mib(job: ConnectorJob, role: str) -> tuple[int, int]:
    """MiB of the Java heap, and MiB beside it, of `driver` or `executor`."""
    block = job.spark[role]
    heap = mebibytes(block["memory"])
    if "memoryOverhead" in block:
        return heap, mebibytes(block["memoryOverhead"])
    return heap, max(OVERHEAD_MIB_MIN, -(-heap * _OVERHEAD_PERCENT // 100))
