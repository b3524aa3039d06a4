"""How things stand, as values: what the view draws, what `status` reads, what programs get."""

from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from iggykube.local.redrives import RedriveRow


class JobState(StrEnum):
    """What the process of a sink or source is doing."""

    STARTING = "Starting"
    RUNNING = "Running"
    WAITING = "Waiting"
    """It failed and is started again after a pause."""
    COMPLETED = "Completed"
    SUSPENDED = "Suspended"
    FAILED = "Failed"
    """It is not started again."""
    STOPPED = "Stopped"


class PartitionRow(msgspec.Struct, frozen=True):
    """How far somebody is in one partition. `end` is the offset that the next message gets."""

    partition: int
    committed: int
    end: int
    lag: int


class JobRow(msgspec.Struct, frozen=True):
    """One sink or source."""

    name: str
    type: str
    state: JobState
    batch: int | None = None
    restarts: int = 0
    reason: str = ""
    log: str = ""
    """What its process writes besides its events."""
    job: str = ""
    """The file that its process was started with; empty before that."""


class SinkRow(JobRow, frozen=True):
    """One sink. Counts are messages, over all partitions."""

    committed: int = 0
    end: int = 0
    lag: int = 0
    rejected: int = 0
    """Messages that this run set aside because they could not be decoded."""
    rows: tuple[str, ...] = ()
    """The last rows of a Console sink."""
    partitions: tuple[PartitionRow, ...] = ()
    """Those with the most lag, in order of their numbers."""
    redrive: RedriveRow | None = None
    """The last request to write its dead letters again."""
    start_by: tuple[str, ...] = ()
    """What said where the last start began: checkpoint, target, group, settings."""


class SourceRow(JobRow, frozen=True):
    """One source. Counts are messages."""

    messages: int = 0
    """Sent since the instance, or a new spec of the source, was started."""
    committed: Any = None
    """The position that is written down, in the other system's terms: JSON. None: not known."""
    behind: int | None = None
    """What waits in the other system. None: nobody can tell, or not yet."""


Row = TypeVar("Row", bound=JobRow)


class GroupRow(msgspec.Struct, frozen=True):
    """One consumer group that is no job's. Counts are messages, over all partitions."""

    name: str
    members: int
    committed: int = 0
    end: int = 0
    lag: int = 0
    partitions: tuple[PartitionRow, ...] = ()


class TopicRow(msgspec.Struct, frozen=True):
    """One topic, its sinks and sources."""

    name: str
    partitions: int
    messages: int
    size_bytes: int
    sinks: tuple[SinkRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    sources: tuple[SourceRow, ...] = ()


class StreamRow(msgspec.Struct, frozen=True):
    """One stream and its topics."""

    name: str
    topics: tuple[TopicRow, ...] = ()


class TlsRow(msgspec.Struct, frozen=True):
    """How clients make sure of the broker."""

    ca_file: str = ""
    """Empty: by what the system trusts."""
    server_name: str = ""
    """What its certificate is for; empty: the host of its address."""


class Snapshot(msgspec.Struct, frozen=True):
    """A local instance at one moment."""

    address: str
    monitoring_address: str
    data: str
    pid: int
    taken_at_s: float
    streams: tuple[StreamRow, ...] = ()
    notes: tuple[str, ...] = ()
    tls: TlsRow | None = None
    """None: the broker speaks plain text."""

    @property
    def topics(self) -> tuple[TopicRow, ...]:
        """All topics of all streams."""
        return tuple(topic for stream in self.streams for topic in stream.topics)

    @property
    def sinks(self) -> tuple[SinkRow, ...]:
        """All sinks of all topics."""
        return tuple(sink for topic in self.topics for sink in topic.sinks)

    @property
    def sources(self) -> tuple[SourceRow, ...]:
        """All sources of all topics."""
        return tuple(source for topic in self.topics for source in topic.sources)

    @property
    def jobs(self) -> tuple[JobRow, ...]:
        """All sources and sinks."""
        return (*self.sources, *self.sinks)

    @property
    def lag(self) -> int:
        """Messages that some sink has still to carry over."""
        return sum(sink.lag for sink in self.sinks)

    def sink(self, name: str) -> SinkRow:
        """The sink of this name (`topic.sink`). Raises KeyError."""
        return _named(self.sinks, name)

    def source(self, name: str) -> SourceRow:
        """The source of this name (`topic.source`). Raises KeyError."""
        return _named(self.sources, name)


def _named(rows: tuple[Row, ...], name: str) -> Row:
    for row in rows:
        if row.name == name:
            return row
    raise KeyError(name)


def encode(snapshot: Snapshot) -> str:
    """As one line of JSON."""
    return msgspec.json.encode(snapshot).decode()


def decode(text: bytes) -> Snapshot:
    """Back from JSON. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=Snapshot)
