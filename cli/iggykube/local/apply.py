"""Carry decisions out on a broker: observe, decide (pure, shared with the operator), act."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_operator.decide.actions import (
    Action,
    AddPartitions,
    CreateGroup,
    CreateStream,
    CreateTopic,
    Decision,
    RemovePartitions,
    UpdateTopic,
)
from iggy_operator.decide.streams import ObservedStream, decide_stream
from iggy_operator.decide.topics import ObservedTopic, decide_topic
from iggy_operator.observed import observed_stream, observed_topic
from iggy_operator.resources import Stream
from iggykube.errors import LocalError
from iggykube.local.plan import LocalPlan, TopicPlan
from iggykube.local.state import State

Identity = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done, what could not be brought in line, who is who now."""

    done: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    incarnations: Mapping[Identity, str] = field(default_factory=dict)


def apply_plan(client: Client, plan: LocalPlan, state: State) -> Outcome:
    """Bring streams and topics in line. Raises LocalError for what a person must settle."""
    done: list[str] = []
    notes: list[str] = []
    incarnations: dict[Identity, str] = {}
    for stream in plan.streams:
        identity = ("IggyStream", stream.key.namespace, stream.key.name)
        decision = decide_stream(
            stream, observe_stream(client, stream), known=state.incarnation(identity)
        )
        _carry_out(client, stream.stream_name, decision, done)
        notes += _notes(f"stream {stream.key}", decision)
        if (observed := observe_stream(client, stream)) is not None:
            incarnations[identity] = observed.incarnation
    for item in plan.topics:
        identity = ("IggyTopic", item.topic.key.namespace, item.topic.key.name)
        decision = decide_topic(
            item.topic, observe_topic(client, item), known=state.incarnation(identity)
        )
        _carry_out(client, item.stream.stream_name, decision, done)
        notes += _notes(f"topic {item.topic.key}", decision)
        if (found := observe_topic(client, item)) is not None:
            incarnations[identity] = found.incarnation
    return Outcome(tuple(done), tuple(notes), incarnations)


def observe_stream(client: Client, stream: Stream) -> ObservedStream | None:
    """The stream in the broker."""
    details = client.get_stream(stream.stream_name)
    return None if details is None else observed_stream(details.stream)


def observe_topic(client: Client, plan: TopicPlan) -> ObservedTopic | None:
    """The topic in the broker."""
    stream, name = plan.stream.stream_name, plan.topic.topic_name
    details = client.get_topic(stream, name)
    if details is None:
        return None
    groups = client.get_groups(stream, name) if plan.topic.consumer_groups else ()
    return observed_topic(details.topic, frozenset(group.name for group in groups))


def _notes(what: str, decision: Decision) -> Iterator[str]:
    if not decision.is_ready:
        raise LocalError(f"{what}: {decision.message}")
    if decision.message:
        yield f"{what}: {decision.message}"


def _carry_out(client: Client, stream: str, decision: Decision, done: list[str]) -> None:
    if not decision.is_ready:
        return
    for action in decision.actions:
        try:
            done.append(_act(client, stream, action))
        except ClientError as error:
            raise LocalError(f"the broker refused: {error}") from error


def _act(client: Client, stream: str, action: Action) -> str:
    """One action; what was done, for people."""
    match action:
        case CreateStream(name):
            client.create_stream(name)
            return f"created stream {name}"
        case CreateTopic(name, partitions_count, options):
            client.create_topic(stream, name, partitions_count, options)
            return f"created topic {name} with {partitions_count} partitions"
        case UpdateTopic(name, options):
            client.update_topic(stream, name, name, options)
            return f"changed {', '.join(options)} of topic {name}"
        case AddPartitions(name, count):
            client.create_partitions(stream, name, count)
            return f"added {count} partitions to topic {name}"
        case RemovePartitions(name, count):
            client.delete_partitions(stream, name, count)
            return f"removed {count} partitions from topic {name}, with their messages"
        case CreateGroup(topic, name):
            client.create_group(stream, topic, name)
            return f"created consumer group {name}"
