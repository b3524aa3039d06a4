"""A broker's settings: what the operator sets itself, what the spec adds, what is refused."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from iggy_operator import units
from iggy_operator.desired.archive import archive_problems, archiver_settings
from iggy_operator.desired.broker_names import broker_names
from iggy_operator.desired.encryption import encryption_settings
from iggy_operator.desired.transports import (
    HTTP_PORT,
    MONITORING_PORT,
    TCP_PORT,
    own_keys,
    transport_settings,
)
from iggy_operator.resources import Broker

DATA_PATH: Final = "/var/lib/iggy"
DATA_FOLDER: Final = f"{DATA_PATH}/data"
"""A folder of its own: the root of a volume may hold `lost+found`, which is not ours."""
STOP_REST_S: Final = 15
"""Of the grace period, kept for writing everything to disk after the requests in flight."""
GRACE_S: Final = 60

# What belongs to the operator, as the end of a variable `IGGY_…` or `IGGY_SYSTEM_…`. Dots and
# underscores of a key are one in its variable, so that is what is looked at.
_OWN: Final = (
    "path", "sharding", "tcp_address", "tcp_advertised_address", "tcp_enabled", "http_address",
    "monitoring_", "config_", "root_", "encryption_", "archiver_", "segment_archive_expired",
    *(f"data_maintenance_archiver_{name}" for name in (
        "enabled", "kind", "archive_expired", "continuous", "interval", "path", "disk_", "s3_",
    )),
)  # fmt: skip
_DEFAULTS: Final = {
    # The profile Balanced of a topic promises a second.
    "IGGY_SYSTEM_PARTITION_MESSAGE_SAVER_INTERVAL": "1 s",
    # No Service leads there, unless `listeners` has a port.
    "IGGY_WEBSOCKET_ENABLED": "false",
    "IGGY_QUIC_ENABLED": "false",
}
"""What `spec.config` may say otherwise."""
_KEY: Final = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_PREFIX: Final = "IGGY_"
_ID_MIN: Final = 1


def settings(broker: Broker) -> dict[str, str]:
    """What the operator sets, by environment variable."""
    grace_s = broker.spec.get("podTemplate", {}).get("terminationGracePeriodSeconds", GRACE_S)
    advertised = broker.spec["listeners"].get("advertisedAddress")
    transports = transport_settings(broker)
    given = {*further_settings(broker), *transports}
    return {
        **({"IGGY_TCP_ADVERTISED_ADDRESS": advertised} if advertised else {}),
        "IGGY_SYSTEM_PATH": DATA_FOLDER,
        "IGGY_TCP_ADDRESS": f"0.0.0.0:{TCP_PORT}",
        "IGGY_HTTP_ADDRESS": f"0.0.0.0:{HTTP_PORT}",
        "IGGY_MONITORING_ADDRESS": f"0.0.0.0:{MONITORING_PORT}",
        **{name: value for name, value in _DEFAULTS.items() if name not in given},
        **transports,
        "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": str(shards_count(broker)),
        "IGGY_SYSTEM_SHARDING_SHUTDOWN_DRAIN_TIMEOUT": f"{max(1, grace_s - STOP_REST_S)} s",
        # An unknown key of `spec.config` ends the start: a warning in a log would go unseen.
        "IGGY_CONFIG_STRICT": "true",
        **archiver_settings(broker),
        **encryption_settings(broker),
    }


def further_settings(broker: Broker) -> dict[str, str]:
    """What `spec.config` adds, by environment variable. Same names as in local mode."""
    own = own_keys(broker)
    return {
        _PREFIX + key.upper().replace(".", "_"): value
        for key, value in sorted(broker.config.items())
        if not _key_problem(key, (*_OWN, *own))
    }


def shards_count(broker: Broker) -> int:
    """`shards.count`, or the CPU that is reserved, rounded down, at least 1."""
    if broker.shards_count is not None:
        return broker.shards_count
    resources = broker.spec.get("resources", {})
    # Kubernetes takes a limit for the request where there is none.
    text = resources.get("requests", {}).get("cpu") or resources.get("limits", {}).get("cpu")
    if text is None or not units.is_quantity(text):
        return 1
    return max(1, int(units.quantity(text)))


def problems(broker: Broker) -> tuple[str, ...]:
    """What of a managed broker's spec cannot be had: one sentence each, with field and way out.

    Nothing is made while there is one. The schema refuses less than this.
    """
    spec = broker.spec
    template = spec.get("podTemplate", {})
    own = own_keys(broker)
    return (
        *_unsupported(spec),
        *archive_problems(broker),
        *_name_problems(broker),
        *filter(None, (_key_problem(key, (*_OWN, *own)) for key in sorted(broker.config))),
        *_same_settings(broker.config),
        *_quantity_problems(spec.get("resources", {})),
        *_environment_problems(template, own),
        *_security_problems(template),
    )


def transport_problems(broker: Broker) -> tuple[str, ...]:
    """Settings in `spec.config` that `listeners` has fields for."""
    own = own_keys(broker)
    return tuple(filter(None, (_key_problem(key, own) for key in sorted(broker.config))))


def _unsupported(spec: Mapping[str, Any]) -> Iterator[str]:
    """What this version of the broker does not do. Never silently less than was asked for."""
    if spec["shards"]["pinCores"]:
        yield "shards.pinCores: this version does not tie shards to cores: set it to false"
    for cidr in spec["listeners"].get("sourceRanges", ()):
        try:
            ipaddress.ip_network(cidr)
        except ValueError as error:
            yield f"listeners.sourceRanges: {error}: write a network such as 203.0.113.0/24"


def _name_problems(broker: Broker) -> Iterator[str]:
    names = broker_names(broker.key.name)
    name = broker.spec.get("rootCredentialsSecretName")
    if name in (names.root_secret, names.root_secret_next):
        yield f"rootCredentialsSecretName: {name} is a name of the operator's own: use another"


def _plain(key: str) -> str:
    return key.lower().replace(".", "_").removeprefix("system_")


def _key_problem(key: str, own: tuple[str, ...]) -> str:
    if not _KEY.fullmatch(key):
        return f"config: {key!r} is no key: write lower-case words joined by dots"
    if _plain(key).startswith(own):
        fields = "storage, shards, listeners, archiver, encryption"
        return f"config: {key} is set by the operator: remove it (see {fields})"
    return ""


def _same_settings(config: Mapping[str, str]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for key in sorted(config):
        first = seen.setdefault(_plain(key), key)
        if first != key:
            yield f"config: {first} and {key} are one setting: remove one"


def _quantity_problems(resources: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for part in ("requests", "limits"):
        for name, text in resources.get(part, {}).items():
            if not units.is_quantity(text):
                yield f"resources.{part}.{name}: {text!r} is no quantity, such as 500m or 2Gi"


def _environment_problems(template: Mapping[str, Any], own: tuple[str, ...]) -> Iterator[str]:
    for entry in template.get("extraEnv", ()):
        name = str(entry.get("name", ""))
        variable = _plain(name.removeprefix(_PREFIX))
        if name.startswith(_PREFIX) and variable.startswith((*_OWN, *own)):
            yield f"podTemplate.extraEnv: {name} is set by the operator: remove it"


# What may be said about the pod's security: nothing here can give it more than the default has.
TIGHTENING: Final = frozenset(
    {
        "runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "fsGroupChangePolicy",
        "seLinuxOptions", "seccompProfile", "runAsNonRoot",
    }
)  # fmt: skip
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_IDS: Final = ("runAsUser", "runAsGroup", "fsGroup")


def _security_problems(template: Mapping[str, Any]) -> Iterator[str]:
    context = template.get("securityContext", {})
    where = "podTemplate.securityContext"
    for name in sorted(set(context) - TIGHTENING):
        yield f"{where}.{name}: may not be set: it could only loosen the default"
    ids = [(name, context[name]) for name in _IDS if name in context]
    ids += [("supplementalGroups", item) for item in context.get("supplementalGroups", ())]
    for name, value in ids:
        if not isinstance(value, int) or value < _ID_MIN:
            yield f"{where}.{name}: {value!r}: root is not allowed, use a number above 0"
    if context.get("runAsNonRoot", True) is not True:
        yield f"{where}.runAsNonRoot: must stay true: remove it"
    if context.get("seccompProfile", {}).get("type", "RuntimeDefault") not in _PROFILES:
        yield f"{where}.seccompProfile: use RuntimeDefault or Localhost"
