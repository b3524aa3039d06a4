"""What every source promises, as tests: a module of a source's own makes a class of them with an
origin, the system that messages come from.

    class TestRandom(SourceContract):
        @pytest.fixture
        def origin(self) -> Origin: ...

Positions go to the source as a job hands them over, without Spark and without a broker.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import pytest

from iggy_spark.errors import SinkError
from iggy_spark.sources.base import ID_BYTES, SCHEMA, Freezing, Position, Source

ALL = 1_000_000
BATCHES_MAX = 50  # to read what a test has added; more means that it never ends


class Origin(Protocol):
    """A system, and the messages that it has."""

    lump: int
    """How many messages more than asked for a batch may have, since they belong together."""

    def source(self) -> Source:
        """A source as a new process makes it. Its retries end within seconds."""

    def add(self, count: int) -> None:
        """So many messages more, to be found at once. Called after `first`."""

    def number(self, payload: bytes) -> int:
        """Which message that was, counted from 0 in the order in which they were added."""

    def away(self) -> Source | None:
        """A source of the same kind whose system does not answer; None: it has no such."""


class Message(NamedTuple):
    """One message."""

    id: bytes
    key: bytes | None
    payload: bytes


class Killed(Exception):
    """The driver dies here."""


def through_json(value: Any) -> Any:
    """As it comes out of a checkpoint, or into a task."""
    return json.loads(json.dumps(value))


def read(origin: Origin, start: Position, end: Position) -> list[Message]:
    """A batch, each part in a process of its own."""
    driver = origin.source()
    parts = through_json(driver.split(start, end))
    driver.close()
    return [message for part in parts for message in read_part(origin, start, end, part)]


def read_part(origin: Origin, start: Position, end: Position, part: Any) -> Iterator[Message]:
    """What one task reads."""
    task = origin.source()
    for batch in task.read(start, end, part):
        assert batch.schema == SCHEMA
        for row in batch.to_pylist():
            yield Message(row["id"], row["key"], row["payload"])
    task.close()


@dataclass
class Job:
    """What Spark and the job do with a source. `start`, `end` and `committed` outlive its death."""

    origin: Origin
    messages_max: int = ALL
    start: Position | None = None  # where the first batch began
    planned: tuple[Position, Position] | None = None  # the last batch
    committed: Position | None = None  # its end, once it is done
    sent: list[Message] = field(default_factory=list)  # what is in the topic
    dies_in: int | None = None  # so many steps from now

    def run(self) -> None:
        """Until there is nothing new; a killed one ends earlier."""
        source = self.origin.source()
        try:
            self._run(source)
        except Killed:
            pass
        finally:
            source.close()  # whose process is gone, whose connections are

    def _run(self, source: Source) -> None:
        self._step()
        source.check()
        if self.start is None:
            first = through_json(source.first())
            self._step()
            self.start = first
        if self.committed is not None:
            source.done(self.committed)  # nobody knows whether it was told
        if self.planned is not None and self.planned[1] != self.committed:
            self._carry(source, *self.planned)
        for _ in range(BATCHES_MAX):
            begin = self.committed or self.start
            end = through_json(source.latest(begin, self.messages_max))
            self._step()
            if end == begin:
                return
            self.planned = (begin, end)
            self._carry(source, begin, end)
        raise AssertionError(f"still not at the end after {BATCHES_MAX} batches")

    def _carry(self, source: Source, start: Position, end: Position) -> None:
        parts = through_json(source.split(start, end))
        self._step()
        for part in parts:
            for message in read_part(self.origin, start, end, part):
                self.sent.append(message)
                self._step()
        self.committed = end
        self._step()
        source.done(end)
        self._step()

    def _step(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            if self.dies_in < 0:
                self.dies_in = None
                raise Killed

    def numbers(self) -> list[int]:
        """Of the messages in the topic, one that is there twice once. The same id must always stand
        for the same message.
        """
        found: dict[bytes, Message] = {}
        for message in self.sent:
            assert found.setdefault(message.id, message) == message
        return sorted(self.origin.number(message.payload) for message in found.values())


def begun(origin: Origin, *, messages_max: int = ALL) -> Job:
    """A job that has found nothing yet: what is added from now on is its."""
    job = Job(origin, messages_max)
    job.run()
    return job


class SourceContract:
    """The tests. A class of a source gives the fixture `origin`."""

    def test_all_messages_arrive_once(self, origin: Origin) -> None:
        job = begun(origin)
        for count in (3, 1, 6):
            origin.add(count)
            job.run()

        assert job.numbers() == list(range(10))
        assert len(job.sent) == 10

    def test_where_nothing_is_new_the_end_is_the_start(self, origin: Origin) -> None:
        job = begun(origin)
        origin.add(2)
        job.run()

        assert job.committed is not None
        source = origin.source()
        assert source.latest(job.committed, ALL) == job.committed
        assert source.latest(job.committed, 1) == job.committed
        source.close()

    def test_a_batch_that_is_read_again_is_the_same(self, origin: Origin) -> None:
        job = begun(origin)
        assert job.start is not None
        origin.add(7)
        source = origin.source()
        end = through_json(source.latest(job.start, ALL))
        source.close()
        first = read(origin, job.start, end)
        origin.add(4)

        again = read(origin, job.start, end)

        assert first == again
        assert sorted(origin.number(message.payload) for message in first) == list(range(7))

    def test_messages_have_ids_of_their_own(self, origin: Origin) -> None:
        job = begun(origin)
        origin.add(20)
        job.run()

        assert {len(message.id) for message in job.sent} == {ID_BYTES}
        assert [count for count in Counter(job.sent).values() if count > 1] == []
        assert len({message.id for message in job.sent}) == 20
        assert bytes(ID_BYTES) not in {message.id for message in job.sent}
        assert all(message.payload for message in job.sent)

    def test_ids_do_not_depend_on_how_batches_are_cut(self, origin: Origin) -> None:
        one = begun(origin)
        other = Job(origin, messages_max=2, start=one.start)
        origin.add(9)

        assert one.start is not None
        source = origin.source()
        end = through_json(source.latest(one.start, ALL))
        source.close()
        whole = read(origin, one.start, end)
        other.run()

        assert sorted(whole) == sorted(other.sent)

    def test_a_limit_is_kept(self, origin: Origin) -> None:
        job = begun(origin)
        assert job.start is not None
        origin.add(10)
        source = origin.source()
        at, counts = job.start, []
        for _ in range(BATCHES_MAX):
            end = through_json(source.latest(at, 3))
            if end == at:
                break
            counts.append(len(read(origin, at, end)))
            at = end
        source.close()

        assert sum(counts) == 10
        assert max(counts) <= 3 + origin.lump

    @pytest.mark.parametrize("messages_max", [ALL, 2])
    def test_a_driver_that_dies_anywhere_loses_nothing(
        self, origin: Origin, messages_max: int
    ) -> None:
        """Between any two calls, and after any message: each death, then a run to the end."""
        job = begun(origin, messages_max=messages_max)
        added, step = 0, 0
        while True:
            origin.add(5)
            added += 5
            job.dies_in = step
            job.run()
            survived = job.dies_in is not None
            job.dies_in = None
            job.run()
            assert job.numbers() == list(range(added)), f"died after {step} steps"
            if survived:
                break
            step += 1

        assert step > 5, "it died in every place that there is"

    def test_a_driver_that_dies_before_its_first_batch_begins_again(self, origin: Origin) -> None:
        for step in range(3):
            job = Job(origin, dies_in=step)
            job.run()
        job = begun(origin)
        origin.add(3)
        job.run()

        assert job.numbers() == [0, 1, 2]

    def test_what_is_done_may_be_told_again(self, origin: Origin) -> None:
        job = begun(origin)
        origin.add(4)
        job.run()
        assert job.committed is not None
        for source in (origin.source(), origin.source()):
            source.done(job.committed)
            source.done(job.committed)
            source.close()
        origin.add(2)
        job.run()

        assert job.numbers() == list(range(6))
        assert len(job.sent) == 6

    def test_what_waits_is_told_where_it_can_be(self, origin: Origin) -> None:
        job = begun(origin)
        origin.add(5)
        source = origin.source()
        at = job.committed or job.start
        assert at is not None

        waiting = source.behind(at)
        job.run()
        assert job.committed is not None
        left = source.behind(job.committed)
        source.close()

        assert waiting is None or waiting > 0
        assert left in (None, 0)

    def test_a_source_that_is_frozen_finds_no_more(self, origin: Origin) -> None:
        job = begun(origin)
        at = job.committed or job.start
        assert at is not None
        source = origin.source()
        if not isinstance(source, Freezing):
            return
        origin.add(3)
        source.freeze()
        origin.add(2)

        end = through_json(source.latest(at, ALL))
        then = source.latest(end, ALL)
        source.close()

        assert then == end
        assert sorted(origin.number(found.payload) for found in read(origin, at, end)) == [0, 1, 2]

    def test_a_check_changes_nothing(self, origin: Origin) -> None:
        source = origin.source()
        source.check()
        source.check()
        source.close()
        job = begun(origin)
        origin.add(1)
        source.check()
        source.close()
        job.run()

        assert job.numbers() == [0]

    def test_a_system_that_is_away_is_named(self, origin: Origin) -> None:
        away = origin.away()
        if away is None:
            return

        with pytest.raises(SinkError) as error:
            away.check()

        assert "secret" not in str(error.value)

    def test_a_source_that_was_closed_opens_again(self, origin: Origin) -> None:
        job = begun(origin)
        source = origin.source()
        source.close()
        source.close()
        origin.add(1)

        assert job.start is not None
        assert source.latest(job.start, ALL) != job.start
        source.close()
