"""The jobs of all sinks of one instance, also while what is wanted changes."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from iggykube.local.plan import SinkPlan
from iggykube.local.redrives import Redrive
from iggykube.local.sinks import SinkProcess

SINKS_STOP_S_MAX: Final = 300.0
"""A batch may take long; after that the job is killed, and repeats it at the next start."""

Make: TypeAlias = Callable[[SinkPlan], SinkProcess]


class SinkSet:
    """Starts, restarts and stops jobs. A job's successor begins when the job has ended."""

    def __init__(self) -> None:
        """There are none yet."""
        self._wanted: dict[str, SinkProcess] = {}
        self._not_started: set[str] = set()
        self._leaving: dict[str, tuple[SinkProcess, float]] = {}

    def __iter__(self) -> Iterator[SinkProcess]:
        """The sinks that are wanted."""
        return iter(tuple(self._wanted.values()))

    @property
    def processes(self) -> tuple[SinkProcess, ...]:
        """Also those that are to end."""
        return (*(sink for sink, _ in self._leaving.values()), *self._wanted.values())

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes that run."""
        return tuple(sink.pid for sink in self.processes if sink.pid is not None)

    def add(self, plan: SinkPlan, make: Make) -> None:
        """One more; `pump` starts it."""
        self._wanted[plan.name] = make(plan)
        self._not_started.add(plan.name)

    def change(self, plans: Iterable[SinkPlan], make: Make) -> list[str]:
        """From now on these are wanted; what that means for whom, for people."""
        wanted = {plan.name: plan for plan in plans}
        notes = []
        for name, sink in list(self._wanted.items()):
            plan = wanted.pop(name, None)
            if plan == sink.plan:
                continue
            self._retire(name, sink)
            if plan is None:
                notes.append(f"sink {name} stops: what it wrote and its checkpoint are kept")
            else:
                self.add(plan, make)
                notes.append(f"sink {name} starts again with its new spec")
        for name, plan in wanted.items():
            self.add(plan, make)
            notes.append(f"sink {name} starts")
        return notes

    def redrive(self, asked: Mapping[str, Redrive], make: Make) -> list[str]:
        """Start sinks again that have dead letters to write again; which, for people. `make` gives
        them the request. Those that are suspended are left alone.
        """
        notes = []
        for name, sink in list(self._wanted.items()):
            wish = asked.get(name)
            if wish is None or sink.plan.sink.is_suspended:
                continue
            if sink.redrive is not None and sink.redrive.request == wish.request:
                continue
            self._retire(name, sink)
            self.add(sink.plan, make)
            notes.append(f"sink {name} starts again to redrive its dead letters")
        return notes

    def _retire(self, name: str, sink: SinkProcess) -> None:
        del self._wanted[name]
        self._not_started.discard(name)
        sink.terminate()
        if sink.pid is not None:
            self._leaving[name] = (sink, time.monotonic() + SINKS_STOP_S_MAX)

    def pump(self, now_s: float) -> None:
        """Take in what happened; start whatever is due, end whatever takes too long to end."""
        for name, (sink, deadline_s) in list(self._leaving.items()):
            if now_s > deadline_s:
                sink.kill()
            sink.pump(now_s)
            if sink.pid is None:
                del self._leaving[name]
        for name, sink in self._wanted.items():
            if name in self._not_started:
                if name in self._leaving:
                    continue
                self._not_started.discard(name)
                sink.start(now_s)
            else:
                sink.pump(now_s)
