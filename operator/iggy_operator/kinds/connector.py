"""IggySink and IggySource: one Spark job for one topic, started by a launcher, never twice at once.

A pass looks at what is there, plans one step and takes it. The application in the cluster and the
status hold all that a later pass must know.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerAdmin, BrokerDeniedError, BrokerError
from iggy_operator.cache import Entry
from iggy_operator.cluster import Ref
from iggy_operator.desired.metadata import RELEASE_HASH, RESTART_AT, USER_HASH, owner_of
from iggy_operator.kinds import (
    common,
    connector_objects,
    connector_report,
    connector_targets,
    sink_letters,
    sink_start,
)
from iggy_operator.kinds.common import Release, Verdict, World
from iggy_operator.kinds.connector_objects import Found
from iggy_operator.kinds.connector_progress import members, progress
from iggy_operator.kinds.connector_report import Facts
from iggy_operator.kinds.connector_targets import DeadLetters
from iggy_operator.launchers.children import ConnectorChildren, connector_children, problems
from iggy_operator.launchers.choice import Launcher, choose
from iggy_operator.launchers.job import Access, ConnectorJob, Encryption
from iggy_operator.launchers.kubeflow import SPARK_ACCOUNT
from iggy_operator.launchers.steps import Look, Plan, Record, Step, Stop, plan
from iggy_operator.objects import annotation, is_deleting, is_owned, status_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Connector, Key, Sink, Source, Stream, Topic

MISSING_AGAIN_S: Final = 60.0
"""A Spark operator that is not installed is looked for again."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The topic that a job works for."""

    topic: Topic
    entry: Entry
    """Of the topic."""
    stream: Stream
    broker: Entry
    admin: BrokerAdmin

    @property
    def incarnation(self) -> str:
        """Of the topic; empty as long as it is not there."""
        return str(status_of(self.entry.value).get("incarnation", ""))


async def reconcile(world: World, entry: Entry, *, may_act: bool) -> Verdict:
    """One pass. Raises Blocked, BrokerError, ClusterError."""
    connector = connector_objects.connector_of(entry)
    found = await connector_objects.observe(world, entry)
    try:
        place = await _place(world, entry, connector)
        launcher = _launcher(connector, found, entry)
        job = _job(world, entry, connector, place)
        if texts := problems(job, launcher):
            raise Blocked(Reason.UNSUPPORTED, "; ".join(texts))
    except Blocked as error:
        if not connector.is_suspended or not may_act:
            raise
        if found.application is not None and not is_deleting(found.application):
            await connector_objects.stop(world, found.application)
        report = connector_report.suspended(found, status_of(entry.value))
        return Verdict(report, stopped_by=error)
    children = connector_children(job, launcher)
    return await _bring_in_line(world, entry, place, (found, job, children), may_act=may_act)


async def release(world: World, entry: Entry) -> Release:
    """Nothing in the broker belongs to a connector; its user goes by itself."""
    return Release()


async def _bring_in_line(
    world: World,
    entry: Entry,
    place: _Place,
    case: tuple[Found, ConnectorJob, ConnectorChildren],
    *,
    may_act: bool,
) -> Verdict:
    found, job, children = case
    connector = job.connector
    letters = await _dead_letters(world, found, job, place, may_act=may_act)
    credentials = await _credentials(world, entry, job, place, may_act=may_act)
    claim = None
    if job.claim is not None:
        claim = await connector_objects.claim(
            world, entry, job.claim, children.claim, may_act=may_act
        )
    checkpoint = connector_report.checkpoint_trouble(job, claim)
    old = status_of(entry.value)
    hold = _hold(connector, place, str(old.get("topicIncarnation", "")))
    needs = None if found.application else await _needs(world, entry, job, children)
    look = Look(
        connector=connector,
        marks=children.application["metadata"]["annotations"],
        record=_record(old.get("application") or {}),
        now_s=world.clock.now_s(),
        application=found.application,
        reading=found.reading,
        remains=found.remains,
        hold=hold,
        wait=letters.stop or credentials or checkpoint or needs or _topic_trouble(place),
        running_s=found.running_s,
        since_s=found.since_s,
    )
    step = plan(look) if may_act else _as_it_is(look)
    if step.reason is Reason.SUSPENDED:  # the next start follows on a wish, not on a failure
        step = replace(step, record=replace(step.record, attempts=0))
    before = old.get("application") or {}
    was_there = "uid" in before and before.get("state") != connector_report.STOPPING
    if may_act:
        await _act(world, entry, case, step.step)
        if step.reason is Reason.RUNNING and "userRef" in connector.spec:
            await _remove_own_user(world, entry, job)
    facts = Facts(
        job=job,
        found=found,
        plan=step,
        credentials=credentials,
        checkpoint=checkpoint or connector_report.checkpoint_doubt(job, claim, found.driver),
        incarnation=old.get("topicIncarnation") if hold and not connector.is_suspended
        else place.incarnation or None,
        was_lost=was_there and found.application is None,
    )  # fmt: skip
    if isinstance(connector, Sink):
        start = await sink_start.look(world, found.driver, old.get("start") or {})
        facts = replace(facts, start=start)
    facts = await _with_progress(world, place, facts, old)
    verdict = connector_report.verdict(facts, old, now_s=world.clock.now_s())
    return replace(verdict, has_acted=letters.is_made)


def _as_it_is(look: Look) -> Plan:
    """Of one that must be left alone: what its job does, whatever should be done about it."""
    if look.application is None:
        text = f"nothing is started while the {look.connector.word} is paused"
        return Plan(Step.KEEP, Reason.PAUSED, text, look.record)
    annotations = look.application["metadata"].get("annotations", {})
    marks = {name: annotations.get(name, "") for name in (USER_HASH, RELEASE_HASH, RESTART_AT)}
    found = plan(replace(look, marks=marks, hold=None))
    # Whether it is given up is decided when somebody may act upon it: it may run again by then.
    record = replace(found.record, ended=look.record.ended)
    return replace(found, step=Step.KEEP, record=record, again_s=None)


async def _needs(
    world: World, entry: Entry, job: ConnectorJob, children: ConnectorChildren
) -> Stop | None:
    """What of other people's objects a start needs. What runs goes on without."""
    account = job.spark.get("serviceAccountName")
    if account is None and children.account is None:
        account = SPARK_ACCOUNT
    missing = await connector_objects.account_trouble(world, entry, account) if account else None
    return missing or await connector_objects.secret_trouble(world, entry)


async def _dead_letters(
    world: World, found: Found, job: ConnectorJob, place: _Place, *, may_act: bool
) -> DeadLetters:
    """Before the user is made, so that its rights on the topic can be granted at once."""
    look = (
        connector_targets.dead_letters_of_running
        if found.application
        else connector_targets.dead_letters
    )
    return await look(world, job, place.admin, place.stream.broker, may_act=may_act)


async def _act(
    world: World, entry: Entry, case: tuple[Found, ConnectorJob, ConnectorChildren], step: Step
) -> None:
    found, _, children = case
    if step is Step.START:
        if children.account is not None:
            await connector_objects.write(world, entry, children.account)
        await connector_objects.start(world, entry, children.file, children.application)
    elif step is Step.STOP:
        assert found.application is not None, "there is one to stop"
        await connector_objects.stop(world, found.application)


async def _with_progress(
    world: World, place: _Place, facts: Facts, old: Mapping[str, Any]
) -> Facts:
    """What the broker knows of the group and of the dead letters. A broker that is down stops
    nothing of the above.
    """
    group = (place.stream.stream_name, place.topic.topic_name, str(facts.job.connector.key))
    target, now_s = facts.job.dead_letters, world.clock.now_s()
    try:
        if isinstance(facts.job.connector, Source):
            return replace(facts, members=await members(place.admin, *group))
        seen = await progress(place.admin, *group, now_s=now_s, old=old.get("progress") or {})
        if target is not None:
            before = old.get("deadLetters") or {}
            letters = await sink_letters.look(place.admin, target, now_s=now_s, old=before)
            facts = replace(facts, letters=letters)
    except BrokerError as error:
        if isinstance(error, BrokerDeniedError):
            world.brokers.distrust(place.broker.ref)
        return replace(facts, trouble=error)
    if seen is None:
        return facts
    return replace(facts, progress=seen[0], members=seen[1])


async def _place(world: World, entry: Entry, connector: Connector) -> _Place:
    """Topic, stream and broker. Raises Blocked."""
    wanted = connector.topic
    item = world.cache.get(Ref("IggyTopic", wanted.namespace, wanted.name))
    if item is None or not isinstance(item.resource, Topic) or is_deleting(item.value):
        raise Blocked(
            Reason.TOPIC_NOT_FOUND,
            f"there is no IggyTopic {wanted.name} that can be read: make it, or see its conditions",
        )
    _check_namesake(world, connector)
    topic = item.resource
    parent = world.cache.get(Ref("IggyStream", topic.stream.namespace, topic.stream.name))
    if parent is None or not isinstance(parent.resource, Stream):
        raise Blocked(Reason.STREAM_NOT_FOUND, f"there is no IggyStream {topic.stream.name}")
    stream = parent.resource
    broker = common.broker_of(world, entry, stream.broker)
    admin = await world.brokers.admin(world.cluster, broker)
    return _Place(topic, item, stream, broker, admin)


def _check_namesake(world: World, connector: Connector) -> None:
    """A source yields to a sink that would be in the same consumer group. Raises Blocked."""
    if not isinstance(connector, Source):
        return
    there = world.cache.get(Ref(Sink.kind, connector.key.namespace, connector.key.name))
    if there is not None and there.points_at == Ref("IggyTopic", *astuple(connector.topic)):
        text = f"{there.ref} works for the same topic, and both names are that of its consumer "
        raise Blocked(Reason.NAME_CONFLICT, text + "group: rename one of the two", again_s=5)


def _launcher(connector: Connector, found: Found, entry: Entry) -> Launcher:
    """Which launcher. Raises Blocked if it is not installed."""
    current: Launcher | None = None
    if found.application is not None:
        item = found.application
        current = connector_objects.launcher_of(item["kind"], item["apiVersion"])
    elif before := status_of(entry.value).get("application", {}).get("apiVersion"):
        kind = "Job" if before in ("apps/v1", "batch/v1") else "SparkApplication"
        current = connector_objects.launcher_of(kind, before)
    choice = choose(connector, found.installed, current=current)
    if choice.launcher is None:
        assert choice.reason is not None, "no launcher without a reason"
        raise Blocked(choice.reason, choice.message, again_s=MISSING_AGAIN_S)
    return choice.launcher


def _job(world: World, entry: Entry, connector: Connector, place: _Place) -> ConnectorJob:
    way, names = place.admin.login, (place.stream.stream_name, place.topic.topic_name)
    tls = None if way.tls is None else Encryption(bool(way.tls.ca_pem), way.tls.server_name)
    access = Access(way.address, *names, secret="", tls=tls)
    job = ConnectorJob(
        connector=connector,
        owner=owner_of(entry.value),
        access=access,
        release=world.product,
        restart_at=annotation(entry.value, "restart-at"),
        redrive=annotation(entry.value, "redrive") if isinstance(connector, Sink) else "",
        takes_new_topic=_is_acknowledged(place),
    )
    return replace(job, access=replace(access, secret=_secret_name(world, job)))


def _user_key(job: ConnectorJob) -> Key:
    reference = job.connector.spec.get("userRef")
    return Key(job.connector.key.namespace, reference["name"] if reference else job.name)


def _secret_name(world: World, job: ConnectorJob) -> str:
    key = _user_key(job)
    user = world.cache.get(Ref("IggyUser", key.namespace, key.name))
    spec = {} if user is None else user.value.get("spec", {})
    return str(spec.get("secretTemplate", {}).get("name") or f"{key.name}-iggy")


async def _credentials(
    world: World, entry: Entry, job: ConnectorJob, place: _Place, *, may_act: bool
) -> Stop | None:
    """What is wrong with the login; its own user is made. Raises Blocked, ClusterError."""
    key = _user_key(job)
    user = world.cache.get(Ref("IggyUser", key.namespace, key.name))
    if user is None and "userRef" in job.connector.spec:
        text = f"there is no IggyUser {key.name}: make it, or leave userRef out"
        return Stop(Reason.SECRET_NOT_FOUND, text)
    if "userRef" not in job.connector.spec:
        broker = place.stream.broker
        wanted = connector_targets.own_user(world, job, broker)
        if may_act and (user is None or connector_targets.is_outdated(entry, user, wanted)):
            user = world.cache.put(await connector_objects.write(world, entry, wanted))
        if stop := connector_targets.foreign_target(world, job, broker):
            return stop
    elif user is not None and (
        stop := connector_targets.rights_trouble(key.name, user, job.targets)
    ):
        return stop
    return connector_report.user_trouble(key.name, user, job)


async def _remove_own_user(world: World, entry: Entry, job: ConnectorJob) -> None:
    """The running job has another user by now."""
    user = world.cache.get(Ref("IggyUser", job.connector.key.namespace, job.name))
    if user is not None and is_owned(user.value, entry.value) and not is_deleting(user.value):
        await connector_objects.stop(world, user.value)


def _is_acknowledged(place: _Place) -> bool:
    told = annotation(place.entry.value, "acknowledge-recreation")
    return bool(told) and told == place.incarnation


def _hold(connector: Connector, place: _Place, known: str) -> Stop | None:
    """Why the job must not run."""
    if connector.is_suspended:
        return Stop(Reason.SUSPENDED, connector_report.SUSPENDED)
    now = place.incarnation
    is_other = bool(known and now and known != now)
    if (
        is_other
        and connector.spec.get("onTopicRecreated") == "Pause"
        and not _is_acknowledged(place)
    ):
        return Stop(
            Reason.TOPIC_RECREATED,
            f"topic {place.topic.topic_name} is another one than this sink read ({known}): "
            f"annotate the IggyTopic with acknowledge-recreation: {now} to read the new one from "
            "its beginning",
        )
    return None


def _topic_trouble(place: _Place) -> Stop | None:
    if place.incarnation:
        return None
    text = f"topic {place.topic.topic_name} is not there yet: see its IggyTopic"
    return Stop(Reason.TOPIC_NOT_FOUND, text)


def _record(status: Mapping[str, Any]) -> Record:
    return Record(
        uid=status.get("uid", ""),
        hash=status.get("hash", ""),
        restart_at=status.get("restartAt", ""),
        starts=status.get("starts", 0),
        attempts=status.get("attempts", 0),
        ended=status.get("ended", ""),
        error=status.get("error", ""),
    )
