"""What a sink needs of other topics of its broker: a place for dead letters, and rights to send."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iggy_operator import API_VERSION
from iggy_operator.broker_admin import BrokerAdmin, BrokerError, BrokerRefusedError
from iggy_operator.cache import Entry
from iggy_operator.cluster import Ref
from iggy_operator.decide.actions import CreateTopic
from iggy_operator.decide.sinks import Target
from iggy_operator.desired.metadata import Manifest
from iggy_operator.kinds.common import World
from iggy_operator.launchers.job import SinkJob
from iggy_operator.launchers.steps import Stop
from iggy_operator.objects import is_owned
from iggy_operator.reasons import Reason
from iggy_operator.resources import Key, Stream, Topic
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
    world: World, job: SinkJob, admin: BrokerAdmin, broker: Key, *, may_act: bool
) -> DeadLetters:
    """Make the topic of the dead letters if it is missing. Raises BrokerError.

    It is never changed nor deleted, and left to its IggyTopic where there is one.
    """
    target = job.dead_letters
    if target is None:
        return DeadLetters()
    if target.stream not in await admin.streams():
        text = f"there is no stream {target.stream} in the broker: make an IggyStream for it"
        return DeadLetters(Stop(Reason.STREAM_NOT_FOUND, f"{target.field}: {text}"))
    if target.topic in await admin.topics(target.stream):
        return DeadLetters()
    if stop := _left_to_others(world, job, target, broker, may_act=may_act):
        return DeadLetters(stop)
    options = {"message_expiry": EXPIRY_US}
    try:
        await admin.act(target.stream, CreateTopic(target.topic, PARTITIONS, options))
    except BrokerRefusedError as error:
        text = f"{target.field}: the broker does not make topic {target}: {error}"
        return DeadLetters(Stop(Reason.TOPIC_NOT_FOUND, text))
    return DeadLetters(is_made=True)


async def dead_letters_of_running(
    world: World, job: SinkJob, admin: BrokerAdmin, broker: Key, *, may_act: bool
) -> DeadLetters:
    """The same for a job that runs: a broker that is away is told elsewhere, and stops nothing."""
    try:
        return await dead_letters(world, job, admin, broker, may_act=may_act)
    except BrokerError:
        return DeadLetters()


def _left_to_others(
    world: World, job: SinkJob, target: Target, broker: Key, *, may_act: bool
) -> Stop | None:
    """Why we do not make this topic."""
    where = f"{target.field}: topic {target} is not there"
    if (item := _declared(world, target, broker)) is not None:
        return Stop(Reason.TOPIC_NOT_FOUND, f"{where} yet: see {item.ref}")
    namespace = job.sink.key.namespace
    if target.stream != job.source.stream and not _is_at_home(world, target, broker, namespace):
        text = f"{where}, and its stream is not one of namespace {namespace}: ask for the topic"
        return Stop(Reason.TOPIC_NOT_FOUND, text)
    if not may_act:
        return Stop(Reason.TOPIC_NOT_FOUND, where)
    return None


def _declared(world: World, target: Target, broker: Key) -> Entry | None:
    """The IggyTopic that stands for this topic, if there is one."""
    for item in world.cache.of_kind("IggyTopic"):
        topic = item.resource
        if not isinstance(topic, Topic) or topic.topic_name != target.topic:
            continue
        parent = world.cache.get(Ref("IggyStream", topic.stream.namespace, topic.stream.name))
        if parent is not None and _stands_for(parent, target.stream, broker):
            return item
    return None


def _is_at_home(world: World, target: Target, broker: Key, namespace: str) -> bool:
    """Whether the namespace has an IggyStream for the stream."""
    streams = world.cache.of_kind("IggyStream")
    return any(
        item.ref.namespace == namespace and _stands_for(item, target.stream, broker)
        for item in streams
    )


def _stands_for(item: Entry, stream: str, broker: Key) -> bool:
    resource = item.resource
    return (
        isinstance(resource, Stream)
        and resource.stream_name == stream
        and resource.broker == broker
    )


def own_user(job: SinkJob, broker: Key) -> Manifest:
    """The user that may read this one topic, send to the sink's own targets, and nothing else."""
    return {
        "apiVersion": API_VERSION,
        "kind": "IggyUser",
        "metadata": job.family.metadata(job.name),
        "spec": {
            "brokerRef": {"name": broker.name, "namespace": broker.namespace},
            "permissions": {"streams": _grants(job)},
        },
    }


def _grants(job: SinkJob) -> list[Manifest]:
    streams: dict[str, dict[str, tuple[str, ...]]] = {job.source.stream: {job.source.topic: READ}}
    for target in job.targets:
        streams.setdefault(target.stream, {})[target.topic] = SEND
    return [
        {
            "stream": stream,
            "topics": [{"topic": topic, "allow": list(allow)} for topic, allow in topics.items()],
        }
        for stream, topics in streams.items()
    ]


def is_outdated(entry: Entry, user: Entry, wanted: Manifest) -> bool:
    """Whether the sink's own user may do something else than the sink needs by now."""
    if not is_owned(user.value, entry.value):
        return False
    return _permissions(user.value) != _permissions(wanted)


def _permissions(value: Mapping[str, Any]) -> object:
    return with_defaults(dict(value), schemas()["IggyUser"].root)["spec"]["permissions"]


def rights_trouble(name: str, user: Entry, targets: Iterable[Target]) -> Stop | None:
    """What a user of somebody else's may not do and the sink needs: we grant it nothing."""
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
