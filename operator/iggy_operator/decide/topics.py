"""One topic: what to do about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from iggy_operator.decide.actions import (
    Action,
    AddPartitions,
    CreateGroup,
    CreateTopic,
    Decision,
    Drift,
    Reason,
    RemovePartitions,
    UpdateTopic,
)
from iggy_operator.resources import FOREVER, OptionValue, Topic

# Option of the broker -> field of the spec. The first three can change later (Iggy protocol 0.11).
_MUTABLE: Final = {
    "compression_algorithm": "compression",
    "message_expiry": "retention.messageExpiry",
    "max_topic_size": "retention.maxSize",
}
_IMMUTABLE: Final = {
    "segment_size": "segment.size",
    "preallocate_segments": "segment.preallocate",
    "durability": "durability.profile",
    "consumer_offset_durability": "durability.profile",
    "enforce_fsync": "durability.enforceFsync",
    "messages_required_to_save": "durability.flushMessages",
    "size_of_messages_required_to_save": "durability.flushBytes",
}


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """A topic as the broker shows it. `options` holds those that it reports."""

    topic_id: int
    created_at_us: int
    partitions_count: int
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()

    @property
    def incarnation(self) -> str:
        """Identity beyond the name: checkpoints and offsets belong to it."""
        return f"{self.topic_id}-{self.created_at_us}"


def decide_topic(
    desired: Topic, observed: ObservedTopic | None, *, known: str | None = None
) -> Decision:
    """`known` is the incarnation that we made or adopted before, None if there was none."""
    if observed is None:
        return _absent(desired, known)
    if known is None and desired.adoption_policy == "FailIfExists":
        return Decision(
            is_ready=False,
            is_synced=False,
            reason=Reason.ALREADY_EXISTS,
            message=f"topic {desired.topic_name} exists already in the broker: "
            "choose another topicName, or set adoptionPolicy to Adopt",
        )
    decision = _compared(desired, observed)
    if known is not None and known != observed.incarnation:
        message = "the topic was deleted in the broker and made again by somebody else"
        decision = replace(decision, is_recreated=True, reason=Reason.RECREATED, message=message)
    return decision


def judge_topic(
    desired: Topic, observed: ObservedTopic | None, *, known: str | None = None
) -> Decision:
    """As `decide_topic`, where nothing may be done: what is true then, each difference a drift."""
    if observed is None:
        message = f"topic {desired.topic_name} is not in the broker"
        return Decision(is_synced=False, reason=Reason.MISSING, message=message)
    gentle = replace(desired, drift_policy="Report", may_drop_partitions=False)
    decision = decide_topic(gentle, observed, known=known)
    if not decision.is_ready:
        return decision
    drift = (*_undone(decision, observed), *decision.drift)
    if not drift:
        return replace(decision, actions=())
    texts = [decision.message] if decision.is_recreated else []
    message = "; ".join([*texts, *map(str, drift)]) + ": nothing is done while the object is paused"
    return replace(
        decision, actions=(), is_synced=False, reason=Reason.DRIFTED, message=message, drift=drift
    )


def _undone(decision: Decision, observed: ObservedTopic) -> Iterator[Drift]:
    """What actions would bring in line."""
    count = observed.partitions_count
    for action in decision.actions:
        if isinstance(action, AddPartitions):
            yield Drift("partitions", str(count + action.count), str(count))
        elif isinstance(action, CreateGroup):
            yield Drift("consumerGroups", action.name, "not there")


def _absent(desired: Topic, known: str | None) -> Decision:
    name = desired.topic_name
    if known is not None and desired.missing_policy == "Report":
        message = f"topic {name} was deleted in the broker: set missingPolicy to Recreate"
        return Decision(is_ready=False, is_synced=False, reason=Reason.MISSING, message=message)
    groups = tuple(CreateGroup(name, group) for group in desired.consumer_groups)
    create = CreateTopic(name, desired.partitions_count, desired.options)
    if known is None:
        return Decision(actions=(create, *groups))
    return Decision(
        actions=(create, *groups),
        is_recreated=True,
        reason=Reason.RECREATED,
        message=f"topic {name} was deleted in the broker; made again, empty",
    )


def _compared(desired: Topic, observed: ObservedTopic) -> Decision:
    """A topic that is there: bring partitions, options and groups in line as far as allowed."""
    actions: list[Action] = []
    decision = Decision()
    changed = _differences(desired, observed, _MUTABLE)
    if changed and desired.drift_policy == "Revert":
        values = {
            name: desired.options[name] for name in _MUTABLE if _differs(desired, observed, name)
        }
        actions.append(UpdateTopic(desired.topic_name, values))
    elif changed:
        decision = _unsynced(Reason.DRIFTED, changed, "set driftPolicy to Revert to change it back")
    if fixed := _differences(desired, observed, _IMMUTABLE):
        fix = "it cannot change after creation; take over the broker's value or make a new topic"
        decision = _unsynced(Reason.IMMUTABLE_MISMATCH, (*fixed, *decision.drift), fix)
    missing = desired.partitions_count - observed.partitions_count
    if missing > 0:
        actions.append(AddPartitions(desired.topic_name, missing))
    elif missing < 0 and desired.may_drop_partitions:
        actions.append(RemovePartitions(desired.topic_name, -missing))
    elif missing < 0:
        counts = Drift("partitions", str(desired.partitions_count), str(observed.partitions_count))
        fix = "set partitions to that number, or partitionDecreasePolicy to DeleteData"
        decision = _unsynced(Reason.MORE_PARTITIONS, (counts, *decision.drift), fix)
    groups = [group for group in desired.consumer_groups if group not in observed.groups]
    actions += [CreateGroup(desired.topic_name, group) for group in groups]
    return replace(decision, actions=tuple(actions))


def _unsynced(reason: Reason, drift: tuple[Drift, ...], fix: str) -> Decision:
    message = "; ".join(str(row) for row in drift) + f": {fix}"
    return Decision(is_synced=False, reason=reason, message=message, drift=drift)


def _differs(desired: Topic, observed: ObservedTopic, option: str) -> bool:
    """Whether both sides name the option, with different values.

    A broker of another generation may not know an option; then there is nothing to compare.
    """
    wanted, actual = desired.options.get(option), observed.options.get(option)
    if wanted is None or actual is None:
        return False
    if isinstance(wanted, str) and isinstance(actual, str):
        return wanted.casefold() != actual.casefold()
    return wanted != actual


def _differences(
    desired: Topic, observed: ObservedTopic, options: Mapping[str, str]
) -> tuple[Drift, ...]:
    return tuple(
        Drift(name, _text(desired.options[option]), _text(observed.options[option]))
        for option, name in options.items()
        if _differs(desired, observed, option)
    )


def _text(value: OptionValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "unlimited" if value == FOREVER else str(value)
