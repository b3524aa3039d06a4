"""The broker's pod: restricted profile, probes, settings, volumes."""

from collections.abc import Mapping
from typing import Any, Final

from iggy_operator.desired import archive, broker_config, staging, transports
from iggy_operator.desired.broker_config import DATA_PATH
from iggy_operator.desired.broker_names import DATA_VOLUME, broker_names
from iggy_operator.desired.encryption import encryption_mounts, encryption_volumes
from iggy_operator.desired.metadata import Family, Manifest, without_defaults
from iggy_operator.desired.release import Release
from iggy_operator.desired.transports import MONITORING_PORT
from iggy_operator.resources import Broker
from iggy_operator.schema import schemas

CONTAINER: Final = "broker"
USER_ID: Final = 10_001

# Fields whose change the running process can only take over by a restart.
RESTARTING: Final = (
    "image", "imagePullPolicy", "shards", "resources", "config", "podTemplate", "restoreFrom",
    "encryption",
)  # fmt: skip
_PLACEMENT: Final = (
    "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName",
)  # fmt: skip
RESTRICTED: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""Security context of every container that we start."""


def pod_template(broker: Broker, family: Family, release: Release, *, restart_at: str) -> Manifest:
    """The StatefulSet's template, with the annotations that `staging` compares."""
    template = broker.spec.get("podTemplate", {})
    spec = _pod_spec(broker, template, release)
    own = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(MONITORING_PORT),
        "prometheus.io/path": "/metrics",
    }
    annotations = {**template.get("annotations", {}), **own}
    labels = {**template.get("labels", {}), **family.labels}
    config = broker_config.further_settings(broker)
    marks = staging.marks(
        asked=_asked(broker),
        rendered=[labels, annotations, spec, config],
        restart_at=restart_at,
    )
    return {
        "metadata": {"labels": labels, "annotations": {**annotations, **marks}},
        "spec": spec,
    }


def _asked(broker: Broker) -> object:
    node = schemas()["IggyBroker"].root["properties"]["spec"]
    fields = {name: broker.spec[name] for name in RESTARTING if name in broker.spec}
    fields["archiver"] = archive.asked(broker.spec["archiver"])
    asked = without_defaults(fields, node)
    asked.update(transports.asked(broker))
    if "restoreFrom" in broker.spec:
        asked.setdefault("restoreFrom", {})  # empty, it still asks for something
    return asked


def _pod_spec(broker: Broker, template: Mapping[str, Any], release: Release) -> Manifest:
    names = broker_names(broker.key.name)
    volumes: list[Manifest] = [{"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}}]
    if broker.spec["storage"]["ephemeral"]:
        size = broker.spec["storage"]["size"]
        volumes.append({"name": DATA_VOLUME, "emptyDir": {"sizeLimit": size}})
    volumes += (
        *archive.archive_volumes(broker),
        *encryption_volumes(broker),
        *transports.tls_volumes(broker),
    )
    container = _container(broker, template, release)
    return {
        "serviceAccountName": template.get("serviceAccountName", names.account),
        "automountServiceAccountToken": False,
        # Else a Service called `iggy` would put its addresses into variables called IGGY_….
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": template.get(
            "terminationGracePeriodSeconds", broker_config.GRACE_S
        ),
        "securityContext": _security_context(template),
        **{name: template[name] for name in _PLACEMENT if template.get(name)},
        **_pull_secrets(template, release),
        **_restoring(broker, container),
        "containers": [container],
        "volumes": volumes,
    }


def _pull_secrets(template: Mapping[str, Any], release: Release) -> Manifest:
    """Those of the broker, then those of the installation."""
    own = [item["name"] for item in template.get("imagePullSecrets", ())]
    names = dict.fromkeys([*own, *release.image_pull_secrets])
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def _security_context(template: Mapping[str, Any]) -> Manifest:
    wished = template.get("securityContext", {})
    return {
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
        **{name: value for name, value in wished.items() if name in broker_config.TIGHTENING},
        "runAsNonRoot": True,
    }


def _container(broker: Broker, template: Mapping[str, Any], release: Release) -> Manifest:
    names = broker_names(broker.key.name)
    secret = names.root_secret  # also where the spec names another: ours has what the volume knows
    env: list[Manifest] = [
        {"name": name, "value": value} for name, value in broker_config.settings(broker).items()
    ]
    env += [secret_variable("IGGY_ROOT_USERNAME", secret, "username")]
    env += [secret_variable("IGGY_ROOT_PASSWORD", secret, "password")]
    env += _secret_variables(archive.archiver_login(broker))
    own = {entry["name"] for entry in env}
    env += [entry for entry in template.get("extraEnv", ()) if entry.get("name") not in own]
    container: Manifest = {
        "name": CONTAINER,
        "image": broker.spec.get("image", release.broker_image),
        "imagePullPolicy": broker.spec.get("imagePullPolicy", release.image_pull_policy),
        # Nothing but SIGTERM is needed to stop it well: it finishes what is open and syncs.
        "command": ["iggy-broker"],
        "env": env,
        # Settings of the user only: a container that dies takes over nothing of a new release.
        "envFrom": [{"configMapRef": {"name": names.config}}],
        "ports": transports.container_ports(broker),
        **_probes(),
        "securityContext": dict(RESTRICTED),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": DATA_VOLUME, "mountPath": DATA_PATH},
            {"name": "tmp", "mountPath": "/tmp"},
            *archive.archive_mounts(broker),
            *encryption_mounts(broker),
            *transports.tls_mounts(broker),
        ],
    }
    if resources := broker.spec.get("resources"):
        container["resources"] = resources
    return container


def _restoring(broker: Broker, container: Mapping[str, Any]) -> Manifest:
    """The container that fills an empty volume before the broker starts."""
    if "restoreFrom" not in broker.spec:
        return {}
    left_out = {"ports", "startupProbe", "livenessProbe", "readinessProbe"}
    kept = {name: item for name, item in container.items() if name not in left_out}
    values, secrets = archive.restore_settings(broker)
    own = {*archive.archiver_settings(broker), *archive.archiver_login(broker)}
    return {
        "initContainers": [
            {
                **kept,
                "name": archive.RESTORE,
                "command": archive.restore_command(broker),
                "env": [
                    *(entry for entry in container["env"] if entry["name"] not in own),
                    *({"name": name, "value": value} for name, value in values.items()),
                    *_secret_variables(secrets),
                ],
                "volumeMounts": [*container["volumeMounts"], *archive.restore_mounts(broker)],
            }
        ]
    }


def _secret_variables(login: Mapping[str, tuple[str, str]]) -> list[Manifest]:
    return [secret_variable(name, *place) for name, place in login.items()]


def secret_variable(name: str, secret: str, key: str) -> Manifest:
    """An environment variable that Kubernetes fills from a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _probes() -> Manifest:
    """Alive is not ready: recovery of a large log takes a while, and must not be cut short."""

    def http(path: str, period_s: int, failures: int) -> Manifest:
        return {
            "httpGet": {"path": path, "port": "monitoring"},
            "periodSeconds": period_s,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        }

    return {
        "startupProbe": http("/ping", 10, 180),
        "livenessProbe": http("/ping", 10, 6),
        "readinessProbe": http("/ready", 5, 3),
    }
