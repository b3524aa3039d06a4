"""The certificate of a managed broker: whether its Secret is right, and what waits until it is.

A pod is never replaced by one that could not start: while the Secret is wrong, what would restart
the broker waits, and the pod that runs goes on with the certificate that it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from iggy_operator.blocked import Blocked
from iggy_operator.brokers import read_secret, secret_values
from iggy_operator.certificates import Certificate, CertificateProblem, read_certificate
from iggy_operator.cluster import Object
from iggy_operator.conditions import CERTIFICATE_READY, Condition, condition, found
from iggy_operator.decide.brokers import Rollout
from iggy_operator.desired.staging import Change, change
from iggy_operator.desired.transports import served_secret, tls_secret
from iggy_operator.kinds.common import World
from iggy_operator.objects import status_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker
from iggy_operator.units import time_text


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What a pass has found in the Secret of `listeners.tls`."""

    secret_name: str
    certificate: Certificate | None
    """None: no broker can start with it."""
    problem: Blocked | None = None
    """What is wrong with it: of one that is there, that clients refuse it."""

    def stops_a_start(self, *, is_first: bool) -> bool:
        """Whether a pod cannot start with it, or shall not: one that clients refuse is no first."""
        return self.problem is not None and (self.certificate is None or is_first)


async def look(world: World, broker: Broker) -> CertificateFacts | None:
    """None: nothing is encrypted. Raises ClusterError."""
    if not (name := tls_secret(broker)):
        return None
    try:
        secret = await read_secret(world.cluster, broker.key.namespace, name)
        certificate = read_certificate(secret_values(secret))
    except Blocked as problem:
        text = f"listeners.tls: {problem.message}"
        return CertificateFacts(name, None, Blocked(problem.reason, text))
    except CertificateProblem as problem:
        return CertificateFacts(name, None, _invalid(name, str(problem)))
    if refused := certificate.refused_by_clients(world.clock.now_s()):
        return CertificateFacts(name, certificate, _invalid(name, refused))
    return CertificateFacts(name, certificate)


def _invalid(name: str, text: str) -> Blocked:
    return Blocked(Reason.SECRET_INVALID, f"listeners.tls: Secret {name}: {text}")


def held(rollout: Rollout, running: Object | None, facts: CertificateFacts | None) -> Rollout:
    """The same, without what would start a pod that cannot serve.

    `running`: the StatefulSet that is there. A certificate that only clients refuse holds up no
    more than the move to it.
    """
    if facts is None or facts.problem is None or not rollout.manifest["spec"]["replicas"]:
        return rollout
    if facts.certificate is not None and _served(running) == facts.secret_name:
        return rollout
    if not rollout.restart and running is not None and _is_same(running, rollout.manifest):
        return rollout
    waiting = (*rollout.waiting, f"what waits for a certificate ({facts.problem.message})")
    return replace(
        rollout, step="Keep", restarts=False, restart=False, waiting=waiting, is_release=False
    )


def _served(running: Object | None) -> str:
    return "" if running is None else served_secret(running["spec"]["template"]["spec"])


def _is_same(running: Object, wanted: Mapping[str, Any]) -> bool:
    """Whether nothing is to start that does not run."""
    if not running["spec"].get("replicas"):
        return False
    marks = [item["spec"]["template"]["metadata"].get("annotations", {}) for item in
             (running, wanted)]  # fmt: skip
    return change(*marks) is Change.NONE


def certificate_condition(facts: CertificateFacts | None, value: Object) -> Condition | None:
    """None: there never was one. `value`: the broker's object."""
    if facts is None:
        if found(status_of(value).get("conditions", ()), CERTIFICATE_READY) is None:
            return None
        text = "listeners.tls is not set: nothing is encrypted"
        return condition(CERTIFICATE_READY, True, Reason.SYNCED, text)
    if (told := facts.problem) is not None:
        return condition(CERTIFICATE_READY, False, told.reason, told.message)
    assert facts.certificate is not None, "there is one where nothing is wrong"
    names = ", ".join(facts.certificate.names)
    text = f"for {names} until {time_text(facts.certificate.not_after_s)}"
    return condition(CERTIFICATE_READY, True, Reason.SYNCED, text)


def certificate_fields(facts: CertificateFacts | None) -> dict[str, Any] | None:
    """Of the status; None takes them away."""
    if facts is None:
        return None
    fields: dict[str, Any] = {"secretName": facts.secret_name}
    if (one := facts.certificate) is not None:
        fields |= {"names": list(one.names), "notAfter": time_text(one.not_after_s)}
    return fields
