"""Where the API server keeps each kind that the operator touches: groups, versions, paths. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from iggy_operator import API_GROUP, API_VERSION
from iggy_operator.cluster import Ref


@dataclass(frozen=True, slots=True)
class ApiKind:
    """One resource type."""

    api_version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def root(self) -> str:
        """The path of its group and version."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        return f"{prefix}/{self.api_version}"

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """One object, or all of a namespace, or all."""
        within = ["namespaces", namespace] if self.is_namespaced and namespace else []
        steps = [self.root, *within, self.plural, name, subresource]
        return "/".join(step for step in steps if step)


_OURS: Final = ("iggybrokers", "iggystreams", "iggytopics", "iggyusers", "iggysinks", "iggysources")
_OUR_KINDS: Final = ("IggyBroker", "IggyStream", "IggyTopic", "IggyUser", "IggySink", "IggySource")
SPARK_KINDS: Final[Mapping[str, ApiKind]] = {
    f"SparkApplication.{group}": ApiKind(
        f"{group}/{version}", "sparkapplications", "SparkApplication"
    )
    for group, version in (("sparkoperator.k8s.io", "v1beta2"), ("spark.apache.org", "v1"))
}
API_KINDS: Final[Mapping[str, ApiKind]] = {
    **{
        kind: ApiKind(API_VERSION, plural, kind)
        for plural, kind in zip(_OURS, _OUR_KINDS, strict=True)
    },
    **{
        item.kind: item
        for item in (
            ApiKind("v1", "configmaps", "ConfigMap"),
            ApiKind("v1", "namespaces", "Namespace", is_namespaced=False),
            ApiKind("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
            ApiKind("v1", "pods", "Pod"),
            ApiKind("v1", "secrets", "Secret"),
            ApiKind("v1", "serviceaccounts", "ServiceAccount"),
            ApiKind("v1", "services", "Service"),
            ApiKind("apps/v1", "statefulsets", "StatefulSet"),
            ApiKind("batch/v1", "jobs", "Job"),
            ApiKind("coordination.k8s.io/v1", "leases", "Lease"),
            ApiKind("events.k8s.io/v1", "events", "Event"),
            ApiKind("monitoring.coreos.com/v1", "podmonitors", "PodMonitor"),
            ApiKind("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
            ApiKind("storage.k8s.io/v1", "storageclasses", "StorageClass", is_namespaced=False),
        )
    },
    **SPARK_KINDS,
}
"""By the `kind` of a `Ref`."""
WATCHED_CHILDREN: Final = (
    "StatefulSet", "Pod", "PersistentVolumeClaim", "Job", *SPARK_KINDS,
)  # fmt: skip
"""Kinds whose objects are watched where they bear our label."""
OPENAPI_PATH: Final = f"/openapi/v3/apis/{API_GROUP}/{API_VERSION.partition('/')[2]}"
"""What the API server knows of our own kinds; every authenticated user may read it."""


def path_of(ref: Ref, *, subresource: str = "") -> str:
    """Where an object is."""
    kind = API_KINDS[ref.kind]
    return kind.path(namespace=ref.namespace, name=ref.name, subresource=subresource)
