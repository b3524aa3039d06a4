"""Every shard's copy of the metadata, and the one way to change it.

Shard 0 writes: it takes the changes that wait, validates each by applying it, journals the
accepted ones as one record (one fsync, off the loop), applies them here and on every other shard,
and answers when all shards have acknowledged. So whoever got an answer finds the change on every
shard, and a journal record never contains a refused change.

The order inside one shard is the point: partitions are opened *before* the state that names them
is visible, and removed *after* it stopped naming them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from iggy_broker.clock import Clock
from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata.apply import Applied, apply
from iggy_broker.metadata.changes import (
    AnyChange,
    Entry,
    Result,
    decode_entries,
    encode_entries,
)
from iggy_broker.metadata.model import ROOT_USER_ID, Placed, State
from iggy_wire.errors import ErrorCode

WAITING_CHANGES_MAX: Final = 10_000  # beyond: the change is refused, nothing was logged
CHANGES_PER_RECORD_MAX: Final = 256  # one record, one fsync, one message to the other shards


class Links(Protocol):
    """The other shards, as `net/peers.py` reaches them."""

    async def broadcast_metadata(self, record: bytes) -> None:
        """Hand a record to `Replica.follow` of every other shard; return when all returned.

        Records arrive in the order of the calls. A lost shard is fatal: raise.
        """

    async def request_metadata(self, request: bytes) -> bytes:
        """Hand a request to `Writer.serve` on shard 0 and return its reply."""


class PartitionHost(Protocol):
    """The partitions of this shard. It gets those of the whole broker and picks its own."""

    async def open_partitions(self, placed: Sequence[Placed]) -> None:
        """Make them, empty; whatever lies in their folders belongs to an earlier life."""

    async def purge_partitions(self, placed: Sequence[Placed]) -> None:
        """Empty them: no messages, no stored offsets, next offset 0."""

    async def remove_partitions(self, placed: Sequence[Placed]) -> None:
        """Close them and delete their files."""


class JournalWriter(Protocol):
    """What the writer needs of `journal.Journal`."""

    async def append(self, state: State, entries: Sequence[Entry]) -> None:
        """Make `entries` durable; `state` is the state after them, for a snapshot."""


class Replica:
    """One shard's copy. `state` is whole at any moment; read it once per request and keep it."""

    def __init__(self, state: State, *, host: PartitionHost) -> None:
        self._state = state
        self._host = host

    @property
    def state(self) -> State:
        """The metadata as this shard knows it."""
        return self._state

    async def submit(self, change: AnyChange, *, user_id: int = ROOT_USER_ID) -> Result:
        """Make a change, from any shard; Reject (or Deny) when it cannot be made.

        When this returns the change is durable, and applied on every shard.
        """
        raise NotImplementedError

    async def _install(self, applied: Applied) -> None:
        if applied.opened:
            await self._host.open_partitions(applied.opened)
        if applied.purged:
            await self._host.purge_partitions(applied.purged)
        self._state = applied.state
        if applied.removed:
            await self._host.remove_partitions(applied.removed)
