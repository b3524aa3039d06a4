"""One local instance: a broker process, its streams and topics, a process for each job.

Not thread-safe and without threads of its own: whoever owns it calls `step` often enough.
"""

import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from iggy_client.client import Client
from iggy_client.errors import ClientError, LinkError
from iggy_operator.resources import Resources, Source, load
from iggykube.errors import LocalError
from iggykube.local import redrives
from iggykube.local import state as states
from iggykube.local.apply import apply_plan
from iggykube.local.broker import BrokerProcess, clean_environment
from iggykube.local.changes import change_notes
from iggykube.local.folders import ROOT_USERNAME, Folders, Ports, write_private
from iggykube.local.job_process import JobProcess
from iggykube.local.job_set import JOBS_STOP_S_MAX, JobSet
from iggykube.local.jobs import PASSWORD_VARIABLE, USERNAME_VARIABLE
from iggykube.local.leftovers import end_leftovers, remember
from iggykube.local.numbers import Numbers
from iggykube.local.plan import JobPlan, LocalPlan, TopicPlan, broker_variables, make_plan
from iggykube.local.restoring import restore
from iggykube.local.secrets import write_secrets
from iggykube.local.sinks import SinkProcess
from iggykube.local.snapshot import Snapshot, StreamRow, TlsRow, TopicRow, encode
from iggykube.local.sources import SourceProcess

BROKER_STOP_S_MAX: Final = 60.0
ORPHANS_STOP_S_MAX: Final = 5.0
"""Without their broker jobs cannot finish: they would try for minutes to reach it."""
NOTES_MAX: Final = 200
"""Older ones are forgotten."""
_STOP_PAUSE_S: Final = 0.05
_CLIENT_S_MAX: Final = 10.0


def load_resources(data_dir: Path, files: Sequence[Path]) -> Resources:
    """Read and check files against what was applied to this data directory before.

    Raises `iggy_operator.documents.DocumentErrors` with every problem, and LocalError.
    """
    applied = states.load(Folders.at(data_dir).state_file)
    return load(files, applied.values())


def _never() -> bool:
    return False


class LocalInstance:
    """A broker on this machine, with jobs for its sinks and sources."""

    def __init__(self, data_dir: Path, resources: Resources, *, ports: Ports | None = None) -> None:
        """Nothing is started yet. Take `resources` from `load_resources` for the same folder."""
        self.folders = Folders.at(data_dir)
        self.notes: list[str] = []
        """What the user should know: things done, things left as they are."""
        self._resources = resources
        self._wanted_ports = ports or Ports()
        self._ports: Ports | None = None
        self._held = ExitStack()
        self._broker: BrokerProcess | None = None
        self._client: Client | None = None
        self._plan: LocalPlan | None = None
        self._jobs = JobSet()
        self._numbers = Numbers()
        self._untold: list[str] = []

    def __enter__(self) -> Self:
        """The instance; stopped at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def address(self) -> str:
        """Host and port of the broker, once it was started."""
        return self._running_ports.address

    @property
    def username(self) -> str:
        """The root user."""
        return ROOT_USERNAME

    @property
    def password(self) -> str:
        """The root user's password."""
        return self.folders.password()

    @property
    def _running_ports(self) -> Ports:
        if self._ports is None:
            raise LocalError("the instance is not started")
        return self._ports

    def start(self, *, jobs: bool = True, should_stop: Callable[[], bool] = _never) -> None:
        """Start the broker, wait until it serves, bring streams and topics in line, start jobs.

        `should_stop` is asked while waiting. Raises LocalError, BrokerDied or Stopped; everything
        that was started is stopped again then. Raises DocumentErrors for what cannot run here.
        """
        try:
            self._start(should_stop)
            if jobs:
                self.start_jobs()
        except BaseException:
            self.stop()
            raise

    def _start(self, should_stop: Callable[[], bool]) -> None:
        ports = self._wanted_ports
        plan = make_plan(self._resources, self.folders, ports)  # refuse before anything is touched
        self.folders.create()
        self._held.enter_context(self.folders.lock())
        self.tell(*end_leftovers(self.folders), *plan.notes)
        write_secrets(self.folders, plan.secrets, is_alone=True)
        self._ports = ports.resolved()
        self._plan = make_plan(self._resources, self.folders, self._ports)
        variables = broker_variables(self.folders, self._ports, self.password)
        environment = variables | dict(plan.broker_environment)
        if plan.restore is not None:
            self.tell(*restore(self.folders, variables, plan.restore, should_stop))
        self._broker = BrokerProcess(self.folders, self._ports, environment)
        remember(self.folders, self._pids())
        self._broker.wait_ready(should_stop)
        self._apply(self._plan, self._resources)

    def _apply(self, plan: LocalPlan, resources: Resources) -> None:
        applied = states.load(self.folders.state_file)
        try:
            outcome = apply_plan(self._connected(plan), plan, applied)
        except (ClientError, LinkError) as error:
            raise LocalError(f"the broker at {self.address}: {error}") from error
        newest = applied.replaced(resources.documents, dict(outcome.incarnations))
        states.save(self.folders.state_file, newest)
        self.tell(*outcome.done, *outcome.notes)

    def _connected(self, plan: LocalPlan) -> Client:
        """A client that is open, as far as its last call has shown."""
        tls = None if plan.tls is None else plan.tls.tls
        if self._client is None:
            self._client = Client.connect(
                self.address, self.username, self.password, timeout_s=_CLIENT_S_MAX, tls=tls
            )
            return self._client
        if tls is not None:
            self._client.trust(tls)
        if not self._client.is_open:
            self._client.reconnect()
        return self._client

    def start_jobs(self) -> None:
        """Start every sink and source that is not suspended. For callers of `start(jobs=False)`."""
        if self._plan is None or any(self._jobs):
            return
        for plan in self._plan.jobs:
            self._jobs.add(plan, self._process)
            self._jobs.pump(time.monotonic())
            remember(self.folders, self._pids())

    def _process(self, plan: JobPlan) -> JobProcess:
        environment = clean_environment() | {
            USERNAME_VARIABLE: self.username,
            PASSWORD_VARIABLE: self.password,
        }
        if isinstance(plan.connector, Source):
            return SourceProcess(plan, self.folders, environment)
        asked = redrives.asked_of(self.folders, plan.name)
        return SinkProcess(plan, self.folders, environment, asked=asked)

    def change(self, resources: Resources) -> None:
        """Bring the running instance in line with other resources; nothing is deleted.

        Streams and topics are made and changed; jobs are started, started again where their spec
        is another one, and stopped where they are gone. Notes say what was done.

        Raises DocumentErrors for what cannot run here, and LocalError for what the broker refuses:
        the jobs go on as before then.
        """
        former = self._plan
        assert former is not None, "only what was started is changed"
        plan = make_plan(resources, self.folders, self._running_ports, running=former)
        write_secrets(self.folders, plan.secrets)
        self._apply(plan, resources)
        self._plan = plan
        self.tell(*change_notes(former, plan), *self._jobs.change(plan.jobs, self._process))

    def tell(self, *notes: str) -> None:
        """Add to the notes."""
        self.notes = [*self.notes, *notes][-NOTES_MAX:]
        self._untold = [*self._untold, *notes][-NOTES_MAX:]

    def take_notes(self) -> list[str]:
        """The notes since the last call."""
        taken, self._untold = self._untold, []
        return taken

    def step(self, timeout_s: float = 0.25) -> Snapshot:
        """Wait up to `timeout_s` for news, take them in, say how things stand.

        Restarts jobs that are due. Raises BrokerDied when the broker has ended.
        """
        outputs = [job.output for job in self._jobs.processes if job.output is not None]
        select.select(outputs, [], [], timeout_s)
        if self._broker is not None:
            self._broker.check()
        before = self._pids()
        self.tell(*self._jobs.redrive(redrives.asked(self.folders), self._process))
        self._jobs.pump(time.monotonic())
        if (after := self._pids()) != before:
            remember(self.folders, after)
        if self._client is not None and self._plan is not None:
            self._numbers.refresh(self._client, self._plan, time.monotonic())
        snapshot = self._snapshot()
        self._publish(snapshot)
        return snapshot

    def stop(self, *, should_kill: Callable[[], bool] = _never) -> None:
        """Stop the jobs, which finish their batch, then the broker. May be repeated.

        `should_kill` is asked while waiting: True ends everything at once.
        """
        for job in self._jobs.processes:
            job.terminate()
        self._wait_for_jobs(should_kill)
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._broker is not None:
            self._broker.terminate()
            self._wait_for_broker(self._broker, should_kill)
            self._broker = None
        if self._ports is not None:
            self.folders.snapshot_file.unlink(missing_ok=True)
            remember(self.folders, ())
        self._held.close()

    def _wait_for_jobs(self, should_kill: Callable[[], bool]) -> None:
        is_broker_there = self._broker is not None and self._broker.wait(0) is None
        stop_s_max = JOBS_STOP_S_MAX if is_broker_there else ORPHANS_STOP_S_MAX
        deadline_s = time.monotonic() + stop_s_max
        while running := [job for job in self._jobs.processes if job.pid is not None]:
            if should_kill() or time.monotonic() > deadline_s:
                for job in running:
                    job.kill()
            outputs = [job.output for job in running if job.output is not None]
            select.select(outputs, [], [], _STOP_PAUSE_S)
            for job in running:
                job.pump(time.monotonic())

    def _wait_for_broker(self, broker: BrokerProcess, should_kill: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + BROKER_STOP_S_MAX
        while broker.wait(_STOP_PAUSE_S) is None:
            if should_kill() or time.monotonic() > deadline_s:
                broker.kill()

    def _pids(self) -> tuple[int, ...]:
        return (*self._jobs.pids, *([self._broker.pid] if self._broker is not None else []))

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            address=self.address,
            monitoring_address=self._running_ports.monitoring_address,
            data=str(self.folders.root),
            pid=os.getpid(),
            taken_at_s=time.time(),
            streams=tuple(self._stream_rows()),
            notes=tuple(self.notes),
            tls=self._tls_row(),
        )

    def _tls_row(self) -> TlsRow | None:
        served = None if self._plan is None else self._plan.tls
        if served is None:
            return None
        return TlsRow(str(served.ca_file or ""), served.tls.server_name)

    def _stream_rows(self) -> Iterator[StreamRow]:
        assert self._plan is not None, "there are no rows before the start"
        for stream in self._plan.streams:
            topics = [item for item in self._plan.topics if item.stream is stream]
            yield StreamRow(stream.stream_name, tuple(self._topic_row(item) for item in topics))

    def _topic_row(self, item: TopicPlan) -> TopicRow:
        numbers = self._numbers
        jobs = [job for job in self._jobs if job.plan in item.jobs]
        sinks = [job for job in jobs if isinstance(job, SinkProcess)]
        return TopicRow(
            name=item.topic.topic_name,
            partitions=numbers.partitions(item),
            messages=numbers.messages(item),
            size_bytes=numbers.size_bytes(item),
            sinks=tuple(sink.row(numbers.progress(sink.plan)) for sink in sinks),
            groups=numbers.groups(item),
            sources=tuple(job.row() for job in jobs if isinstance(job, SourceProcess)),
        )

    def _publish(self, snapshot: Snapshot) -> None:
        """Leave the snapshot where `iggykube status` finds it, when the numbers are new."""
        if self._numbers.take_news():
            write_private(self.folders.snapshot_file, encode(snapshot), is_lasting=False)
