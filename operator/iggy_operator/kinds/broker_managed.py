"""IggyBroker with mode Managed: one pod with its volume, Services and settings.

Everything is read, then decided at once, then written in an order in which every prefix heals:
Secret, claim, the small children, the StatefulSet, what is unwanted, the pod.
"""

from dataclasses import dataclass, replace
from typing import Final

from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerDeniedError, BrokerError
from iggy_operator.cache import Entry
from iggy_operator.cluster import NotFoundError, Object, Ref
from iggy_operator.decide.archives import ArchiveVolume
from iggy_operator.decide.brokers import (
    Rollout,
    Storage,
    decide_rollout,
    decide_storage,
    may_grow,
)
from iggy_operator.desired import broker_config
from iggy_operator.desired.broker import broker_children
from iggy_operator.desired.broker_names import broker_names
from iggy_operator.desired.metadata import Manifest, owner_of
from iggy_operator.kinds import broker_archive, broker_certificate, broker_report, root_password
from iggy_operator.kinds import broker_children as children
from iggy_operator.kinds.broker_certificate import CertificateFacts
from iggy_operator.kinds.broker_report import Facts
from iggy_operator.kinds.common import Note, Verdict, World
from iggy_operator.kinds.restore_report import restored
from iggy_operator.kinds.root_password import Root
from iggy_operator.objects import annotation, is_deleting, ref_of, status_of, uid_of
from iggy_operator.reasons import Reason
from iggy_operator.reporting import trouble
from iggy_operator.resources import Broker
from iggy_operator.status import Report

_NO_MONITOR: Final = (
    "monitoring.podMonitor: this cluster does not know PodMonitors: install Prometheus' operator, "
    "or set it to false"
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a pass has read, and what it makes of it."""

    storage: Storage
    rollout: Rollout
    small: tuple[Manifest, ...]
    """All children but the StatefulSet."""
    live: dict[Ref, Object]
    pod: Object | None
    claim: Object | None
    archive: ArchiveVolume
    archive_claim: Object | None


async def reconcile(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """One pass. Raises Blocked, ClusterError."""
    broker = entry.resource
    assert isinstance(broker, Broker)
    if problems := broker_config.problems(broker):
        raise Blocked(Reason.UNSUPPORTED, "; ".join(problems))
    broker_archive.check_place(world, entry, broker)
    plan = await _planned(world, entry, broker)
    certificate = await broker_certificate.look(world, broker)
    running = plan.live.get(ref_of(plan.rollout.manifest))
    plan = replace(plan, rollout=broker_certificate.held(plan.rollout, running, certificate))
    root = await root_password.prepare(world, entry, may_act=may_act)
    missing = ""
    has_acted = False
    if may_act:
        has_acted, missing = await _act(world, entry, plan)
    else:
        plan = replace(plan, rollout=_left_alone(plan.rollout))
    facts = await _facts(world, entry, plan, has_acted=has_acted)
    if not may_act:
        facts = _as_it_is(facts, running)
    service = plan.live.get(Ref("Service", entry.ref.namespace, broker_names(entry.ref.name).base))
    facts = replace(facts, root_secret_name=root.name, missing=missing, service=service)
    serving = facts.pod if broker_report.is_serving(facts) else None
    seen = await broker_archive.look(world, broker, plan.archive, serving)
    waits_for = None if serving else await _waits_for(world, facts, certificate)
    facts = replace(facts, archive=seen, certificate=certificate, waits_for=waits_for)
    notes = _restore_notes(entry, facts)
    # Nobody logs in to a broker that is to be hibernated, also while it is paused and serves on.
    if broker_report.is_serving(facts) and not broker.spec["hibernate"]:
        facts = await _asked(world, entry, facts)
        if may_act:
            facts, more = await _root_followed(world, entry, facts, root)
            notes = (*notes, *more)
        else:
            facts = replace(facts, root_problem=root.problem)
    if not broker_report.is_under_way(facts) and not plan.rollout.is_release:
        world.turns.give_back(entry.ref)
    conditions = broker_report.conditions_of(facts, entry.value)
    fields = broker_report.fields_of(facts, entry.value, now_s=world.clock.now_s())
    return Verdict(Report(conditions, fields), notes, again_s=broker_report.again_s(facts))


async def _waits_for(
    world: World, facts: Facts, certificate: CertificateFacts | None
) -> Blocked | None:
    """A Secret without which the pod cannot start."""
    if certificate is not None and certificate.stops_a_start(is_first=facts.pod is None):
        return certificate.problem
    return await broker_archive.waits_for(world, facts.broker)


def _restore_notes(entry: Entry, facts: Facts) -> tuple[Note, ...]:
    """Told once for each volume that came back."""
    back = restored(facts.pod)
    known = status_of(entry.value).get("restore", {}).get("time")
    if back is None or back.time == known:
        return ()
    return (Note("Restored", back.message, is_warning=not back.is_complete),)


async def _planned(world: World, entry: Entry, broker: Broker) -> _Plan:
    pod, claim = await _pod_and_claim(world, entry)
    wanted = _children(world, entry, broker)
    live = await children.observe(world, entry, [ref_of(child) for child in wanted])
    stateful_set = next((item for ref, item in live.items() if ref.kind == "StatefulSet"), None)
    obstacle = ""
    if claim is not None and may_grow(broker, claim):
        obstacle = await children.growth_obstacle(world, entry, claim)
    storage = decide_storage(broker, stateful_set, claim, obstacle=obstacle)
    archive, archive_claim = await broker_archive.volume(world, entry, storage.broker)
    wanted = _children(world, entry, archive.broker)
    rendered = next(child for child in wanted if child["kind"] == "StatefulSet")
    rollout = _rollout(world, entry, stateful_set, pod, rendered)
    small = tuple(child for child in wanted if child["kind"] != "StatefulSet")
    return _Plan(storage, rollout, small, live, pod, claim, archive, archive_claim)


def _rollout(
    world: World,
    entry: Entry,
    stateful_set: Object | None,
    pod: Object | None,
    rendered: Manifest,
) -> Rollout:
    """A new release waits, or takes its turn, as the installation says."""
    # No pod, as where the cluster refuses to make it: as long as it never served, none waits.
    is_unborn = pod is None and "version" not in status_of(entry.value)
    rollout = decide_rollout(stateful_set, pod, rendered, releases_restart=is_unborn)
    if not rollout.is_release or not world.product.restart_on_upgrade:
        return rollout
    other = world.turns.take(entry.ref, world.cache.of_kind("IggyBroker"))
    if other is None:
        return decide_rollout(stateful_set, pod, rendered, releases_restart=True)
    return replace(rollout, waiting=(*rollout.waiting, f"{other} is restarted first"))


def _left_alone(rollout: Rollout) -> Rollout:
    """Of a paused broker: what would restart its pod waits."""
    if not rollout.restarts:
        return rollout
    waiting = (*rollout.waiting, "what has changed while the broker was paused")
    return replace(rollout, step="Keep", restarts=False, restart=False, waiting=waiting)


def _as_it_is(facts: Facts, stateful_set: Object | None) -> Facts:
    """Of a paused broker: what was asked for meanwhile is not under way."""
    broker, storage = facts.broker, facts.storage
    if stateful_set is not None:
        is_hibernated = stateful_set["spec"].get("replicas") == 0
        broker = replace(broker, spec={**broker.spec, "hibernate": is_hibernated})
    if storage.grow_to:
        text = f"storage.size is {storage.grow_to}: nothing grows while the broker is paused"
        storage = replace(storage, grow_to="", reason=Reason.PAUSED, problem=text)
    return replace(facts, broker=broker, storage=storage)


def _children(world: World, entry: Entry, broker: Broker) -> tuple[Manifest, ...]:
    return broker_children(
        broker,
        owner_of(entry.value),
        world.product,
        restart_at=annotation(entry.value, "restart-at"),
    )


async def _pod_and_claim(world: World, entry: Entry) -> tuple[Object | None, Object | None]:
    pod = await children.found(world.cluster, children.pod_ref(entry))
    if pod is not None and not children.is_labelled(pod, entry):
        pod = None
    return pod, await children.found(world.cluster, children.claim_ref(entry))


async def _act(world: World, entry: Entry, plan: _Plan) -> tuple[bool, str]:
    """Whether anything was written, and what this cluster does not know."""
    has_acted, missing = False, ""
    if plan.storage.grow_to and plan.claim is not None:
        await children.grow(world, plan.claim, plan.storage.grow_to)
        has_acted = True
    if plan.archive.grow_to and plan.archive_claim is not None:
        await children.grow(world, plan.archive_claim, plan.archive.grow_to)
        has_acted = True
    for child in plan.small:
        try:
            has_acted |= await children.write(world, child, plan.live.get(ref_of(child)))
        except NotFoundError:
            if child["kind"] != "PodMonitor":
                raise
            missing = _NO_MONITOR
    has_acted |= await _write_stateful_set(world, plan)
    wanted = {ref_of(child) for child in plan.small}
    has_acted |= await children.remove_unwanted(world, entry, wanted)
    if plan.rollout.restart and plan.pod is not None and not is_deleting(plan.pod):
        await world.cluster.delete(ref_of(plan.pod), uid=uid_of(plan.pod))
        has_acted = True
    return has_acted, missing


async def _write_stateful_set(world: World, plan: _Plan) -> bool:
    rollout = plan.rollout
    old = plan.live.get(ref_of(rollout.manifest))
    if rollout.step == "Keep":
        return False
    if rollout.step == "Replace":
        assert old is not None, "only what is there is replaced"
        await world.cluster.delete(ref_of(old), uid=uid_of(old), propagation="Orphan")
        old = None
    return await children.write(world, rollout.manifest, old)


async def _facts(world: World, entry: Entry, plan: _Plan, *, has_acted: bool) -> Facts:
    """What is true after the writes."""
    pod, claim, rollout = plan.pod, plan.claim, plan.rollout
    if has_acted:
        pod, claim = await _pod_and_claim(world, entry)
        rollout = replace(rollout, waiting=()) if rollout.restart else rollout
    assert isinstance(entry.resource, Broker)
    return Facts(entry.resource, plan.storage, rollout, pod, claim)


async def _asked(world: World, entry: Entry, facts: Facts) -> Facts:
    """What the broker itself says."""
    try:
        admin = await world.brokers.admin(world.cluster, entry)
        # A long start has made the pauses long for all that lives in it.
        admin.heard(broker_report.serving_since(facts))
        return replace(facts, stats=await admin.stats(), users_count=await admin.users_count())
    except BrokerDeniedError as error:
        world.brokers.distrust(entry.ref)
        text = f"{error}; Secret {facts.root_secret_name} must hold what the volume knows as root's"
        told = Blocked(Reason.UNAUTHORIZED, text, again_s=trouble(error).again_s)
    except BrokerError as error:
        # Another certificate, or none any more: how it is trusted may not fit.
        world.brokers.distrust(entry.ref)
        told = trouble(error)
    return replace(facts, trouble=told)


async def _root_followed(
    world: World, entry: Entry, facts: Facts, root: Root
) -> tuple[Facts, tuple[Note, ...]]:
    """Root's password becomes what is asked for, or what turns out to fit."""
    is_denied = facts.trouble is not None and facts.trouble.reason is Reason.UNAUTHORIZED
    if root.known is None or not (is_denied or facts.stats is not None):
        return facts, ()
    try:
        admin = await world.brokers.admin(world.cluster, entry)
        if is_denied:
            if await root_password.recover(world, entry, root, admin):
                facts = await _asked(world, entry, replace(facts, trouble=None))
        elif await root_password.follow(world, entry, root, admin):
            return facts, (
                Note("PasswordChanged", "root's password was changed", is_warning=False),
            )
    except Blocked as error:
        return replace(facts, root_problem=error), ()
    except BrokerError as error:
        return replace(facts, root_problem=trouble(error)), ()
    return facts, ()
