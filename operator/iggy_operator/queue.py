"""Which key needs a pass, and when: bookkeeping without tasks, and the workers that use it.

A key waits once however often it is added, and is never worked on twice at once. A key that changes
during its pass runs again. Events only make things faster: whoever adds all keys from time to time
(the resync) loses nothing.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from iggy_operator.backoff import Chance, pause_s
from iggy_operator.clock import Clock

WORKERS: Final = 8
KEYS_MAX: Final = 100_000
"""A key beyond that is refused; the next resync brings it again."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do until somebody adds the key."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Run again after the key's own back-off."""


@dataclass(frozen=True, slots=True)
class After:
    """Run again in that time; no failure of this key."""

    seconds: float


Outcome: TypeAlias = Done | Failed | After


@dataclass(slots=True)
class _Waiting:
    due_s: float
    number: int


class WorkQueue(Generic[K]):
    """Keys and when they are due. Times are those of one monotonic clock, handed in."""

    def __init__(self, chance: Chance, *, keys_max: int = KEYS_MAX) -> None:
        """`chance` gives the jitter."""
        self._chance = chance
        self._keys_max = keys_max
        self._heap: list[tuple[float, int, K]] = []
        self._waiting: dict[K, _Waiting] = {}
        self._running: dict[K, float] = {}  # since when it was due
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """Keys that wait or run."""
        return len(self._waiting.keys() | self._running.keys())

    def add(self, key: K, now_s: float) -> bool:
        """The key has changed: due at once, its failures forgotten. False if there is no room."""
        self._failures.pop(key, None)
        if key in self._running:
            self._again.add(key)
            return True
        return self._wait(key, now_s)

    def check(self, key: K, now_s: float) -> bool:
        """Have a look at the key; one that waits for its back-off goes on waiting."""
        if key in self._running:
            return True
        return key in self._waiting or self._wait(key, now_s)

    def take(self, now_s: float) -> K | None:
        """A key whose turn it is; it runs until `finish`. The longest due comes first."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, number, key = heapq.heappop(self._heap)
            waiting = self._waiting.get(key)
            if waiting is None or waiting.number != number:
                continue  # an older appointment of this key
            del self._waiting[key]
            self._running[key] = due_s
            return key
        return None

    def finish(self, key: K, now_s: float, outcome: Outcome) -> None:
        """The pass of a key that was taken is over."""
        del self._running[key]
        if not isinstance(outcome, Failed):
            self._failures.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self._failures.pop(key, None)
            self._wait(key, now_s)
        elif isinstance(outcome, Failed):
            self._failures[key] = self._failures.get(key, 0) + 1
            self._wait(key, now_s + pause_s(self._failures[key], self._chance))
        elif isinstance(outcome, After):
            self._wait(key, now_s + outcome.seconds)

    def next_due_s(self) -> float | None:
        """When the next key is due; None if none waits."""
        while self._heap:
            due_s, number, key = self._heap[0]
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.number == number:
                return due_s
            heapq.heappop(self._heap)
        return None

    def due(self, now_s: float) -> list[K]:
        """Keys whose turn it is, and those that run: for the metrics."""
        waiting = [key for key, item in self._waiting.items() if item.due_s <= now_s]
        return [*waiting, *self._running]

    def oldest_age_s(self, now_s: float) -> float:
        """How long the longest due key has been waiting or running: for the probe."""
        due = [waiting.due_s for waiting in self._waiting.values()]
        return max(0.0, now_s - min((*due, *self._running.values()), default=now_s))

    def _wait(self, key: K, due_s: float) -> bool:
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.due_s <= due_s:
            return True
        if waiting is None and len(self) >= self._keys_max:
            return False
        number = next(self._numbers)
        self._waiting[key] = _Waiting(due_s, number)
        heapq.heappush(self._heap, (due_s, number, key))
        return True


class Workers(Generic[K]):
    """Tasks that take keys and run passes, until `stop`."""

    def __init__(
        self,
        queue: WorkQueue[K],
        clock: Clock,
        run_pass: Callable[[K], Awaitable[Outcome]],
        *,
        count: int = WORKERS,
    ) -> None:
        """`run_pass` turns every failure that it expects into an outcome."""
        self._queue = queue
        self._clock = clock
        self._run_pass = run_pass
        self._count = count
        self._stopping = False
        self._wake = asyncio.Event()

    def add(self, key: K) -> bool:
        """As `WorkQueue.add`, from the same loop."""
        added = self._queue.add(key, self._clock.monotonic_s())
        self._wake.set()
        return added

    def check(self, key: K) -> bool:
        """As `WorkQueue.check`, from the same loop."""
        added = self._queue.check(key, self._clock.monotonic_s())
        self._wake.set()
        return added

    def stop(self) -> None:
        """Take no further key; passes that run come to their end, and so does `run`."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work. A pass that raises ends this, and so the process: a bug is no state."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._count):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while not self._stopping:
            key = self._queue.take(self._clock.monotonic_s())
            if key is None:
                await self._pause()
                continue
            outcome = await self._run_pass(key)
            self._queue.finish(key, self._clock.monotonic_s(), outcome)
            self._wake.set()

    async def _pause(self) -> None:
        """Until the next key is due, or somebody adds one."""
        self._wake.clear()
        due_s = self._queue.next_due_s()
        left_s = None if due_s is None else max(0.0, due_s - self._clock.monotonic_s())
        try:
            async with asyncio.timeout(left_s):
                await self._wake.wait()
        except TimeoutError:
            return
