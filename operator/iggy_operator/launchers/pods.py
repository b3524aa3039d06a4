"""The pods of a job: the driver's, the same for all launchers, and the executors'.

What a pod has is written into its template, and nowhere else: the fields for it in Kubeflow's own
API are dropped without a word where its webhook does not run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from iggy_operator.desired.broker_pod import RESTRICTED
from iggy_operator.desired.metadata import Manifest
from iggy_operator.launchers.job import (
    CHECKPOINT_PATH,
    JOB_FILE,
    JOB_FOLDER,
    LOGIN_FOLDER,
    METRICS_PORT,
    ConnectorJob,
)
from iggy_operator.launchers.secrets import VOLUMES, block_name
from iggy_operator.names import CA_KEY

DRIVER: Final = "spark-kubernetes-driver"
EXECUTOR: Final = "spark-kubernetes-executor"
"""Names by which Spark finds its containers in a template."""
USER_ID: Final = 185
"""Of Spark's images. It needs an entry in the image's list of users."""
GRACE_S: Final = 60
SUBMIT_VARIABLE: Final = "PYSPARK_SUBMIT_ARGS"
"""Read by PySpark. It could say anything, also what `spark.conf` may not."""
JOB_VOLUME: Final = "iggy-job"
CHECKPOINT_VOLUME: Final = "iggy-checkpoint"
TEMPORARY_VOLUME: Final = "iggy-tmp"
LOGIN_VOLUME: Final = "iggy-login"
_OWN_VOLUMES: Final = (
    JOB_VOLUME, LOGIN_VOLUME, CHECKPOINT_VOLUME, TEMPORARY_VOLUME, *VOLUMES.values()
)  # fmt: skip
_OWN_PATHS: Final = (JOB_FOLDER, LOGIN_FOLDER, CHECKPOINT_PATH, "/tmp", *VOLUMES)
_OFF_VOLUMES: Final = {
    "sink": "so that files would be lost with the pod: use",
    "source": "so that a pod has no files there: use",
}
_LOGIN_KEYS: Final = ("username", "password")
_SECRET_MODE: Final = 0o440  # for the pod's group

_PORTS: Final = {"ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}]}

# What `spark.podTemplate` may say: where pods run and what is mounted, never what they may do.
_PLACEMENT: Final = (
    "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName",
    "imagePullSecrets", "terminationGracePeriodSeconds",
)  # fmt: skip
_ALLOWED: Final = {
    "": {"metadata", "spec"},
    "metadata": {"labels", "annotations"},
    "spec": {*_PLACEMENT, "volumes", "containers"},
}
_CONTAINER: Final = {"name", "volumeMounts"}


def driver_template(job: ConnectorJob) -> Manifest:
    """The driver's pod as a template; a launcher adds image, command and sizes."""
    return _template(job, DRIVER, has_job=True)


def executor_template(job: ConnectorJob) -> Manifest:
    """An executor's. It reads from the broker, too, and marks in the checkpoint that it writes."""
    template = _template(job, EXECUTOR, has_job=False)
    # Only the driver talks to the API server.
    return {**template, "spec": {**template["spec"], "automountServiceAccountToken": False}}


def _template(job: ConnectorJob, container: str, *, has_job: bool) -> Manifest:
    wished = job.spark.get("podTemplate", {})
    metadata, spec = wished.get("metadata", {}), wished.get("spec", {})
    volumes = _volumes(job, has_job=has_job)
    result: Manifest = {"labels": {**metadata.get("labels", {}), **job.family.labels}}
    if annotations := metadata.get("annotations"):
        result["annotations"] = dict(annotations)
    return {
        "metadata": result,
        "spec": {
            "terminationGracePeriodSeconds": GRACE_S,
            **_pull_secrets(job),
            **{name: spec[name] for name in _PLACEMENT if spec.get(name)},
            # Else a Service called `iggy` would put its addresses into variables called IGGY_….
            "enableServiceLinks": False,
            "securityContext": {
                "runAsUser": USER_ID,
                "runAsGroup": USER_ID,
                "runAsNonRoot": True,
                "fsGroup": USER_ID,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": container,
                    "env": _environment(job),
                    **(_PORTS if has_job else {}),
                    "securityContext": dict(RESTRICTED),
                    # The job's last line says why it ended.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [*_mounts(job, has_job=has_job), *_own_mounts(spec)],
                }
            ],
            "volumes": [*volumes, *spec.get("volumes", ())],
        },
    }


def _environment(job: ConnectorJob) -> list[Manifest]:
    # The root is read-only, and Java wants to write home.
    own: list[Manifest] = [{"name": "HOME", "value": "/tmp"}]
    names = {entry["name"] for entry in own} | {SUBMIT_VARIABLE}
    return own + [entry for entry in job.spark.get("env", ()) if entry.get("name") not in names]


def _volumes(job: ConnectorJob, *, has_job: bool) -> list[Manifest]:
    tls = job.access.tls
    authority = (CA_KEY,) if tls is not None and tls.has_authority else ()
    volumes = [_secret(LOGIN_VOLUME, job.access.secret, (*_LOGIN_KEYS, *authority))]
    volumes += [_secret(VOLUMES[item.folder], item.name, item.keys) for item in job.secrets]
    if job.claim is not None:
        claim = {"claimName": job.claim}
        volumes.append({"name": CHECKPOINT_VOLUME, "persistentVolumeClaim": claim})
    elif job.location is None:
        volumes.append({"name": CHECKPOINT_VOLUME, "emptyDir": {}})
    volumes.append({"name": TEMPORARY_VOLUME, "emptyDir": {}})
    if has_job:
        items = [{"key": JOB_FILE, "path": JOB_FILE}]
        file: Manifest = {"name": job.file_name, "items": items}
        volumes.insert(0, {"name": JOB_VOLUME, "configMap": file})
    return volumes


def _secret(volume: str, secret: str, keys: Sequence[str]) -> Manifest:
    """A Secret as files: those of `keys`, or all."""
    content: Manifest = {"secretName": secret}
    if keys:
        content["items"] = [{"key": key, "path": key} for key in keys]
    return {"name": volume, "secret": {**content, "defaultMode": _SECRET_MODE}}


def _mounts(job: ConnectorJob, *, has_job: bool) -> list[Manifest]:
    read_only = [(LOGIN_VOLUME, LOGIN_FOLDER)]
    if has_job:
        read_only.insert(0, (JOB_VOLUME, JOB_FOLDER))
    read_only += [(VOLUMES[item.folder], item.folder) for item in job.secrets]
    mounts: list[Manifest] = [
        {"name": name, "mountPath": path, "readOnly": True} for name, path in read_only
    ]
    if job.location is None:
        mounts.append({"name": CHECKPOINT_VOLUME, "mountPath": CHECKPOINT_PATH})
    mounts.append({"name": TEMPORARY_VOLUME, "mountPath": "/tmp"})
    return mounts


def _pull_secrets(job: ConnectorJob) -> Manifest:
    names = job.release.image_pull_secrets
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def _own_mounts(spec: Mapping[str, Any]) -> list[Manifest]:
    return [
        mount
        for container in spec.get("containers", ())[:1]
        for mount in container.get("volumeMounts", ())
    ]


def problems(job: ConnectorJob) -> Iterator[str]:
    """What of `spark.podTemplate` is not allowed, and files that nothing would keep."""
    wished = job.spark.get("podTemplate", {})
    spec = wished.get("spec", {})
    where = "spark.podTemplate"
    for part, allowed in _ALLOWED.items():
        block = wished.get(part, {}) if part else wished
        for name in sorted(set(block) - allowed):
            place = ".".join(filter(None, (where, part, name)))
            yield f"{place}: may not be set: use {', '.join(sorted(allowed))}"
    if len(spec.get("containers", ())) > 1:
        yield f"{where}.spec.containers: give one, for driver and executors: a second is not run"
    for container in spec.get("containers", ())[:1]:
        for name in sorted(set(container) - _CONTAINER):
            yield f"{where}.spec.containers.{name}: may not be set: use volumeMounts"
    yield from _volume_problems(spec, where)
    yield from _path_problems(job, spec)
    if job.location is not None:
        yield from _address_problems("checkpoint.location", job.location)


def _volume_problems(spec: Mapping[str, Any], where: str) -> Iterator[str]:
    for volume in spec.get("volumes", ()):
        name = str(volume.get("name", ""))
        if "hostPath" in volume:
            yield f"{where}.spec.volumes: {name}: a node's own folder is not allowed: use a claim"
        if name in _OWN_VOLUMES:
            yield f"{where}.spec.volumes: {name} is a name of the operator: use another"
    for mount in _own_mounts(spec):
        path = str(mount.get("mountPath", "")).rstrip("/")
        if any(f"{path}/".startswith(f"{own}/") or path == "" for own in _OWN_PATHS):
            yield f"{where}.spec.containers: mountPath {path or '/'} is taken: use another folder"


def _path_problems(job: ConnectorJob, spec: Mapping[str, Any]) -> Iterator[str]:
    """Below no mount there are no files to read, and those that are written go with the pod."""
    if job.connector.type not in ("Files", "Delta"):
        return
    name = block_name(job.connector)
    field, path = f"{name}.path", str(job.connector.spec[name]["path"])
    if "://" in path:
        yield from _address_problems(field, path)
        return
    mounts = [str(mount.get("mountPath", "")).rstrip("/") for mount in _own_mounts(spec)]
    parts = path.split("/")
    if not any(mount and f"{path}/".startswith(f"{mount}/") for mount in mounts) or ".." in parts:
        yield (
            f"{field}: {path} lies on no volume, {_OFF_VOLUMES[job.connector.word]} a mountPath of "
            "spark.podTemplate, with its volume, such as a claim, or an address such as "
            "s3a://bucket/folder"
        )


def _address_problems(field: str, path: str) -> Iterator[str]:
    parts = path.split("/")[2:]
    is_sound = bool(parts[0]) and not {".", ".."} & set(parts) and "@" not in parts[0]
    if not path.startswith(("s3a://", "s3://")) or not is_sound:
        yield f"{field}: {path} is no address of an object store, such as s3a://bucket/folder"
