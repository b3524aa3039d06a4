"""Bad messages are counted and kept, and targets that do not answer are asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iggy_spark.absence import LOOK_S, REASON_CHARS_MAX, SAY_S, Absence, Notice
from iggy_spark.dead_letters import VALUE_BYTES_MAX, letters
from iggy_spark.errors import BadPayload, SinkError, TooManyBadRecords
from iggy_spark.limits import RATIO_FROM, BadLimits
from iggy_spark.messages import Messages, read_headers
from iggy_spark.retry import Policy, Retry, TransientError, nobody
from iggy_spark.sink_task import TaskWork
from iggy_spark.sinks.base import Refusal, Written
from iggy_wire.kernel_types import HEADERS_BYTES_MAX
from iggy_wire.options import Option, options_bytes
from message_columns import FIRST_OFFSET, messages
from sink_cases import portions, wanted


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s

    def retry(self, policy: Policy, away: Callable[[str | None], None] = nobody) -> Retry:
        return Retry(
            policy, clock=lambda: self.now_s, sleep=self.sleep, draw=lambda: 1.0, away=away
        )


class Said:
    """Events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, kind: str, **fields: Any) -> None:
        self.events.append({"event": kind, **fields})


def failing(times: int, *, after_s: float | None = None) -> list[TransientError]:
    return [TransientError("busy", after_s=after_s) for _ in range(times)]


def work(faults: list[TransientError]) -> str:
    if faults:
        raise faults.pop()
    return "done"


def test_a_target_is_asked_again_with_pauses_that_double() -> None:
    clock, faults = Clock(), failing(6)
    retry = clock.retry(Policy(600, 0.5, 4.0))

    assert retry.call(lambda: work(faults), what="t") == "done"
    assert clock.pauses == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert retry.counts == {"busy": 6}


def test_a_target_says_itself_when_to_ask_again() -> None:
    clock, faults = Clock(), failing(1, after_s=7.5)

    clock.retry(Policy()).call(lambda: work(faults), what="t")

    assert clock.pauses == [7.5]


def test_a_target_that_stays_away_is_an_error_that_names_it() -> None:
    clock = Clock()

    with pytest.raises(SinkError, match=r"http://es:9200: busy; tried for 10 s \(errors\.retry\)"):
        clock.retry(Policy(10, 1, 4)).call(lambda: work(failing(1)), what="http://es:9200")
    assert clock.now_s <= 10


def test_the_time_for_retries_begins_with_the_first_failure() -> None:
    clock, faults = Clock(), failing(1)

    def slow() -> str:
        clock.now_s += 3600  # a large batch, which is no trouble
        return work(faults)

    assert clock.retry(Policy(10, 1, 4)).call(slow, what="t") == "done"


@pytest.mark.parametrize(
    ("failures", "told"), [(0, []), (1, []), (2, ["t: busy", None]), (5, ["t: busy", None])]
)
def test_a_target_is_away_after_more_than_one_failure(
    failures: int, told: list[str | None]
) -> None:
    found: list[str | None] = []
    faults = failing(failures)

    Clock().retry(Policy(), found.append).call(lambda: work(faults), what="t")

    assert found == told


def test_a_target_that_was_given_up_is_not_back() -> None:
    found: list[str | None] = []

    with pytest.raises(SinkError):
        Clock().retry(Policy(10, 1, 4), found.append).call(lambda: work(failing(1)), what="t")

    assert found == ["t: busy"]


def test_an_answer_that_is_an_error_is_one() -> None:
    found: list[str | None] = []
    faults: list[Exception] = [SinkError("no such table"), *failing(2)]

    def answer() -> None:
        raise faults.pop()

    with pytest.raises(SinkError, match="no such table"):
        Clock().retry(Policy(), found.append).call(answer, what="t")

    assert found == ["t: busy", None]


def test_the_driver_hears_of_an_absence_from_its_tasks_and_itself(tmp_path: Path) -> None:
    folder, clock, said = tmp_path / "away", Clock(), Said()
    absence = Absence(said.event, clock=lambda: clock.now_s)
    first, second = Notice(folder), Notice(folder)
    first("gone")  # nobody listens yet: no reason to fail
    absence.clear(folder)

    def seen() -> bool:
        clock.sleep(LOOK_S)
        return absence.look()

    assert not seen()
    first("gone")
    second("gone")
    assert seen()
    first(None)
    assert seen()
    second(None)
    assert not seen()
    clock.sleep(SAY_S)
    absence.tell("no way")
    assert absence.look()
    absence.tell(None)
    second("killed")
    assert seen()
    absence.clear(folder)
    assert not seen()
    assert said.events == [
        {"event": "away", "reason": "gone"},
        {"event": "back", "seconds": 2 * LOOK_S},
        {"event": "away", "reason": "no way"},
        {"event": "back", "seconds": 0.0},
    ]  # and no more within the minute


def test_one_that_comes_and_goes_fills_no_log(tmp_path: Path) -> None:
    clock, said = Clock(), Said()
    absence = Absence(said.event, clock=lambda: clock.now_s)

    for _ in range(10 * int(SAY_S)):
        absence.tell("x" * 10_000)
        clock.sleep(0.5)
        absence.tell(None)
        clock.sleep(0.5)
    absence.tell("for long")
    absence.look()
    clock.sleep(SAY_S)
    absence.look()

    assert [one["event"] for one in said.events] == ["away", "back"] * 10 + ["away"]
    assert len(said.events[0]["reason"]) == REASON_CHARS_MAX


@pytest.mark.parametrize(
    ("bad", "seen", "stops"),
    [
        (100, 10_000, False),
        (101, 10_000, True),  # above the count
        (RATIO_FROM - 1, RATIO_FROM - 1, False),  # few say little
        (RATIO_FROM, 20 * RATIO_FROM, False),
        (RATIO_FROM, 20 * RATIO_FROM - 1, True),  # above the share
    ],
)
def test_too_many_bad_messages_stop_a_batch(bad: int, seen: int, stops: bool) -> None:
    limits = BadLimits(100, 0.05)
    halves = [
        Written(0, 0, seen // 2, rejected=bad // 2),
        Written(1, 10, 10 + seen - seen // 2, rejected=bad - bad // 2),
        Written(2, 0, 10_000, skipped=10_000),  # says nothing about the others
    ]

    for check in (lambda: limits.check(bad, seen), lambda: limits.check_batch(halves)):
        if stops:
            with pytest.raises(TooManyBadRecords, match=r"errors\.deadLetter\.max(PerBatch|Ratio)"):
                check()
        else:
            check()


def test_without_a_place_a_refused_message_stops_the_task() -> None:
    (portion,) = portions(wanted(5, 8))
    task = TaskWork()

    with pytest.raises(BadPayload, match=r"shop/orders partition 0 offset 6: .*no room \(Full\)"):
        task.refuse(portion, [Refusal(6, "write", "Full", "no room")])
    task.refuse(portion, [])


def test_a_letter_tells_where_its_message_was_and_what_is_wrong() -> None:
    own = options_bytes((Option.of("trace", "abc"),))
    known = messages(3, headers=[b"", own])
    known = with_payloads(known, b"p0", b"p1", b"p2")
    bad = Refusal(FIRST_OFFSET + 1, "transform", "Missing", "x" * 300 + "\u20ac", 2)

    (letter,) = letters(known, [bad], sink="shop/orders.lake")
    (again,) = letters(known, [bad], sink="shop/orders.lake", attempts={letter.id: 1})
    (other,) = letters(known, [bad], sink="shop/orders.search")

    assert letter.payload == b"p1"
    assert letter.id == again.id != other.id
    headers = read_headers(memoryview(letter.headers))
    assert headers["trace"] == "abc"
    assert headers["iggy.dlq.offset"] == FIRST_OFFSET + 1
    assert headers["iggy.dlq.stage"] == "transform"
    assert headers["iggy.dlq.transform_index"] == 2
    assert headers["iggy.dlq.error"] == "x" * VALUE_BYTES_MAX
    assert read_headers(memoryview(again.headers))["iggy.dlq.attempt"] == 2


def test_headers_that_leave_no_room_are_left_out() -> None:
    own = b"\x02" * HEADERS_BYTES_MAX
    known = messages(1, headers=[own])
    known = with_payloads(known, b"p0")

    (letter,) = letters(known, [Refusal(FIRST_OFFSET, "decode", "X", "")], sink="s")

    headers = read_headers(memoryview(letter.headers))
    assert headers["iggy.dlq.headers_left_out"] is True
    assert headers["iggy.dlq.error"] == "-"


def with_payloads(known: Messages, *texts: bytes) -> Messages:
    ends = [sum(map(len, texts[:at])) for at in range(len(texts) + 1)]
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return replace(
        known,
        columns=msgspec.structs.replace(
            known.columns, payloads=b"".join(texts), payload_offsets=offsets
        ),
    )
