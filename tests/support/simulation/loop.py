"""Event loops on a virtual clock: one loop for each simulated process, one schedule for all.

Nothing waits: when all that was due is done, time jumps to the next event. An empty schedule with
work unfinished is a deadlock, and an error. Every callback costs its process a little time, drawn
from the seed, so that processes interleave differently from seed to seed, and in the same way for
the same seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import heapq
import itertools
import random
import traceback
from asyncio import events
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")

COST_S = (2e-6, 60e-6)  # of one callback
BLOCKING_S = (0.1e-3, 4e-3)  # of work in an executor
EPOCH_US = 1_800_000_000_000_000  # the wall clock when a simulation starts


class DeadlockError(Exception):
    """Somebody waits, and nothing will ever happen."""


class Trace:
    """What happened, in order, as a hash; the last events also as text."""

    def __init__(self, kept: int = 0) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._kept = kept
        self.lines: list[str] = []
        self.events = 0

    def note(self, now_s: float, *what: object) -> None:
        line = f"{now_s:.6f} " + " ".join(map(str, what))
        self.events += 1
        self._hash.update(line.encode())
        if self._kept:
            self.lines.append(line)
            del self.lines[: -self._kept]

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


class Schedule:
    """Virtual time, and what is due when."""

    def __init__(self, seed: int, *, kept: int = 0) -> None:
        self.now_s = 0.0
        self.chance = random.Random(f"schedule-{seed}")
        self.trace = Trace(kept)
        self.after_step: Callable[[SimulatedLoop], None] = lambda loop: None
        self._due: list[tuple[float, int, asyncio.Handle, SimulatedLoop]] = []
        self._numbers = itertools.count()

    def put(self, at_s: float, handle: asyncio.Handle, loop: SimulatedLoop) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), handle, loop))

    def note(self, *what: object) -> None:
        self.trace.note(self.now_s, *what)

    def run_until(self, wanted: asyncio.Future[T], *, limit_s: float) -> T:
        """Let the world go on until `wanted` is done; its result. `limit_s` is virtual time."""
        end_s = self.now_s + limit_s
        while not wanted.done():
            if not self._due:
                raise DeadlockError(f"nothing is due at {self.now_s:.6f} s and {wanted} waits")
            if self.now_s > end_s:
                raise DeadlockError(f"not done in {limit_s} s: {wanted}")
            self._step()
        return wanted.result()

    def _step(self) -> None:
        at_s, number, handle, loop = heapq.heappop(self._due)
        if handle.cancelled() or loop.dead:
            return
        if loop.busy_until_s > at_s:
            heapq.heappush(self._due, (loop.busy_until_s, number, handle, loop))
            return
        self.now_s = max(self.now_s, at_s)
        before = events._get_running_loop()
        events._set_running_loop(loop)
        try:
            handle._run()
        finally:
            events._set_running_loop(before)
        loop.busy_until_s = self.now_s + self.chance.uniform(*COST_S)
        self.after_step(loop)


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process. `kill` ends it as SIGKILL does: nothing of it ever runs again."""

    def __init__(self, schedule: Schedule, name: str) -> None:
        self.schedule = schedule
        self.name = name
        self.dead = False
        self.busy_until_s = 0.0
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._on_error: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self.errors: list[dict[str, Any]] = []
        self.on_kill: list[Callable[[], None]] = []

    # time and callbacks

    def time(self) -> float:
        return self.schedule.now_s

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.schedule.put(max(self.schedule.now_s, self.busy_until_s), handle, self)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + max(delay, 0.0), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.schedule.put(max(when, self.schedule.now_s), handle, self)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    # futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: object = None, **options: Any
    ) -> asyncio.Task[T]:
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, **options)
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """What a thread would do happens at one later moment; the result comes a bit after."""
        future: asyncio.Future[T] = self.create_future()
        chance = self.schedule.chance

        def work() -> None:
            done: Future[T] = Future()
            try:
                done.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - as any executor does
                done.set_exception(error)
            self.call_later(chance.uniform(*BLOCKING_S), tell, done)

        def tell(done: Future[T]) -> None:
            if future.cancelled():
                return
            if (error := done.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())

        self.call_later(chance.uniform(*BLOCKING_S), work)
        return future

    # the rest that asyncio asks for

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.dead

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._on_error = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.dead or (error is not None and not isinstance(error, Exception)):
            return  # the machine has stopped
        self.errors.append(context)
        if self._on_error is not None:
            self._on_error(self, context)

    def stall(self, duration_s: float) -> None:
        """The process gets no processor for so long."""
        self.busy_until_s = max(self.busy_until_s, self.schedule.now_s) + duration_s

    def kill(self) -> None:
        """End the process. Whatever its coroutines have left is thrown away, in order."""
        self.dead = True
        for end in self.on_kill:
            end()
        for task in list(self.tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _throw_away(task)
        self.tasks.clear()


def _throw_away(task: asyncio.Task[Any]) -> None:
    """Close a coroutine now, in order, and not whenever the garbage collector comes by."""
    if task.done():
        if not task.cancelled():
            task.exception()
        return
    try:
        task.get_coro().close()  # type: ignore[union-attr]
    except BaseException:  # noqa: BLE001 - its clean-up touches a world that is gone
        return


def told(context: dict[str, Any]) -> str:
    """What a loop's handler was given, with the place where it was raised."""
    error = context.get("exception")
    lines = [] if error is None else traceback.format_exception(error)[-9:]
    return f"{context.get('message')}: {''.join(lines)}"


class Inline(Executor):
    """An executor that has no threads: work is done when it is handed in."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **options))
        except Exception as error:  # noqa: BLE001 - as any executor does
            future.set_exception(error)
        return future


class SimulatedClock:
    """The wall clock of the machine, which may be set while it runs."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.offset_us = EPOCH_US

    def now_us(self) -> int:
        return self.offset_us + self.monotonic_us()

    def monotonic_us(self) -> int:
        return int(self._schedule.now_s * 1_000_000)
