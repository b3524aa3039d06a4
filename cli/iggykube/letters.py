"""What lies in a topic of dead letters, counted: for `iggykube sink redrive --dry-run`."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from iggy_client.client import Client
from iggy_client.errors import ClientError, LinkError
from iggy_wire.batch import Message
from iggy_wire.errors import WireError
from iggykube import headers
from iggykube.connection import BrokerProblem
from iggykube.local.redrives import Redrive
from iggykube.option_types import Position, microseconds, parse_moment
from iggykube.reader import POLL_MESSAGES_MAX, Reader

GROUPS_MAX: Final = 1000
"""Letters of further kinds are counted together, as those of no sink."""
_PREFIX: Final = "iggy.dlq."
_REST: Final = ("", "", "", 0)
_TIME_US_MAX: Final = 1 << 63

Kind = tuple[str, str, str, int]


class LetterGroup(msgspec.Struct, frozen=True):
    """Letters of one kind; `first` and `last` are when the broker took their messages, in
    microseconds.
    """

    sink: str
    stage: str
    error_class: str
    attempt: int
    letters: int
    first_us: int
    last_us: int
    chosen: bool
    """Whether the request would write them again."""

    @property
    def times(self) -> tuple[str, str]:
        """First and last for people, UTC."""
        return _text(self.first_us), _text(self.last_us)


class Tally:
    """Counts letters by kind."""

    def __init__(self, sink: str, redrive: Redrive) -> None:
        """`redrive` is the request of `sink`."""
        self._sink, self._redrive = sink, redrive
        moments = (redrive.since, redrive.until)
        since, until = (
            None if text is None else microseconds(parse_moment(text)) for text in moments
        )
        self._times = range(since or 0, _TIME_US_MAX if until is None else until)
        self._groups: dict[tuple[Kind, bool], LetterGroup] = {}

    def add(self, message: Message) -> None:
        """Count one letter. What is none, and lies there all the same, counts as of no sink."""
        kind, time_us = _kind(message)
        key = kind, self._is_chosen(kind, time_us)
        if key not in self._groups and len(self._groups) >= GROUPS_MAX:
            key = _REST, False
        found = self._groups.get(key)
        if found is None:
            self._groups[key] = LetterGroup(*key[0], 1, time_us, time_us, key[1])
            return
        self._groups[key] = structs.replace(
            found,
            letters=found.letters + 1,
            first_us=min(found.first_us, time_us),
            last_us=max(found.last_us, time_us),
        )

    def groups(self) -> list[LetterGroup]:
        """In the order of their kinds."""
        return [self._groups[key] for key in sorted(self._groups)]

    def _is_chosen(self, kind: Kind, time_us: int) -> bool:
        sink, stage, error_class, _ = kind
        wish = self._redrive
        return (
            sink == self._sink
            and time_us in self._times
            and (not wish.error_classes or error_class in wish.error_classes)
            and (not wish.stages or stage in wish.stages)
        )


def waiting(client: Client, job: Mapping[str, Any]) -> Iterator[Message]:
    """The letters that the job has not read yet: in its dead letters, behind its checkpoint.

    Raises BrokerProblem.
    """
    dead = job["sink"]["errors"]["deadLetter"]
    stream, topic = dead.get("stream") or job["stream"], dead["topic"]
    try:
        yield from _read(client, stream, topic, job)
    except (ClientError, LinkError, WireError) as error:
        raise BrokerProblem(str(error)) from error


def _read(client: Client, stream: str, topic: str, job: Mapping[str, Any]) -> Iterator[Message]:
    if client.get_topic(stream, topic) is None:
        return  # it is made with the first start of the job
    reader = Reader(client, stream, topic, Position("first"))
    reader.begin(())
    for partition, position in _redriven(client, stream, topic, job).items():
        if position > 0 and partition in reader.partitions:
            reader.done(partition, position - 1)
    while not reader.is_at_end():
        for partition in reader.partitions:
            for message in reader.poll(partition, POLL_MESSAGES_MAX):
                reader.done(partition, message.offset)
                yield message


def _redriven(client: Client, stream: str, topic: str, job: Mapping[str, Any]) -> Mapping[int, int]:
    """How far earlier redrives have come: the next offset in each partition."""
    # Its libraries take a second to import.
    from iggy_spark import job_config
    from iggy_spark.checkpoint_view import CheckpointView
    from iggy_spark.connections import incarnation_of
    from iggy_spark.errors import IggySparkError

    details = client.get_topic(stream, topic)
    if details is None:
        return {}
    try:
        config = job_config.parse(msgspec.json.encode(job), name="the job's file")
        found = CheckpointView(config).committed(str(incarnation_of(details)))
    except IggySparkError as error:
        raise BrokerProblem(str(error)) from error
    return {} if found is None else found.positions


def _kind(message: Message) -> tuple[Kind, int]:
    """And the time of the message that the letter is about; else its own."""
    try:
        found = headers.decode(message.headers)
    except WireError:
        return _REST, message.timestamp_us
    sink, stage, error_class = (
        str(found.get(_PREFIX + name, "")) for name in ("sink", "stage", "error_class")
    )
    attempt = found.get(f"{_PREFIX}attempt")
    kind = sink, stage, error_class, attempt if isinstance(attempt, int) else 0
    time_us = found.get(f"{_PREFIX}timestamp")
    return kind, time_us if isinstance(time_us, int) else message.timestamp_us


def _text(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def counted(messages: Iterable[Message], sink: str, redrive: Redrive) -> list[LetterGroup]:
    """All of them, by kind."""
    tally = Tally(sink, redrive)
    for message in messages:
        tally.add(message)
    return tally.groups()
