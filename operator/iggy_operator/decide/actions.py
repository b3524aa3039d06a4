"""What a decision can ask for, and how it explains itself. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from iggy_operator.reasons import Reason as Reason
from iggy_operator.resources import OptionValue


@dataclass(frozen=True, slots=True)
class CreateStream:
    """Make a stream."""

    name: str


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Make a topic."""

    name: str
    partitions_count: int
    options: Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class UpdateTopic:
    """Set options of a topic that can change."""

    name: str
    options: Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Add that many partitions behind the present ones."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class RemovePartitions:
    """Remove the last partitions, with their messages."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Make a consumer group."""

    topic: str
    name: str


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Remove a topic with its messages: only what was asked for in so many words."""

    name: str


@dataclass(frozen=True, slots=True)
class DeleteStream:
    """Remove a stream with everything in it: only what was asked for in so many words."""

    name: str


Action: TypeAlias = (
    CreateStream | CreateTopic | UpdateTopic | AddPartitions | RemovePartitions | CreateGroup
)
Removal: TypeAlias = DeleteTopic | DeleteStream


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference between what is wanted and what is there."""

    field: str
    """As in the spec, such as `retention.maxSize`."""
    desired: str
    actual: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.field} is {self.actual}, wanted is {self.desired}"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and what is true once it is done."""

    actions: tuple[Action, ...] = ()
    reason: Reason = Reason.SYNCED
    message: str = ""
    is_ready: bool = True
    """Whether it can be used once the actions are done."""
    is_synced: bool = True
    """Whether nothing differs then."""
    is_recreated: bool = False
    """Same name, another entity: readers of the old one must not go on as if nothing was."""
    drift: tuple[Drift, ...] = ()
