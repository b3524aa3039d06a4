"""All jobs of one instance, also while what is wanted changes."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from iggykube.local.job_process import JobProcess
from iggykube.local.plan import JobPlan
from iggykube.local.redrives import Redrive
from iggykube.local.sinks import SinkProcess

JOBS_STOP_S_MAX: Final = 300.0
"""A batch may take long; after that the job is killed, and repeats it at the next start."""

Make: TypeAlias = Callable[[JobPlan], JobProcess]


class JobSet:
    """Starts, restarts and stops jobs. A job's successor begins when the job has ended."""

    def __init__(self) -> None:
        """There are none yet."""
        self._wanted: dict[str, JobProcess] = {}
        self._not_started: set[str] = set()
        self._leaving: dict[str, tuple[JobProcess, float]] = {}

    def __iter__(self) -> Iterator[JobProcess]:
        """Those that are wanted."""
        return iter(tuple(self._wanted.values()))

    @property
    def processes(self) -> tuple[JobProcess, ...]:
        """Also those that are to end."""
        return (*(job for job, _ in self._leaving.values()), *self._wanted.values())

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes that run."""
        return tuple(job.pid for job in self.processes if job.pid is not None)

    def add(self, plan: JobPlan, make: Make) -> None:
        """One more; `pump` starts it."""
        self._wanted[plan.name] = make(plan)
        self._not_started.add(plan.name)

    def change(self, plans: Iterable[JobPlan], make: Make) -> list[str]:
        """From now on these are wanted; what that means for whom, for people."""
        wanted = {plan.name: plan for plan in plans}
        notes = []
        for name, job in list(self._wanted.items()):
            plan = wanted.pop(name, None)
            if plan == job.plan:
                continue
            self._retire(name, job)
            if plan is None:
                notes.append(f"{job.plan.title} stops: what it wrote and its checkpoint are kept")
            else:
                self.add(plan, make)
                notes.append(f"{plan.title} starts again with its new spec")
        for plan in wanted.values():
            self.add(plan, make)
            notes.append(f"{plan.title} starts")
        return notes

    def redrive(self, asked: Mapping[str, Redrive], make: Make) -> list[str]:
        """Start sinks again that have dead letters to write again; which, for people. `make` gives
        them the request. Those that are suspended are left alone.
        """
        notes = []
        for name, sink in list(self._wanted.items()):
            wish = asked.get(name)
            if (
                wish is None
                or not isinstance(sink, SinkProcess)
                or sink.plan.connector.is_suspended
            ):
                continue
            if sink.redrive is not None and sink.redrive.request == wish.request:
                continue
            self._retire(name, sink)
            self.add(sink.plan, make)
            notes.append(f"sink {name} starts again to redrive its dead letters")
        return notes

    def _retire(self, name: str, job: JobProcess) -> None:
        del self._wanted[name]
        self._not_started.discard(name)
        job.terminate()
        if job.pid is not None:
            self._leaving[name] = (job, time.monotonic() + JOBS_STOP_S_MAX)

    def pump(self, now_s: float) -> None:
        """Take in what happened; start whatever is due, end whatever takes too long to end."""
        for name, (job, deadline_s) in list(self._leaving.items()):
            if now_s > deadline_s:
                job.kill()
            job.pump(now_s)
            if job.pid is None:
                del self._leaving[name]
        for name, job in self._wanted.items():
            if name in self._not_started:
                if name in self._leaving:
                    continue
                self._not_started.discard(name)
                job.start(now_s)
            else:
                job.pump(now_s)
