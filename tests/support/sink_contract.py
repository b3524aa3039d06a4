"""What every sink promises, as tests: a module of a sink's own makes a class of them with a target.

    class TestFiles(SinkContract):
        @pytest.fixture
        def target(self, tmp_path: Path) -> Target: ...

Ranges go to the sink as a job hands them over, without Spark and without a broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pytest

from iggy_spark.errors import BadPayload, BrokerUnavailable, Fenced, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.sinks.base import Sink, Task, Written, without
from sink_cases import INCARNATION, NEXT_LIFE, PlayedTask, document, portions, wanted

Row = tuple[int, int]  # partition and offset
REFUSED = 4
"""Offset of the message that a target of `refusing` does not take."""


class Target(Protocol):
    """A place to write, and what is there, seen past the sink."""

    def sink(self) -> Sink:
        """A sink as a new process makes it. Its retries end within seconds."""

    def rows(self) -> list[Row]:
        """What a reader finds, sorted, doubles included."""

    def refusing(self) -> Target | str:
        """The same kind of place that refuses the message at `REFUSED` alone, or why there is no
        such. A target whose messages are others than `document` has them as `made`.
        """

    def away(self) -> Target | str:
        """The same kind of place that does not answer, or why there is no such."""


def given(place: Target | str) -> Target:
    """The place, if there is one; else the test is skipped, and says why."""
    if isinstance(place, str):
        pytest.skip(place)
    return place


def prepared(target: Target, incarnation: str = INCARNATION) -> Sink:
    """A sink as a driver has it when the first batch begins."""
    made = target.sink()
    made.check()
    made.prepare(incarnation)
    return made


def batch(
    target: Target, *spans: OffsetRange, task: Task | None = None, driver: Sink | None = None
) -> list[Written]:
    """One batch by a process that has just started: what is there is left out."""
    sink = driver or target.sink()
    sink.check()
    results = []
    covered = sink.prepare(spans[0].incarnation)
    for span in spans:
        written = Written(span.partition, span.first, span.end)
        for part in without(span, covered.get(span.partition, ())):
            found = portions(part, made=getattr(target, "made", document))
            done = target.sink().write_task(part, found, task or PlayedTask())
            written = replace(
                written,
                rows=written.rows + done.rows,
                preview=written.preview + done.preview,
                details=written.details + done.details,
            )
        results.append(Written.from_json(written.to_json()))
    sink.commit(results)
    sink.close()
    return results


def every(partition: int, first: int, end: int) -> list[Row]:
    """All of a range."""
    return [(partition, offset) for offset in range(first, end)]


class SinkContract:
    """The tests. A class of a sink gives the fixture `target`."""

    def test_all_messages_of_a_batch_arrive(self, target: Target) -> None:
        task = PlayedTask()

        results = batch(target, wanted(0, 10), wanted(5, 9, 1), task=task)

        assert target.rows() == every(0, 0, 10) + every(1, 5, 9)
        assert [written.rows for written in results] == [10, 4]
        assert task.confirmed == 2
        assert task.refusals == []

    def test_batches_follow_one_another(self, target: Target) -> None:
        driver = prepared(target)
        for first in (0, 4, 8):
            span = wanted(first, first + 4)
            driver.commit([target.sink().write_task(span, portions(span), PlayedTask())])
        driver.close()

        assert target.rows() == every(0, 0, 12)

    def test_an_empty_batch_changes_nothing(self, target: Target) -> None:
        driver = prepared(target)
        driver.commit([])
        driver.close()

        assert target.rows() == []

    def test_a_repeated_batch_changes_nothing(self, target: Target) -> None:
        batch(target, wanted(0, 6), wanted(0, 3, 1))
        first = target.rows()

        batch(target, wanted(0, 6), wanted(0, 3, 1))
        batch(target, wanted(0, 9), wanted(0, 3, 1))  # planned otherwise, and longer

        assert first == every(0, 0, 6) + every(1, 0, 3)
        if target.sink().exactly_once:
            assert target.rows() == every(0, 0, 9) + every(1, 0, 3)
        else:
            assert sorted(set(target.rows())) == every(0, 0, 9) + every(1, 0, 3)

    def test_a_repeated_task_changes_nothing(self, target: Target) -> None:
        """Spark may run a task twice in one batch; only the second's result reaches the driver."""
        driver = prepared(target)
        span = wanted(0, 6)
        target.sink().write_task(span, portions(span), PlayedTask())
        driver.commit([target.sink().write_task(span, portions(span), PlayedTask())])
        driver.close()

        if target.sink().exactly_once:
            assert target.rows() == every(0, 0, 6)
        else:
            assert sorted(set(target.rows())) == every(0, 0, 6)

    def test_another_life_of_the_topic_has_messages_of_its_own(self, target: Target) -> None:
        batch(target, wanted(0, 4))

        results = batch(target, wanted(0, 4, incarnation=NEXT_LIFE))

        assert results[0].rows == 4
        if target.sink().exactly_once:
            assert target.rows() == sorted(every(0, 0, 4) * 2)

    def test_what_is_there_is_told(self, target: Target) -> None:
        assert prepared(target).prepare(INCARNATION) == {}
        batch(target, wanted(0, 6), wanted(0, 3, 1))

        covered = prepared(target).prepare(INCARNATION)

        if target.sink().keeps_place:
            assert {number: spans[-1][1] for number, spans in covered.items()} == {0: 6, 1: 3}
            assert prepared(target, NEXT_LIFE).prepare(NEXT_LIFE) == {}
        else:
            assert covered == {}

    def test_who_was_replaced_leaves_nothing(self, target: Target) -> None:
        """A driver that was replaced may still have tasks: what appears together does not."""

        def replaced() -> None:
            raise Fenced("another run has taken over")

        prepared(target)
        span = wanted(0, 6)
        with pytest.raises(Fenced):
            target.sink().write_task(span, portions(span), PlayedTask(confirm=replaced))

        if target.sink().keeps_place:
            assert target.rows() == []
            batch(target, span)
            assert target.rows() == every(0, 0, 6)

    def test_a_refused_message_is_set_aside_and_no_other(self, target: Target) -> None:
        refusing, task = given(target.refusing()), PlayedTask()

        batch(refusing, wanted(0, 10), task=task)

        assert [(bad.offset, bad.stage) for bad in task.refusals] == [(REFUSED, "write")]
        assert all(bad.kind and bad.message for bad in task.refusals)
        assert refusing.rows() == [row for row in every(0, 0, 10) if row[1] != REFUSED]

    def test_a_refused_message_stops_a_task_that_tolerates_none(self, target: Target) -> None:
        class Strict(PlayedTask):
            def refuse(self, portion: object, refusals: Sequence[object]) -> None:
                raise BadPayload("refused")

        refusing = given(target.refusing())
        with pytest.raises(BadPayload):
            batch(refusing, wanted(0, 10), task=Strict())

        if refusing.sink().keeps_place:
            assert refusing.rows() == []

    def test_a_target_that_is_away_is_no_bad_message(self, target: Target) -> None:
        away, task = given(target.away()), PlayedTask()
        span = wanted(0, 6)

        with pytest.raises((SinkError, BrokerUnavailable)) as error:
            away.sink().write_task(span, portions(span), task)

        assert task.refusals == []
        assert "secret" not in str(error.value)
