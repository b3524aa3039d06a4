"""How things stand, as values: what the view draws, what `status` reads, what programs get."""

from enum import StrEnum

import msgspec

from iggykube.local.redrives import RedriveRow


class SinkState(StrEnum):
    """What a sink's process is doing."""

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


class SinkRow(msgspec.Struct, frozen=True):
    """One sink. Counts are messages, over all partitions."""

    name: str
    type: str
    state: SinkState
    committed: int = 0
    end: int = 0
    lag: int = 0
    batch: int | None = None
    restarts: int = 0
    reason: str = ""
    log: str = ""
    """What its process writes besides its events."""
    job: str = ""
    """The file that its process was started with; empty before that."""
    rejected: int = 0
    """Messages that this run set aside because they could not be decoded."""
    rows: tuple[str, ...] = ()
    """The last rows of a Console sink."""
    partitions: tuple[PartitionRow, ...] = ()
    """Those with the most lag, in order of their numbers."""
    redrive: RedriveRow | None = None
    """The last request to write its dead letters again."""


class GroupRow(msgspec.Struct, frozen=True):
    """One consumer group that is no sink's. Counts are messages, over all partitions."""

    name: str
    members: int
    committed: int = 0
    end: int = 0
    lag: int = 0
    partitions: tuple[PartitionRow, ...] = ()


class TopicRow(msgspec.Struct, frozen=True):
    """One topic and its sinks."""

    name: str
    partitions: int
    messages: int
    size_bytes: int
    sinks: tuple[SinkRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()


class StreamRow(msgspec.Struct, frozen=True):
    """One stream and its topics."""

    name: str
    topics: tuple[TopicRow, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """A local instance at one moment."""

    address: str
    monitoring_address: str
    data: str
    pid: int
    taken_at_s: float
    streams: tuple[StreamRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sinks(self) -> tuple[SinkRow, ...]:
        """All sinks of all topics."""
        topics = (topic for stream in self.streams for topic in stream.topics)
        return tuple(sink for topic in topics for sink in topic.sinks)

    @property
    def lag(self) -> int:
        """Messages that some sink has still to carry over."""
        return sum(sink.lag for sink in self.sinks)

    def sink(self, name: str) -> SinkRow:
        """The sink of this name (`topic.sink`). Raises KeyError."""
        for row in self.sinks:
            if row.name == name:
                return row
        raise KeyError(name)


def encode(snapshot: Snapshot) -> str:
    """As one line of JSON."""
    return msgspec.json.encode(snapshot).decode()


def decode(text: bytes) -> Snapshot:
    """Back from JSON. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=Snapshot)
