"""What applying a change gives, and the small steps that all changes are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from iggy_broker.metadata.changes import Entry, Result
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.model import Placed, State

K = TypeVar("K")
V = TypeVar("V")

replace = msgspec.structs.replace


class Applied(msgspec.Struct, frozen=True):
    """The new state, the caller's result, and what it means for the partitions on disk."""

    state: State
    result: Result
    opened: tuple[Placed, ...] = ()  # to be made, empty
    purged: tuple[Placed, ...] = ()  # to be emptied; with their new number of purges
    removed: tuple[Placed, ...] = ()  # to be deleted
    regrouped: tuple[GroupPlace, ...] = ()  # groups whose members or hand-overs are to be looked at
    dissolved: GroupPlace | None = None  # a deleted group: its stored offsets go


def done(state: State, entry: Entry) -> Applied:
    """A change that leaves the partitions alone."""
    return Applied(state, Result(entry.op, entry.at_us))


def with_item(table: Mapping[K, V], key: K, value: V) -> dict[K, V]:
    """A copy of `table` with `value` at `key`."""
    copy = dict(table)
    copy[key] = value
    return copy


def without_item(table: Mapping[K, V], key: K) -> dict[K, V]:
    """A copy of `table` without `key`."""
    copy = dict(table)
    del copy[key]
    return copy
