"""The brokers that objects refer to: who may use them, how to log in, a `BrokerAdmin` for each."""

import asyncio
import base64
import binascii
import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from iggy_client import LinkError, Tls
from iggy_operator.backoff import Chance
from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerAdmin, Connect, Login
from iggy_operator.cache import Entry
from iggy_operator.certificates import CertificateProblem, check_authority, read_certificate
from iggy_operator.clock import Clock
from iggy_operator.cluster import Cluster, NotFoundError, Object, Ref
from iggy_operator.desired.broker_names import broker_names
from iggy_operator.desired.metadata import BROKER_LABEL, MANAGED_LABEL, MANAGER, label_value
from iggy_operator.desired.transports import served_secret, tls_secret
from iggy_operator.meter import NO_METER, Meter
from iggy_operator.metered import Metered
from iggy_operator.names import CA_KEY
from iggy_operator.objects import generation_of, is_owned, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Broker

CREDENTIALS_S: Final = 60.0
"""A broker's Secret is read again after so long."""
DISTRUST_S: Final = 5.0
"""Or after so long, while the broker does not let us in."""


@dataclass(frozen=True, slots=True)
class _Known:
    uid: str
    generation: int
    admin: BrokerAdmin
    read_at_s: float


class BrokerPool:
    """One `BrokerAdmin` for each IggyBroker object."""

    def __init__(
        self, connect: Connect, clock: Clock, chance: Chance, meter: Meter = NO_METER
    ) -> None:
        """Nothing is connected yet."""
        self._connect = connect
        self._meter = meter
        self._clock = clock
        self._chance = chance
        self._known: dict[Ref, _Known] = {}
        # One for each: a broker that does not answer holds up nobody else's.
        self._turns: defaultdict[Ref, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def admin(self, cluster: Cluster, broker: Entry) -> BrokerAdmin:
        """The way to this broker. Raises Blocked if there is none, ClusterError."""
        async with self._turns[broker.ref]:
            now_s = self._clock.monotonic_s()
            known = self._known.get(broker.ref)
            if known is not None and self._is_current(known, broker, now_s):
                return known.admin
            former = known.admin.login.tls if known is not None else None
            login = await _login(cluster, broker, former)
            admin = known.admin if known is not None and known.admin.login == login else None
            if admin is None:
                if known is not None:
                    await known.admin.close()
                connect = Metered(self._connect, broker.ref, self._clock, self._meter)
                admin = BrokerAdmin(login, connect, self._clock, self._chance)
            generation = generation_of(broker.value)
            self._known[broker.ref] = _Known(uid_of(broker.value), generation, admin, now_s)
            return admin

    def _is_current(self, known: _Known, broker: Entry, now_s: float) -> bool:
        if (known.uid, known.generation) != (uid_of(broker.value), generation_of(broker.value)):
            return False
        return now_s - known.read_at_s < CREDENTIALS_S

    def distrust(self, ref: Ref) -> None:
        """The credentials do not work: read the Secret before the next attempt.

        However many passes say so, it is read once in DISTRUST_S.
        """
        known = self._known.get(ref)
        if known is not None and self._clock.monotonic_s() - known.read_at_s >= DISTRUST_S:
            self._known[ref] = replace(known, read_at_s=-math.inf)

    def renew(self, ref: Ref) -> None:
        """The credentials have changed: read the Secret before the next attempt."""
        if (known := self._known.get(ref)) is not None:
            self._known[ref] = replace(known, read_at_s=-math.inf)

    async def keep_only(self, refs: Collection[Ref]) -> None:
        """Close the connections to all other brokers."""
        for ref in [ref for ref in self._turns if ref not in refs]:
            del self._turns[ref]
            if (known := self._known.pop(ref, None)) is not None:
                await known.admin.close()
            self._meter.forget_broker(ref)


def check_allowed(broker: Entry, namespace: str) -> None:
    """Whether objects of a namespace may use this broker. Raises Blocked."""
    assert isinstance(broker.resource, Broker)
    if not is_allowed(broker, namespace):
        raise Blocked(
            Reason.NOT_ALLOWED,
            f"{broker.ref} does not allow namespace {namespace}: its owner can add it to "
            "spec.allowedNamespaces",
        )


def is_allowed(broker: Entry, namespace: str) -> bool:
    """Whether objects of a namespace may use this broker."""
    if namespace == broker.ref.namespace:
        return True
    assert isinstance(broker.resource, Broker)
    allowed = broker.resource.spec["allowedNamespaces"]
    if allowed["from"] == "List":
        return namespace in allowed.get("names", ())
    return bool(allowed["from"] == "All")


async def _login(cluster: Cluster, broker: Entry, former: Tls | None) -> Login:
    assert isinstance(broker.resource, Broker)
    spec = broker.resource.spec
    if broker.resource.mode == "Managed":
        return await _managed_login(cluster, broker, broker.resource, former)
    external = spec["external"]
    secret = await read_secret(cluster, broker.ref.namespace, external["credentialsSecretName"])
    return Login(
        external["tcp"],
        secret_text(secret, "username"),
        secret_text(secret, "password"),
        await _tls(cluster, broker.ref.namespace, external),
    )


async def _tls(cluster: Cluster, namespace: str, external: Mapping[str, Any]) -> Tls | None:
    """How an external broker is to be trusted; None if it is spoken to in plain text."""
    if "tls" not in external and "caSecretName" not in external:
        return None
    pem = ""
    if name := external.get("caSecretName"):
        pem = secret_text(await read_secret(cluster, namespace, name), CA_KEY)
    tls = Tls(pem, external.get("tls", {}).get("serverName", ""))
    try:
        tls.context()
    except LinkError:
        text = f"key {CA_KEY} of Secret {name} holds no certificate: write it as PEM"
        raise Blocked(Reason.SECRET_INVALID, text) from None
    return tls


async def _managed_login(
    cluster: Cluster, entry: Entry, broker: Broker, former: Tls | None
) -> Login:
    if broker.spec["hibernate"]:
        text = f"{entry.ref} hibernates: set its spec.hibernate to false"
        raise Blocked(Reason.BROKER_NOT_READY, text)
    name = broker_names(broker.key.name).root_secret
    try:
        secret = await cluster.get(Ref("Secret", broker.key.namespace, name))
    except NotFoundError:
        text = f"{entry.ref} has no Secret of its root user yet: see its conditions"
        raise Blocked(Reason.BROKER_NOT_READY, text) from None
    if not is_root_secret_ours(secret, entry):
        raise Blocked(Reason.BROKER_NOT_READY, f"{entry.ref} is not ready: see its conditions")
    address = managed_address(broker)
    username, password = secret_text(secret, "username"), secret_text(secret, "password")
    return Login(address, username, password, await _managed_tls(cluster, broker, former))


async def _managed_tls(cluster: Cluster, broker: Broker, former: Tls | None) -> Tls | None:
    """How the pod is to be trusted; None if it speaks plain text.

    `former`: how it was trusted last. The broker keeps its certificate while the Secret is wrong,
    and so does who knows it already.
    """
    if not (name := await _served_secret(cluster, broker)):
        return None
    namespace = broker.key.namespace
    host = managed_address(broker).rpartition(":")[0]
    try:
        certificate = read_certificate(secret_values(await read_secret(cluster, namespace, name)))
        authority = certificate.authority_pem
        if other := broker.spec["listeners"].get("tls", {}).get("caSecretName"):
            name = other
            authority = secret_text(await read_secret(cluster, namespace, name), CA_KEY)
            check_authority(authority)
    except Blocked:
        if former is None:
            raise
        return former
    except CertificateProblem as problem:
        if former is None:
            raise Blocked(Reason.SECRET_INVALID, f"Secret {name}: {problem}") from None
        return former
    return Tls(authority, certificate.server_name(host))


async def _served_secret(cluster: Cluster, broker: Broker) -> str:
    """The Secret whose certificate the pod serves: what the spec asks for may wait for a restart.

    Without a pod it is what the next one will have.
    """
    names = broker_names(broker.key.name)
    namespace = broker.key.namespace
    for ref in (Ref("Pod", namespace, names.pod), Ref("StatefulSet", namespace, names.base)):
        try:
            value = await cluster.get(ref)
        except NotFoundError:
            continue
        return served_secret(value["spec"] if ref.kind == "Pod" else _pod_of(value))
    return tls_secret(broker)


def _pod_of(stateful_set: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = stateful_set["spec"]["template"]["spec"]
    return found


def managed_address(broker: Broker) -> str:
    """Where a managed broker's Service is found, from anywhere in the cluster."""
    host = f"{broker_names(broker.key.name).base}.{broker.key.namespace}.svc"
    return f"{host}:{broker.spec['listeners']['tcpPort']}"


def is_root_secret_ours(secret: Object, broker: Entry) -> bool:
    """Whether we made it: for this object, or for an earlier one whose volume was kept."""
    metadata = secret["metadata"]
    labels = metadata.get("labels", {})
    is_kept = not metadata.get("ownerReferences") and (
        labels.get(MANAGED_LABEL) == MANAGER
        and labels.get(BROKER_LABEL) == label_value(broker.ref.name)
    )
    return bool(is_kept or is_owned(secret, broker.value))


async def read_secret(cluster: Cluster, namespace: str, name: str) -> Object:
    """A Secret by name. Raises Blocked if there is none, ClusterError."""
    try:
        return await cluster.get(Ref("Secret", namespace, name))
    except NotFoundError:
        raise Blocked(
            Reason.SECRET_NOT_FOUND, f"there is no Secret {name} in namespace {namespace}: make it"
        ) from None


def secret_values(secret: Object) -> dict[str, bytes]:
    """All values of a Secret, as they are. Raises Blocked, which never shows one."""
    try:
        return {key: base64.b64decode(text) for key, text in secret.get("data", {}).items()}
    except binascii.Error:
        text = f"Secret {secret['metadata']['name']} is not in base64: write it anew"
        raise Blocked(Reason.SECRET_INVALID, text) from None


def secret_text(secret: Object, key: str) -> str:
    """One value of a Secret as text. Raises Blocked, which never shows a value."""
    name = secret["metadata"]["name"]
    encoded = secret.get("data", {}).get(key)
    if encoded is None:
        raise Blocked(Reason.SECRET_INVALID, f"Secret {name} has no key {key}: add it")
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Blocked(
            Reason.SECRET_INVALID, f"key {key} of Secret {name} is no text: write it anew"
        ) from None
