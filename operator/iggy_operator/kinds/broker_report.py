"""What a managed broker's status says: from what a pass has found. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator import units
from iggy_operator.blocked import Blocked
from iggy_operator.brokers import managed_address
from iggy_operator.cluster import Object
from iggy_operator.conditions import (
    CONFIG_APPLIED,
    CREDENTIALS_READY,
    PROGRESSING,
    READY,
    STORAGE_READY,
    Condition,
    condition,
)
from iggy_operator.decide.brokers import Rollout, Storage, requested
from iggy_operator.desired.broker_config import shards_count
from iggy_operator.desired.broker_pod import CONTAINER
from iggy_operator.desired.metadata import RELEASE_HASH
from iggy_operator.desired.staging import Change, change
from iggy_operator.desired.transports import further, served_secret, tls_secret
from iggy_operator.kinds.archive_report import (
    ArchiveFacts,
    archive_condition,
    archive_fields,
)
from iggy_operator.kinds.broker_certificate import (
    CertificateFacts,
    certificate_condition,
    certificate_fields,
)
from iggy_operator.kinds.common import IMPORTED_S
from iggy_operator.kinds.restore_report import restore_trouble, restored
from iggy_operator.objects import is_deleting, status_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker
from iggy_operator.units import time_text
from iggy_wire.replies import Stats

PROGRESS_S: Final = 5.0
"""While something is under way it is looked at so often."""
USED_PERCENT_MAX: Final = 85
REASONS_MAX: Final = 16  # as the schema says


@dataclass(frozen=True, slots=True)
class Facts:
    """What a pass has found, after its writes."""

    broker: Broker
    storage: Storage
    rollout: Rollout
    pod: Object | None
    claim: Object | None
    root_secret_name: str = ""
    missing: str = ""
    """What this cluster does not know."""
    stats: Stats | None = None
    users_count: int | None = None
    """None where the broker does not tell."""
    trouble: Blocked | None = None
    """Why there are no stats."""
    service: Object | None = None
    """The clients' Service, as it was before this pass."""
    root_problem: Blocked | None = None
    """Why root's password is not what is asked for."""
    archive: ArchiveFacts | None = None
    """None: nobody has looked."""
    certificate: CertificateFacts | None = None
    """None: nothing is encrypted."""
    waits_for: Blocked | None = None
    """A Secret without which the pod cannot start."""

    @property
    def is_hibernated(self) -> bool:
        """No pod is wanted."""
        return bool(self.broker.spec["hibernate"])

    @property
    def is_rolling(self) -> bool:
        """The StatefulSet is about to replace the pod."""
        if self.pod is None or self.rollout.step == "Keep":
            return False
        spec = self.rollout.manifest["spec"]
        if spec["updateStrategy"]["type"] == "OnDelete":
            return False
        wanted = spec["template"]["metadata"]["annotations"]
        marks = self.pod["metadata"].get("annotations", {})
        return change(marks, wanted) is not Change.NONE


def is_serving(facts: Facts) -> bool:
    """Whether the broker can be asked."""
    return not facts.is_hibernated and facts.pod is not None and _is_ready(facts.pod)


def serving_since(facts: Facts) -> str:
    """Which pod serves, and since when: another text whenever it has begun to."""
    assert facts.pod is not None, "it serves"
    ready = next(row for row in status_of(facts.pod)["conditions"] if row["type"] == "Ready")
    return f"{uid_of(facts.pod)} {ready.get('lastTransitionTime', '')}"


def is_under_way(facts: Facts) -> bool:
    """Whether a step of its own is still to end."""
    return bool(_step(facts))


def again_s(facts: Facts) -> float | None:
    """When the next pass makes sense."""
    if facts.trouble is not None:
        return facts.trouble.again_s
    if _step(facts):
        return PROGRESS_S
    if facts.archive is not None and facts.archive.place is not None:
        return IMPORTED_S
    if facts.certificate is not None or "rootCredentialsSecretName" in facts.broker.spec:
        return IMPORTED_S
    return None


def conditions_of(facts: Facts, value: Object) -> tuple[Condition, ...]:
    """All conditions of a managed broker; `value` is its object."""
    return tuple(_conditions(facts, value))


def _conditions(facts: Facts, value: Object) -> Iterator[Condition]:
    if (ready := _ready(facts)) is not None:
        yield ready
    step = _step(facts)
    reason = Reason.ROLLING_OUT if step else Reason.SYNCED
    yield condition(PROGRESSING, bool(step), reason, step)
    yield _storage_ready(facts)
    yield _config_applied(facts)
    if facts.archive is not None:
        yield archive_condition(facts.archive, facts.pod, rests=_rests(facts))
    if (told_of_it := certificate_condition(facts.certificate, value)) is not None:
        yield told_of_it
    if facts.root_problem is not None:
        told = facts.root_problem
        yield condition(CREDENTIALS_READY, False, told.reason, told.message)
    elif facts.stats is not None:
        yield condition(CREDENTIALS_READY, True, Reason.SYNCED)
    elif facts.trouble is not None and facts.trouble.reason is Reason.UNAUTHORIZED:
        text = facts.trouble.message
        yield condition(CREDENTIALS_READY, False, Reason.UNAUTHORIZED, text)


def _rests(facts: Facts) -> Reason | None:
    """Why nothing is archived; None if the broker serves."""
    if facts.is_hibernated:
        return Reason.HIBERNATED
    return None if is_serving(facts) and not facts.is_rolling else Reason.BROKER_NOT_READY


def _ready(facts: Facts) -> Condition | None:
    """None keeps what is there."""
    if facts.is_hibernated:
        text = "hibernate is true: no pod runs, and the volume is kept"
        return condition(READY, False, Reason.HIBERNATED, text)
    if facts.pod is None or not _is_ready(facts.pod):
        return _not_there(facts)
    if facts.is_rolling:
        return condition(READY, False, Reason.ROLLING_OUT, "the pod is about to be replaced")
    if facts.trouble is not None:
        told = facts.trouble
        if told.ready is None:
            return None
        return Condition(READY, told.ready, told.reason, told.message)
    text = f"{managed_address(facts.broker)} answers"
    if shut := _nobody_outside(facts.broker):
        text = f"{text}; {shut}"
    return condition(READY, True, Reason.SYNCED, text)


def _not_there(facts: Facts) -> Condition:
    if (told := facts.waits_for) is not None:
        return condition(READY, False, told.reason, told.message)
    is_waiting = facts.claim is not None and _phase(facts.claim) != "Bound"
    reason = Reason.VOLUME_PENDING if is_waiting else Reason.BROKER_NOT_READY
    return condition(READY, False, reason, _pod_text(facts.pod))


def _nobody_outside(broker: Broker) -> str:
    """What to say where the world outside was given a way, and nobody in it is let in."""
    listeners, policy = broker.spec["listeners"], broker.spec["networkPolicy"]
    is_open = not policy["enabled"] or policy.get("allowFrom") or listeners.get("sourceRanges")
    if listeners["serviceType"] == "ClusterIP" or is_open:
        return ""
    return (
        "its NetworkPolicy lets nobody in from outside the cluster: name the clients' networks in "
        "listeners.sourceRanges"
    )


def _endpoints(facts: Facts) -> dict[str, str]:
    tcp, listeners = managed_address(facts.broker), facts.broker.spec["listeners"]
    host = tcp.rpartition(":")[0]
    secret = tls_secret(facts.broker) if facts.pod is None else served_secret(facts.pod["spec"])
    scheme = "https" if secret else "http"
    fields = {"tcp": tcp, "http": f"{scheme}://{host}:{listeners['httpPort']}"}
    fields |= {name: f"{host}:{listeners[f'{name}Port']}" for name in further(facts.broker)}
    if external := _external(facts.broker, facts.service):
        fields["external"] = external
    return fields


def _external(broker: Broker, service: Object | None) -> str:
    """Where clients outside find it; empty as long as nobody knows."""
    listeners = broker.spec["listeners"]
    if listeners["serviceType"] == "ClusterIP" and "advertisedAddress" not in listeners:
        return ""
    port = listeners["tcpPort"]
    if advertised := listeners.get("advertisedAddress"):
        has_port = re.search(r":[0-9]+$", advertised.rpartition("]")[2] or advertised)
        return advertised if has_port else f"{advertised}:{port}"
    if service is None:
        return ""
    if listeners["serviceType"] == "NodePort":
        number = service["spec"]["ports"][0].get("nodePort")
        return f"NODE:{number}" if number else ""
    for item in status_of(service).get("loadBalancer", {}).get("ingress", ()):
        if host := item.get("hostname") or item.get("ip"):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return ""


def _step(facts: Facts) -> str:
    """What is under way; empty if nothing is."""
    if facts.is_hibernated:
        return "" if facts.pod is None else "the pod is stopping"
    if facts.pod is None or not _is_ready(facts.pod):
        return _pod_text(facts.pod)
    if facts.is_rolling:
        return "the pod is about to be replaced"
    if facts.claim is not None and not facts.storage.problem:
        return _growth_text(facts.claim)
    return ""


def _storage_ready(facts: Facts) -> Condition:
    claim = facts.claim
    if facts.storage.problem:
        return condition(STORAGE_READY, False, facts.storage.reason, facts.storage.problem)
    if facts.storage.broker.spec["storage"]["ephemeral"]:
        text = "the volume lives and dies with its pod"
        return condition(STORAGE_READY, True, Reason.SYNCED, text)
    if claim is None or _phase(claim) != "Bound":
        text = "the volume's claim is not bound yet"
        return condition(STORAGE_READY, False, Reason.VOLUME_PENDING, text)
    if text := _growth_text(claim):
        return condition(STORAGE_READY, False, Reason.VOLUME_PENDING, text)
    percent = _used_percent(facts.stats)
    if percent is not None and percent >= USED_PERCENT_MAX:
        text = f"{percent} % of the volume are in use: let storage.size grow, or keep less"
        return condition(STORAGE_READY, False, Reason.DISK_PRESSURE, text)
    return condition(STORAGE_READY, True, Reason.SYNCED)


def _config_applied(facts: Facts) -> Condition:
    rollout = facts.rollout
    if rollout.problem:
        return condition(CONFIG_APPLIED, False, Reason.IMMUTABLE_MISMATCH, rollout.problem)
    if facts.missing:
        return condition(CONFIG_APPLIED, False, Reason.UNSUPPORTED, facts.missing)
    if rollout.waiting:
        text = "a restart brings: " + "; ".join(rollout.waiting)
        return condition(CONFIG_APPLIED, False, Reason.RESTART_PENDING, text)
    if facts.pod is None or facts.is_rolling:
        text = "no pod has the wanted settings yet"
        return condition(CONFIG_APPLIED, False, Reason.ROLLING_OUT, text)
    return condition(CONFIG_APPLIED, True, Reason.SYNCED)


def fields_of(facts: Facts, value: Object, *, now_s: float) -> dict[str, Any]:
    """The status besides the conditions."""
    waiting = list(facts.rollout.waiting)[:REASONS_MAX]
    restart: dict[str, Any] = {"pending": bool(waiting), "reasons": waiting}
    last = status_of(value).get("restart", {}).get("lastRestartTime")
    if facts.rollout.restarts:
        last = time_text(now_s)
    if last is not None:
        restart["lastRestartTime"] = last
    desired = 0 if facts.is_hibernated else shards_count(facts.broker)
    fields: dict[str, Any] = {
        "endpoints": _endpoints(facts),
        "shards": {"desired": desired, "ready": desired if is_serving(facts) else 0},
        "storage": _storage_fields(facts),
        "credentials": {"rootSecretName": facts.root_secret_name},
        "restart": restart,
        **_pod_fields(facts.pod),
    }
    if facts.stats is not None:
        fields |= stats_fields(facts.stats, facts.users_count)
    fields["certificate"] = certificate_fields(facts.certificate)
    if facts.archive is not None:
        fields |= archive_fields(facts.archive)
    if (back := restored(facts.pod)) is not None:
        fields["restore"] = back.fields
    return fields


def stats_fields(stats: Stats, users_count: int | None) -> dict[str, Any]:
    """Version and counts, as the broker tells them."""
    counts = {
        "streams": stats.streams_count,
        "topics": stats.topics_count,
        "partitions": stats.partitions_count,
        "messages": stats.messages_count,
        "clients": stats.clients_count,
    }
    if users_count is not None:
        counts["users"] = users_count
    return {"version": stats.server_version, "counts": counts}


def _storage_fields(facts: Facts) -> dict[str, Any] | None:
    claim = facts.claim
    if claim is None:
        return None
    fields = {"claimName": claim["metadata"]["name"], "requested": requested(claim)}
    if capacity := _capacity(claim):
        fields["capacity"] = capacity
    stats = facts.stats
    if stats is not None and (percent := _used_percent(stats)) is not None:
        fields["usedBytes"] = max(0, stats.total_disk_space - stats.free_disk_space)
        fields["usedPercent"] = percent
    return fields


def _used_percent(stats: Stats | None) -> int | None:
    if stats is None or stats.total_disk_space <= 0:
        return None
    used = stats.total_disk_space - stats.free_disk_space
    return min(100, max(0, 100 * used // stats.total_disk_space))


def _pod_fields(pod: Object | None) -> dict[str, Any]:
    if pod is None:
        return {"image": None, "configHash": None}
    images = [item["image"] for item in pod["spec"]["containers"] if item["name"] == CONTAINER]
    marks: Mapping[str, str] = pod["metadata"].get("annotations", {})
    return {
        **({"image": images[0]} if images else {}),
        **({"configHash": marks[RELEASE_HASH]} if RELEASE_HASH in marks else {}),
    }


def _is_ready(pod: Object) -> bool:
    rows = status_of(pod).get("conditions", ())
    return not is_deleting(pod) and any(
        row["type"] == "Ready" and row["status"] == "True" for row in rows
    )


def _pod_text(pod: Object | None) -> str:
    """Why the pod is not ready, in Kubernetes' own words."""
    if pod is None:
        return "the pod is not there yet"
    if is_deleting(pod):
        return "the pod is stopping"
    for row in status_of(pod).get("conditions", ()):
        if row["type"] == "PodScheduled" and row["status"] == "False":
            return f"the pod waits for a node: {row.get('message', row.get('reason', ''))}"
    if text := restore_trouble(pod):
        return text
    for item in status_of(pod).get("containerStatuses", ()):
        waiting = item.get("state", {}).get("waiting")
        if waiting:
            return (
                f"the pod waits: {waiting.get('reason', '')} {waiting.get('message', '')}".strip()
            )
    return "the pod starts: it reads its volume before it serves"


def _phase(claim: Object) -> str:
    return str(status_of(claim).get("phase", "Pending"))


def _capacity(claim: Object) -> str:
    return str(status_of(claim).get("capacity", {}).get("storage", ""))


def _growth_text(claim: Object) -> str:
    capacity = _capacity(claim)
    if not capacity or units.quantity(capacity) >= units.quantity(requested(claim)):
        return ""
    return f"the volume grows from {capacity} to {requested(claim)}"
