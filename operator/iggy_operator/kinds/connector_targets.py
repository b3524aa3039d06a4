"""What a job needs of topics of its broker: a place for dead letters, and rights to send."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator import API_VERSION
from iggy_operator.broker_admin import BrokerAdmin, BrokerError, BrokerRefusedError
from iggy_operator.cache import Entry
from iggy_operator.cluster import Ref
from iggy_operator.decide.actions import CreateTopic
from iggy_operator.decide.connectors import OWN_TOPIC, Target
from iggy_operator.desired.metadata import Manifest
from iggy_operator.kinds.common import World
from iggy_operator.launchers.job import ConnectorJob
from iggy_operator.launchers.steps import Stop
from iggy_operator.objects import is_owned, status_of
from iggy_operator.reasons import Reason
from iggy_operator.resources import Key
from iggy_operator.schema import schemas, with_defaults

PARTITIONS: Final = 1
"""Of a topic that is made for dead letters."""
EXPIRY_US: Final = 30 * 86_400 * 1_000_000
"""How long such a topic keeps them."""
READ: Final = ("ReadTopic",)
SEND: Final = ("ReadTopic", "SendMessages")
"""Who sends also asks whether the topic is there, and how many partitions it has."""
# Rights that include these two, by where they are granted (Iggy protocol 0.11, permissions).
_READS: Final = (
    frozenset({"ManageStreams", "ReadStreams", "ManageTopics", "ReadTopics"}),
    frozenset({"ManageStream", "ReadStream", "ManageTopics", "ReadTopics"}),
    frozenset({"ManageTopic", "ReadTopic"}),
)
_SENDS: Final = (
    frozenset({"ManageStreams", "ManageTopics", "SendMessages"}),
    frozenset({"ManageStream", "ManageTopics", "SendMessages"}),
    frozenset({"ManageTopic", "SendMessages"}),
)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """How it stands with the topic of the dead letters."""

    stop: Stop | None = None
    """Why nothing can be sent there."""
    is_made: bool = False
    """It was made just now."""


async def dead_letters(
    world: World, job: ConnectorJob, admin: BrokerAdmin, broker: Key, *, may_act: bool
) -> DeadLetters:
    """Make the topic of the dead letters if it is missing. Raises BrokerError.

    It is never changed nor deleted, and left to its IggyTopic where there is one.
    """
    target = job.dead_letters
    if target is None:
        return DeadLetters()
    where = f"{target.field}: "
    if target.stream not in await admin.streams():
        text = f"there is no stream {target.stream} in the broker: make an IggyStream for it"
        return DeadLetters(Stop(Reason.STREAM_NOT_FOUND, where + text))
    if target.topic in await admin.topics(target.stream):
        return DeadLetters()
    if declared := _topics(world, target, broker):
        text = f" yet: see {declared[0].ref}"
    elif not may_act or not _is_at_home(world, job, target, broker):
        text = ": make an IggyTopic for it"
    else:
        text = await _make(admin, target)
    if text:
        return DeadLetters(
            Stop(Reason.TOPIC_NOT_FOUND, f"{where}topic {target} is not there{text}")
        )
    return DeadLetters(is_made=True)


async def _make(admin: BrokerAdmin, target: Target) -> str:
    """Why the topic cannot be made; empty if it was."""
    try:
        made = CreateTopic(target.topic, PARTITIONS, {"message_expiry": EXPIRY_US})
        await admin.act(target.stream, made)
    except BrokerRefusedError as error:
        return f", and cannot be made: {error}"
    return ""


async def dead_letters_of_running(
    world: World, job: ConnectorJob, admin: BrokerAdmin, broker: Key, *, may_act: bool
) -> DeadLetters:
    """The same for a job that runs: a broker that is away is told elsewhere, and stops nothing."""
    try:
        return await dead_letters(world, job, admin, broker, may_act=may_act)
    except BrokerError:
        return DeadLetters()


def _streams(world: World, target: Target, broker: Key) -> list[Entry]:
    """The IggyStreams that stand for the stream of a target."""
    parent = Ref("IggyBroker", broker.namespace, broker.name)
    return world.cache.standing_for("IggyStream", parent, target.stream)


def _topics(world: World, target: Target, broker: Key) -> list[Entry]:
    """The IggyTopics that stand for a target."""
    return [
        topic
        for stream in _streams(world, target, broker)
        for topic in world.cache.standing_for("IggyTopic", stream.ref, target.topic)
    ]


def _is_at_home(world: World, job: ConnectorJob, target: Target, broker: Key) -> bool:
    """Whether the connector's namespace has the stream or the topic.

    Else whoever may write a connector could read and send wherever the operator can.
    """
    return any(
        item.ref.namespace == job.connector.key.namespace and "incarnation" in status_of(item.value)
        for item in (*_streams(world, target, broker), *_topics(world, target, broker))
    )


def foreign_target(world: World, job: ConnectorJob, broker: Key) -> Stop | None:
    """A target on which the connector's own user gets no rights."""
    for target in job.targets:
        if target.field == OWN_TOPIC:
            continue  # waited for until its IggyTopic has it
        if not _is_at_home(world, job, target, broker):
            namespace = job.connector.key.namespace
            text = (
                f"{target.field}: namespace {namespace} has neither an IggyTopic for {target} nor "
                "an IggyStream: make one, or name a user that may send there in userRef"
            )
            return Stop(Reason.MISSING_GRANTS, text)
    return None


def own_user(world: World, job: ConnectorJob, broker: Key) -> Manifest:
    """The user that may read this one topic, send to the job's own targets, and nothing else."""
    targets = [item for item in job.targets if _is_at_home(world, job, item, broker)]
    return {
        "apiVersion": API_VERSION,
        "kind": "IggyUser",
        "metadata": job.family.metadata(job.name),
        "spec": {
            "brokerRef": {"name": broker.name, "namespace": broker.namespace},
            "permissions": {"streams": _grants(job, targets)},
        },
    }


def _grants(job: ConnectorJob, targets: Iterable[Target]) -> list[Manifest]:
    streams: dict[str, dict[str, tuple[str, ...]]] = {job.access.stream: {job.access.topic: READ}}
    for target in targets:
        streams.setdefault(target.stream, {})[target.topic] = SEND
    return [
        {
            "stream": stream,
            "topics": [{"topic": topic, "allow": list(allow)} for topic, allow in topics.items()],
        }
        for stream, topics in streams.items()
    ]


def is_outdated(entry: Entry, user: Entry, wanted: Manifest) -> bool:
    """Whether the connector's own user may do something else than the job needs by now."""
    if not is_owned(user.value, entry.value):
        return False
    return _permissions(user.value) != _permissions(wanted)


def _permissions(value: Mapping[str, Any]) -> object:
    return with_defaults(dict(value), schemas()["IggyUser"].root)["spec"]["permissions"]


def rights_trouble(name: str, user: Entry, targets: Iterable[Target]) -> Stop | None:
    """What a user of somebody else's may not do and the job needs: we grant it nothing."""
    permissions = user.value["spec"].get("permissions", {})
    for target in targets:
        if not all(_includes(permissions, target, rights) for rights in (_READS, _SENDS)):
            text = f"IggyUser {name} may not send to {target}: grant it {' and '.join(SEND)} there"
            return Stop(Reason.MISSING_GRANTS, f"{text}, or leave userRef out ({target.field})")
    return None


def _includes(
    permissions: Mapping[str, Any], target: Target, rights: tuple[frozenset[str], ...]
) -> bool:
    everywhere, of_stream, of_topic = rights
    streams = [row for row in permissions.get("streams", ()) if row["stream"] == target.stream]
    topics = [row for item in streams for row in item.get("topics", ())]
    granted = (
        everywhere.intersection(permissions.get("global", ())),
        *(of_stream.intersection(item.get("allow", ())) for item in streams),
        *(of_topic.intersection(row["allow"]) for row in topics if row["topic"] == target.topic),
    )
    return any(granted)
