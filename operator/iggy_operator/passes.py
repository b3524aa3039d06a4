"""One pass over one object, whatever has happened: look, have its kind decide and act, report.

Also what leads to passes: changes that watches tell, and the resync that finds what they missed.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from iggy_operator.blocked import Blocked
from iggy_operator.broker_admin import BrokerDeniedError, BrokerError, BrokerRefusedError
from iggy_operator.cache import KINDS, Entry, Unreadable
from iggy_operator.cluster import (
    ClusterError,
    ConflictError,
    DeniedError,
    NotFoundError,
    Object,
    Ref,
    ThrottledError,
)
from iggy_operator.kinds import broker, connector, stream, topic, user
from iggy_operator.kinds.common import TAKEN, Release, Verdict, World, set_finalizer
from iggy_operator.objects import (
    generation_of,
    has_finalizer,
    is_annotated,
    is_deleting,
    status_of,
    uid_of,
)
from iggy_operator.queue import After, Done, Failed, Outcome
from iggy_operator.reasons import Reason
from iggy_operator.reporting import Reporter, acting, observing, stopped, trouble
from iggy_operator.resources import CONNECTORS, Connector

LOADED_AT_ONCE: Final = 100
"""Objects of the first list that are read before others have their turn on the loop."""
_LOG: Final = logging.getLogger(__name__)


class _Kind(Protocol):
    async def reconcile(self, world: World, entry: Entry, *, may_act: bool) -> Verdict: ...
    async def release(self, world: World, entry: Entry) -> Release: ...


_KINDS: Final[Mapping[str, _Kind]] = {
    "IggyBroker": broker,
    "IggyStream": stream,
    "IggyTopic": topic,
    "IggyUser": user,
    **{item.kind: connector for item in CONNECTORS},
}


class Passes:
    """All passes of one operator."""

    def __init__(
        self, world: World, add: Callable[[Ref], object], check: Callable[[Ref], object]
    ) -> None:
        """Into the queue: `add` for what has changed, `check` to have a look."""
        self._world = world
        self._add = add
        self._check = check
        self._reporter = Reporter(world)
        self._stale: set[Ref] = set()

    def changed(self, ref: Ref, value: Object | None = None) -> None:
        """A watch has told of an object.

        Events come late, twice and in any order, so the pass reads what is true now. A `value`
        that is known already, such as our own last write, spares that, but not where one pass has
        made or changed another's object: that still needs its own. Of a deletion: None.
        """
        is_known = value is not None and self._world.cache.is_known(value)
        if value is None or not is_known or not _is_looked_at(value):
            self._stale.add(ref)
            self._add(ref)

    async def load(self) -> None:
        """List all objects, before any pass and any watch: nobody is judged before its siblings
        are known. Raises ClusterError.
        """
        for kind in KINDS:
            for number, value in enumerate(await self._world.cluster.list(kind), 1):
                self._add(self._world.cache.put(value).ref)
                if number % LOADED_AT_ONCE == 0:
                    await asyncio.sleep(0)  # the Lease is to be renewed meanwhile

    async def resync(self) -> None:
        """Have a look at each object; read those anew that a list shows to be different.

        Raises ClusterError.
        """
        cache = self._world.cache
        for kind in KINDS:
            for ref in cache.differing(kind, await self._world.cluster.list(kind)):
                self.changed(ref)
        for kind in KINDS:
            for entry in cache.of_kind(kind):
                self._check(entry.ref)
        await self._world.brokers.keep_only({entry.ref for entry in cache.of_kind("IggyBroker")})

    async def run(self, ref: Ref) -> Outcome:
        """One pass. What is expected to go wrong becomes an outcome and a condition."""
        try:
            entry = await self._current(ref)
            return Done() if entry is None else await self._run(entry)
        except ThrottledError as error:
            return After(error.retry_after_s)
        except (ConflictError, NotFoundError) as error:
            # The object is another one, or gone, than it was a moment ago.
            _LOG.info("%s: %s; looking again", ref, error)
            self._stale.add(ref)
            return Failed()
        except ClusterError as error:
            _LOG.warning("%s: the API server: %s", ref, error)
            return Failed()
        except Exception:  # noqa: BLE001 -- a bug: one object shows it, the others go on
            _LOG.exception("%s: a bug of the operator", ref)
            return await self._buggy(ref)

    async def _buggy(self, ref: Ref) -> Outcome:
        entry = self._world.cache.get(ref)
        text = "a bug of the operator; its log has the details"
        if entry is not None:
            blocked = Blocked(Reason.INTERNAL_ERROR, text, ready="Unknown")
            try:
                await self._reporter.report(entry, stopped(entry, blocked))
            except ClusterError as error:
                _LOG.warning("%s: the API server: %s", ref, error)
        return Failed()

    async def _current(self, ref: Ref) -> Entry | None:
        """The object as it is now, as far as anybody has told that it changed."""
        cache = self._world.cache
        if ref in self._stale:
            self._stale.discard(ref)
            try:
                value = await self._world.cluster.get(ref)
            except NotFoundError:
                self._forget(ref)
            except DeniedError:
                if ref.namespace not in self._world.ending:
                    self._stale.add(ref)
                    raise
                self._forget(ref)  # it has gone with its namespace, as our right to read it
            except BaseException:
                self._stale.add(ref)
                raise
            else:
                if not cache.is_known(value):
                    cache.put(value)
                    self._tell(ref)
        return cache.get(ref)

    def _forget(self, ref: Ref) -> None:
        """An object is gone: its entity may have an heir."""
        entry = self._world.cache.get(ref)
        if entry is None:
            return
        heirs = self._world.cache.claimants(entry)
        self._world.cache.remove(ref)
        self._tell(ref)
        for heir in heirs:
            self._add(heir.ref)

    def _tell(self, ref: Ref) -> None:
        """Those to whom a change of this object matters get a pass."""
        for pointing in self._world.cache.pointing_at(ref):
            self._add(pointing)
        entry = self._world.cache.get(ref)
        if entry is not None and isinstance(entry.resource, Connector) and entry.points_at:
            self._add(entry.points_at)  # the topic shows how they are doing

    def _tell_users(self, entry: Entry) -> None:
        """What was made has a number that grants may wait for."""
        broker = self._world.cache.broker_of(entry)
        for pointing in self._world.cache.pointing_at(broker.ref) if broker else ():
            if pointing.kind == "IggyUser":
                self._add(pointing)

    async def _run(self, entry: Entry) -> Outcome:
        if is_deleting(entry.value):
            return await self._release(entry)
        if entry.ref.namespace in self._world.ending:
            return Done()  # nothing can be made in there any more
        if has_finalizer(entry.value) and _is_let_go(entry):
            await set_finalizer(self._world, entry, wanted=False)
        may_act = not (_is_let_go(entry, "unmanaged") or is_annotated(entry.value, "paused"))
        outcome, verdict = await self._reconciled(entry, may_act=may_act)
        verdict = acting(entry, verdict) if may_act else observing(verdict)
        has_moved = await self._reporter.report(self._marked(entry), verdict)
        if verdict.has_acted or has_moved:
            self._tell(entry.ref)
        if verdict.has_acted:
            self._tell_users(entry)
        return outcome

    def _marked(self, entry: Entry) -> Entry:
        """With the status as the pass has left it: what it marked as begun stays marked."""
        now = self._world.cache.get(entry.ref)
        if now is None or uid_of(now.value) != uid_of(entry.value):
            return entry
        return replace(entry, value={**entry.value, "status": status_of(now.value)})

    async def _reconciled(self, entry: Entry, *, may_act: bool) -> tuple[Outcome, Verdict]:
        verdict = Verdict()
        try:
            _check_readable(entry)
            verdict = await _KINDS[entry.ref.kind].reconcile(self._world, entry, may_act=may_act)
            if verdict.stopped_by is not None:
                raise verdict.stopped_by
        except Blocked as error:
            blocked = error
        except BrokerError as error:
            if isinstance(error, BrokerRefusedError) and error.code in TAKEN:
                return Failed(), Verdict()  # somebody was faster: see what is there now
            blocked = self._blocked(entry, error)
        else:
            return (Done() if verdict.again_s is None else After(verdict.again_s)), verdict
        told = stopped(entry, blocked)
        return _again(blocked), replace(told, report=told.report.joined(verdict.report))

    async def _release(self, entry: Entry) -> Outcome:
        """The object is being deleted; our finalizer comes off when nothing is left to do."""
        if not has_finalizer(entry.value):
            return Done()
        try:
            release = await self._released(entry)
        except Blocked as error:
            blocked = error
        except BrokerError as error:
            blocked = self._blocked(entry, error)
        else:
            for note in release.notes:
                await self._reporter.tell(entry, note)
            await set_finalizer(self._world, entry, wanted=False)
            self.changed(entry.ref)  # gone, unless somebody else holds it
            return Done()
        hint = "; the annotation force-release: true lets the object go and the broker alone"
        told = Blocked(blocked.reason, blocked.message + hint)
        await self._reporter.report(entry, stopped(entry, told))
        return _again(blocked)

    async def _released(self, entry: Entry) -> Release:
        """What was deleted in the broker. Raises Blocked while the object must wait."""
        if _is_let_go(entry) or entry.ref.namespace in self._world.ending:
            return Release()
        if is_annotated(entry.value, "paused"):
            raise Blocked(Reason.PAUSED, "nothing is deleted while the object is paused")
        _check_readable(entry)
        # What follows is not undone, so it is decided on what is true now.
        fresh = self._world.cache.put(await self._world.cluster.get(entry.ref))
        if uid_of(fresh.value) != uid_of(entry.value):
            raise ConflictError(f"{entry.ref} is another object by now")
        release = await _KINDS[fresh.ref.kind].release(self._world, fresh)
        if release.waits_for:
            raise Blocked(Reason.DELETING, release.waits_for)
        return release

    def _blocked(self, entry: Entry, error: BrokerError) -> Blocked:
        found = self._world.cache.broker_of(entry)
        if isinstance(error, BrokerDeniedError) and found is not None:
            self._world.brokers.distrust(found.ref)
        return trouble(error)


def _is_let_go(entry: Entry, *names: str) -> bool:
    """Whether the object may go without anything being done in the broker."""
    wanted = names or ("unmanaged", "force-release")
    return any(is_annotated(entry.value, name) for name in wanted)


def _is_looked_at(value: Object) -> bool:
    """Whether a pass has seen this generation of the object."""
    return status_of(value).get("observedGeneration") == generation_of(value)


def _check_readable(entry: Entry) -> None:
    if isinstance(entry.resource, Unreadable):
        raise Blocked(Reason.UNSUPPORTED, entry.resource.message)


def _again(blocked: Blocked) -> Outcome:
    return Done() if blocked.again_s is None else After(blocked.again_s)
