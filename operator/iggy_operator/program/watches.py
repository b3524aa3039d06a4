"""Ears: kopf's watches in a thread of their own, and what to do when they go deaf.

kopf cancels every task of its loop when it ends, and takes over signals in the main thread: so it
gets a loop of its own. If it ends by itself, if a watch stays silent, or if a Spark operator or a
namespace comes or goes, all watches are begun anew. What nobody heard meanwhile is found by the
resync.
"""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import kopf

from iggy_operator.backoff import Chance, pause_s
from iggy_operator.cache import KINDS
from iggy_operator.clock import Clock
from iggy_operator.cluster import ClusterError, DeniedError, NotFoundError, Object, Ref
from iggy_operator.program.api_access import Access
from iggy_operator.program.api_client import ApiClient
from iggy_operator.program.api_kinds import API_KINDS, SPARK_KINDS, WATCHED_CHILDREN
from iggy_operator.program.children import owner_of_child
from iggy_operator.program.watch_session import open_session
from iggy_operator.program.watch_settings import kopf_settings, registry_for

STOP_S: Final = 5.0
"""A thread that has not ended by then is left alone: it has no one to tell anything."""
CANCEL_S: Final = 3.0
CANCEL_AGAIN_S: Final = 0.1
LOOK_S: Final = 1.0
ANSWER_S: Final = 5.0
"""An API server that does not say sooner what there is to be watched is not waited for."""
SCOPE_LOOK_S: Final = 60.0
"""How soon a Spark operator or a namespace that comes or goes is noticed."""
_SCHEDULERS: Final = re.compile(r"(spawner|cleaner) of ")
"""How kopf names the own tasks of its schedulers (1.45, `aiotasks.Scheduler`)."""
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is there to be watched."""

    spark: tuple[str, ...] = ()
    """Kinds of Spark operators that are installed."""
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ears:
    """What watches are made of."""

    client: ApiClient
    clock: Clock
    chance: Chance
    told: Callable[[Ref, Object | None], None]
    """`Core.changed`, on the loop that makes the watches."""
    namespaces: Sequence[str] = ()
    """None for the whole cluster."""
    silence_s: float = 600.0
    new_access: Callable[[], Access] = field(default=Access)


class Watches:
    """All watches of one operator. `run` works until it is cancelled."""

    def __init__(self, ears: Ears) -> None:
        """Nothing is watched yet."""
        self._ears = ears
        self._round: _Round | None = None

    def silences_s(self) -> dict[str, float]:
        """For how long each kind's watch has brought nothing."""
        return {} if self._round is None else self._round.silences_s()

    def trouble(self) -> str:
        """Why a probe should fail; empty if it should not."""
        for kind, age_s in self.silences_s().items():
            if age_s > self._ears.silence_s:
                return f"the watch of {kind} has brought nothing for {age_s:.0f} s"
        return ""

    async def run(self) -> None:
        """Watch; whatever ends the watches, begin anew."""
        heard_s: dict[str, float] = {}
        failures = 0
        while True:
            this = self._round = _Round(self._ears, await self._scope(), heard_s)
            begun_s = self._ears.clock.monotonic_s()
            this.start()
            try:
                reason = await self._end(this)
            finally:
                await this.stop()
            heard_s = this.heard_s  # a new beginning is no sign of life
            if self._ears.clock.monotonic_s() - begun_s > self._ears.silence_s:
                failures = 0
            failures += 1
            _LOG.warning("watches begin anew: %s", reason)
            await asyncio.sleep(min(pause_s(failures, self._ears.chance), self._ears.silence_s / 8))

    async def _end(self, this: "_Round") -> str:
        """Why this round is over."""
        look_s = self._ears.clock.monotonic_s() + SCOPE_LOOK_S
        while True:
            await asyncio.sleep(min(LOOK_S, self._ears.silence_s / 20))
            if this.is_over:
                return f"they ended by themselves ({this.error})"
            kind, age_s = max(this.silences_s().items(), key=lambda item: item[1])
            if min(age_s, this.age_s()) > self._ears.silence_s / 2:
                return f"that of {kind} brought nothing for {age_s:.0f} s"
            if self._ears.clock.monotonic_s() > look_s:
                look_s += SCOPE_LOOK_S
                if await self._scope() != this.scope:
                    return "a Spark operator or a namespace has come or gone"

    async def _scope(self) -> _Scope:
        """What there is now; as before if nobody can say."""
        try:
            async with asyncio.timeout(min(ANSWER_S, self._ears.silence_s / 8)):
                return _Scope(await self._spark_kinds(), await self._namespaces())
        except (ClusterError, TimeoutError) as error:
            _LOG.warning("what there is to be watched: %s", error or "no answer")
            before = _Scope(namespaces=tuple(self._ears.namespaces))
            return before if self._round is None else self._round.scope

    async def _spark_kinds(self) -> tuple[str, ...]:
        """Those whose definitions are installed. Raises ClusterError."""
        found = []
        for name, kind in SPARK_KINDS.items():
            try:
                page = await self._ears.client.get(kind.root)
            except NotFoundError:
                continue
            if any(item.get("name") == kind.plural for item in page.get("resources", ())):
                found.append(name)
        return tuple(found)

    async def _namespaces(self) -> tuple[str, ...]:
        """Those in which we may do our work. Raises ClusterError.

        A namespace takes our Role along when it goes: the others must not go deaf over it.
        """
        denied = []
        for name in self._ears.namespaces:
            try:
                await self._ears.client.get(
                    API_KINDS[KINDS[0]].path(namespace=name), {"limit": "1"}
                )
            except DeniedError:
                denied.append(name)
        if denied:
            _LOG.warning("gone, or without our Role: namespaces %s", ", ".join(denied))
        found = tuple(name for name in self._ears.namespaces if name not in denied)
        return found or tuple(self._ears.namespaces)


class _Round:
    """kopf, from one beginning to its end."""

    def __init__(self, ears: Ears, scope: _Scope, heard_s: dict[str, float]) -> None:
        self.scope = scope
        self.error = ""
        children = [kind for kind in WATCHED_CHILDREN if kind not in SPARK_KINDS]
        self._kinds = (*KINDS, *children, *scope.spark)
        self._ears = ears
        self._begun_s = ears.clock.monotonic_s()
        self._paths = {
            API_KINDS[kind].path(namespace=namespace): kind
            for kind in self._kinds
            for namespace in scope.namespaces or ("",)
        }
        self.heard_s = {path: heard_s.get(path, self._begun_s) for path in self._paths}
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watches", daemon=True)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._stop.set()
        try:
            async with asyncio.timeout(STOP_S):
                await self._ended.wait()
        except TimeoutError:
            _LOG.warning("the watches do not end: they are left alone")

    def age_s(self) -> float:
        return self._ears.clock.monotonic_s() - self._begun_s

    def silences_s(self) -> dict[str, float]:
        now_s = self._ears.clock.monotonic_s()
        found: dict[str, float] = {}
        for path, kind in self._paths.items():
            found[kind] = max(found.get(kind, 0.0), now_s - self.heard_s[path])
        return found

    # What follows runs in the thread.

    def _work(self) -> None:
        try:
            asyncio.run(self._watch())
        except Exception as error:  # noqa: BLE001 -- whatever kopf dies of, it is begun anew
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._call(self._ended.set)

    async def _watch(self) -> None:
        registry = registry_for(self._kinds, self._seen)
        access = self._ears.new_access()
        sessions: list[kopf.AiohttpSession] = []

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            session = await open_session(access, self._heard)
            sessions.append(session)
            return session

        work = kopf.operator(
            registry=registry,
            settings=kopf_settings(self._ears.silence_s),
            clusterwide=not self.scope.namespaces,
            namespaces=self.scope.namespaces,
        )
        operator = asyncio.create_task(work)
        stopped = asyncio.create_task(asyncio.to_thread(self._stop.wait))
        await asyncio.wait((operator, stopped), return_when=asyncio.FIRST_COMPLETED)
        is_over = operator.done()
        self._stop.set()
        # All at once: kopf itself would wait for one task after the other.
        await _cancel([task for task in asyncio.all_tasks() if task is not asyncio.current_task()])
        for session in sessions:
            await session.aiohttp_session.close()
        if is_over:
            operator.result()

    def _heard(self, path: str) -> None:
        if path in self.heard_s:
            self.heard_s[path] = self._ears.clock.monotonic_s()

    def _seen(self, kind: str, event: str | None, value: Object) -> None:
        """Of our own kinds the object itself has changed, of others the one that it belongs to."""
        api_kind = API_KINDS[kind]
        full = {**value, "apiVersion": api_kind.api_version, "kind": api_kind.kind}
        if kind in KINDS:
            metadata = value["metadata"]
            ref = Ref(kind, metadata["namespace"], metadata["name"])
            self._call(self._ears.told, ref, None if event == "DELETED" else full)
        elif event is not None and (owner := owner_of_child(full)) is not None:
            # What the first list shows is no news: every object has a pass at the start.
            self._call(self._ears.told, owner, None)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._stop.is_set() and function != self._ended.set:
            return
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            assert self._loop.is_closed(), "nothing else can go wrong here"


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Until they end: a watch of kopf that is just between two streams swallows a cancellation.

    The tasks of kopf's schedulers come last: without them a worker that was just handed over would
    never begin, and so not end either.
    """
    left = set(tasks)
    loop = asyncio.get_running_loop()
    end_s = loop.time() + CANCEL_S
    while left and loop.time() < end_s:
        for task in [one for one in left if not _SCHEDULERS.match(one.get_name())] or left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
