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
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from iggy_broker.clock import Clock
from iggy_broker.errors import Deny, Reject
from iggy_broker.logs import Note, warn
from iggy_broker.metadata.access import authorize_change, check_caller
from iggy_broker.metadata.applied import Applied
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import (
    AnyChange,
    Entry,
    JoinGroup,
    Result,
    Volatile,
    decode_entries,
    encode_entries,
)
from iggy_broker.metadata.groups import busy_partitions
from iggy_broker.metadata.journal import Journal, JournalFigures, JournalFull
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.model import BROKER, Caller, Placed, State
from iggy_wire.errors import ErrorCode

WAITING_CHANGES_MAX: Final = 10_000  # beyond: the change is refused, nothing was logged
CHANGES_PER_RECORD_MAX: Final = 64  # one record, one fsync, one message to the other shards


class Links(Protocol):
    """The other shards, as `net/peers.py` reaches them."""

    async def broadcast_metadata(self, record: bytes) -> None:
        """Hand a record to `Follower.follow` of every other shard; return when all returned.

        Records must arrive in the order of the calls. A lost shard is fatal: raise.
        """

    async def request_metadata(self, request: bytes) -> bytes:
        """Hand a request to `Writer.serve` on shard 0 and return its reply."""


class PartitionHost(Protocol):
    """The partitions of this shard. It is told of the whole broker's and picks its own."""

    async def open_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        """Make them, empty. `state` has their topics; it is not visible to requests yet."""

    async def purge_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        """Empty them: no messages, no stored offsets, next offset 0. `state` as above."""

    async def remove_partitions(self, state: State, placed: Sequence[Placed]) -> None:
        """Close them and delete their files. `state` has them no more and is visible already."""

    def regroup(self, state: State, places: Sequence[GroupPlace]) -> None:
        """These groups have other members or hand-overs in `state`, which is visible already."""

    async def dissolve_group(self, state: State, place: GroupPlace) -> None:
        """Forget the group's stored offsets. `state` has it no more and is visible already."""


class Replica:
    """One shard's copy. `state` is whole at any moment; read it once per request and keep it."""

    def __init__(self, state: State, *, host: PartitionHost) -> None:
        """`state` as recovered, the same on every shard; its partitions are open already."""
        self._state = state
        self._host = host
        self._watchers: list[Callable[[State, State], None]] = []

    def watch(self, watcher: Callable[[State, State], None]) -> None:
        """Call `watcher` with the state before and after each change, as soon as it is visible."""
        self._watchers.append(watcher)

    @property
    def state(self) -> State:
        """The metadata as this shard knows it."""
        return self._state

    @property
    def journal_figures(self) -> JournalFigures:
        """For metrics. Only shard 0 has a journal."""
        return JournalFigures()

    async def submit(self, change: AnyChange, *, caller: Caller = BROKER) -> Result:
        """Make a change, from any shard; Reject (or Deny) when it cannot be made.

        When this returns the change is durable, and applied on every shard.
        """
        raise NotImplementedError

    async def _install(self, applied: Applied) -> None:
        state = applied.state
        if applied.opened:
            await self._host.open_partitions(state, applied.opened)
        if applied.purged:
            await self._host.purge_partitions(state, applied.purged)
        before, self._state = self._state, state
        for watcher in self._watchers:
            watcher(before, state)
        if applied.removed:
            await self._host.remove_partitions(state, applied.removed)
        if applied.regrouped:
            self._host.regroup(state, applied.regrouped)
        if applied.dissolved is not None:
            await self._host.dissolve_group(state, applied.dissolved)


class _Request(msgspec.Struct, frozen=True, array_like=True):
    """A change that a follower was asked for."""

    caller: Caller
    change: AnyChange


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Shard 0's answer to a `_Request`: a result, or a refusal."""

    result: Result | None = None
    code: int = 0
    detail: str = ""
    denied: bool = False


_ENCODER: Final = msgspec.msgpack.Encoder()
_REQUEST_DECODER: Final = msgspec.msgpack.Decoder(_Request)
_REPLY_DECODER: Final = msgspec.msgpack.Decoder(_Reply)


class Follower(Replica):
    """The copy of every shard but 0."""

    def __init__(self, state: State, *, host: PartitionHost, links: Links) -> None:
        """`state` as the supervisor recovered it before the fork."""
        super().__init__(state, host=host)
        self._links = links
        self._turn = asyncio.Lock()  # records are applied one after the other

    async def submit(self, change: AnyChange, *, caller: Caller = BROKER) -> Result:
        """Ask shard 0 for the change."""
        request = _ENCODER.encode(_Request(caller, change))
        reply = _REPLY_DECODER.decode(await self._links.request_metadata(request))
        if reply.result is None:
            refusal = Deny if reply.denied else Reject
            raise refusal(ErrorCode(reply.code), reply.detail)
        return reply.result

    async def follow(self, record: bytes) -> None:
        """Apply a record of shard 0; it may be acknowledged when this returns."""
        async with self._turn:
            for entry in decode_entries(record):
                await self._install(apply(self._state, entry))


class _Turn:
    """A change from the moment it waits until it is answered."""

    __slots__ = ("answer", "applied", "caller", "change", "entry", "refusal")

    def __init__(self, change: AnyChange, caller: Caller, answer: asyncio.Future[Result]) -> None:
        self.change = change
        self.caller = caller
        self.answer = answer
        self.entry: Entry | None = None
        self.applied: Applied | None = None
        self.refusal: BaseException | None = None

    def finish(self) -> None:
        """Tell the waiting caller, if it still waits."""
        if self.answer.done():
            return
        if self.refusal is not None:
            self.answer.set_exception(self.refusal)
        else:
            assert self.applied is not None, "a turn is refused or applied"
            self.answer.set_result(self.applied.result)


class Writer(Replica):
    """Shard 0's copy: the only one that changes on its own. Needs its `run` in a task."""

    def __init__(
        self,
        state: State,
        *,
        host: PartitionHost,
        journal: Journal,
        links: Links,
        clock: Clock,
        in_flight: Callable[[int], int] = lambda slot: 0,
    ) -> None:
        """`state` and `journal` as `journal.load` returned them; `in_flight` of the table."""
        super().__init__(state, host=host)
        self._in_flight = in_flight
        self._journal = journal
        self._links = links
        self._clock = clock
        self._waiting: deque[_Turn] = deque()
        self._wake = asyncio.Event()
        self._failure: BaseException | None = None

    @property
    def journal_figures(self) -> JournalFigures:
        """For metrics."""
        return self._journal.figures(waiting=len(self._waiting))

    async def submit(self, change: AnyChange, *, caller: Caller = BROKER) -> Result:
        """Make a change. What `run` died of is raised here too."""
        if self._failure is not None:
            raise self._failure
        if len(self._waiting) >= WAITING_CHANGES_MAX:
            raise Deny(ErrorCode.TRANSIENT_NOT_ACCEPTED, f"{WAITING_CHANGES_MAX} changes wait")
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Turn(change, caller, answer))
        self._wake.set()
        return await answer

    async def serve(self, request: bytes) -> bytes:
        """Another shard's `submit`, as its `Follower` encoded it."""
        asked = _REQUEST_DECODER.decode(request)
        try:
            result = await self.submit(asked.change, caller=asked.caller)
        except Reject as error:
            denied = isinstance(error, Deny)
            return _ENCODER.encode(_Reply(code=error.code, detail=error.detail, denied=denied))
        return _ENCODER.encode(_Reply(result=result))

    async def run(self) -> None:
        """Serve the waiting changes for as long as the shard lives. What it raises is fatal."""
        group: list[_Turn] = []
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting:
                    group = self._take_group()
                    await self._serve_group(group)
        except BaseException as error:
            self._failure = error
            for turn in (*group, *self._waiting):
                turn.answer.cancel()  # outcome unknown: the shard stops, the client reconnects
            raise

    def _take_group(self) -> list[_Turn]:
        """Validate waiting changes, each on top of the accepted ones before it.

        A change that removes partitions ends its group: the next one may give their slots in the
        shared table to another shard, and must not before every shard has let go of them.
        """
        state, now_us = self._state, self._clock.now_us()
        group: list[_Turn] = []
        while self._waiting and len(group) < CHANGES_PER_RECORD_MAX:
            turn = self._waiting.popleft()
            group.append(turn)
            turn.entry = self._entry(state, turn, now_us)
            try:
                check_caller(state, turn.caller)
                authorize_change(state, turn.caller.user_id, turn.change)
                turn.applied = apply(state, turn.entry)
            except Reject as error:
                turn.refusal = error
                continue
            state = turn.applied.state
            if turn.applied.removed:
                break
        return group

    def _entry(self, state: State, turn: _Turn, now_us: int) -> Entry:
        change = turn.change
        if isinstance(change, JoinGroup):
            busy = busy_partitions(state, change, self._in_flight)
            change = msgspec.structs.replace(change, busy=busy)
        op = state.op if isinstance(change, Volatile) else state.op + 1
        return Entry(op, now_us, turn.caller.user_id, change)

    async def _serve_group(self, group: Sequence[_Turn]) -> None:
        accepted = [turn for turn in group if turn.applied is not None]
        if accepted:
            await self._commit(accepted)
        # Refusals too wait for the group: they may rest on a change that is only now durable.
        for turn in group:
            turn.finish()

    async def _commit(self, accepted: Sequence[_Turn]) -> None:
        entries = [turn.entry for turn in accepted if turn.entry is not None]
        steps = [turn.applied for turn in accepted if turn.applied is not None]
        lasting = [entry for entry in entries if not isinstance(entry.change, Volatile)]
        try:
            if lasting:
                await self._journal.append(steps[-1].state, lasting)
        except JournalFull as error:
            why = f"metadata cannot be written: {error}"
            warn(Note("changes_refused", why, changes=len(accepted)))
            for turn in accepted:
                turn.refusal = Deny(ErrorCode.ERROR, why)
            return
        record = encode_entries(entries)
        # At the same time, so that this shard opens its partitions while the others open theirs.
        await asyncio.gather(self._links.broadcast_metadata(record), self._install_all(steps))

    async def _install_all(self, steps: Sequence[Applied]) -> None:
        for applied in steps:
            await self._install(applied)
