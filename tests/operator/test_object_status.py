from typing import Any

import pytest

from iggy_operator.conditions import CONDITIONS_MAX, PAUSED, READY, SYNCED, condition, merged
from iggy_operator.events import PAUSE_S, REMEMBERED_MAX, EventLimiter
from iggy_operator.reasons import Reason
from iggy_operator.schema import schemas
from iggy_operator.status import COUNTERS_PAUSE_S, Report, transitions, wanted_status
from iggy_operator.units import time_of, time_text

READY_NOW = condition(READY, True, Reason.SYNCED, "topic orders is as wanted")
NOW_S = 1_800_000_000.0


def an_object(status: dict[str, Any] | None = None, *, generation: int = 1) -> dict[str, Any]:
    metadata = {"name": "orders", "namespace": "shop", "uid": "u", "generation": generation}
    return {"kind": "IggyTopic", "metadata": metadata, "status": status or {}}


def written(report: Report, *, now_s: float = NOW_S, generation: int = 1) -> dict[str, Any]:
    status = wanted_status(an_object(generation=generation), report, now_s=now_s)
    assert status is not None
    return status


def test_the_transition_time_moves_only_when_the_status_changes() -> None:
    first = merged([], [READY_NOW], generation=1, now="t1")
    other = condition(READY, True, Reason.RECREATED, "other words")
    second = merged(first, [other], generation=2, now="t2")
    third = merged(second, [condition(READY, False, Reason.MISSING)], generation=2, now="t3")

    assert [item[0]["lastTransitionTime"] for item in (first, second, third)] == ["t1", "t1", "t3"]
    assert (second[0]["reason"], second[0]["observedGeneration"]) == ("Recreated", 2)


def test_conditions_that_a_pass_does_not_name_stay_and_ready_comes_first() -> None:
    old = merged([], [condition(SYNCED, True, Reason.SYNCED), READY_NOW], generation=1, now="t1")

    new = merged(old, [condition(SYNCED, False, Reason.DRIFTED)], generation=1, now="t2")

    assert [item["type"] for item in new] == [READY, SYNCED]
    assert new[0] == old[0]


def test_a_long_message_is_cut() -> None:
    long = merged([], [condition(READY, False, Reason.CONFLICT, "x" * 9999)], generation=1, now="t")

    assert len(long[0]["message"]) == 1024


def test_a_status_that_says_nothing_new_is_not_written() -> None:
    report = Report((READY_NOW,), {"topicName": "orders"})
    before = written(report)

    assert wanted_status(an_object(before), report, now_s=NOW_S + 1_000) is None
    assert wanted_status(an_object(before, generation=2), report, now_s=NOW_S) is not None


def test_another_order_of_the_conditions_says_nothing_new() -> None:
    """The API server puts one that came later behind the others."""
    synced = condition(SYNCED, True, Reason.SYNCED)
    report = Report((condition(PAUSED, False, Reason.SYNCED), synced, READY_NOW))
    before = written(report)
    before["conditions"].reverse()

    assert wanted_status(an_object(before), report, now_s=NOW_S + 1_000) is None


def test_counters_alone_are_written_every_half_minute_and_at_once_with_anything_else() -> None:
    before = written(Report((READY_NOW,), {"messages": 1}))
    counted = Report((READY_NOW,), {"messages": 2})
    changed = Report((condition(READY, False, Reason.MISSING),), {"messages": 2})

    assert wanted_status(an_object(before), counted, now_s=NOW_S + COUNTERS_PAUSE_S - 1) is None
    later = wanted_status(an_object(before), counted, now_s=NOW_S + COUNTERS_PAUSE_S)
    assert later is not None
    assert (later["messages"], later["lastSyncTime"]) == (2, time_text(NOW_S + COUNTERS_PAUSE_S))
    assert wanted_status(an_object(before), changed, now_s=NOW_S + 1) is not None


def test_a_clock_that_jumps_back_does_not_silence_the_counters() -> None:
    before = written(Report((READY_NOW,), {"messages": 1}))

    counted = Report((READY_NOW,), {"messages": 2})

    assert wanted_status(an_object(before), counted, now_s=NOW_S - 1_000) is not None


def test_fields_stay_unless_they_are_taken_away() -> None:
    before = written(Report((), {"topicId": 1, "drift": [{"field": "partitions"}]}))

    after = wanted_status(an_object(before), Report((), {"drift": None}), now_s=NOW_S)

    assert after is not None
    assert after["topicId"] == 1
    assert "drift" not in after


def test_a_transition_is_another_status_or_reason_not_another_message() -> None:
    old = merged([], [READY_NOW], generation=1, now="t1")
    words = merged(old, [condition(READY, True, Reason.SYNCED, "words")], generation=1, now="t2")
    reason = merged(old, [condition(READY, True, Reason.RECREATED)], generation=1, now="t2")

    assert transitions(old, words) == []
    assert [item["reason"] for item in transitions(old, reason)] == ["Recreated"]


def test_one_event_an_object_and_reason_in_ten_minutes() -> None:
    limiter = EventLimiter()

    told = [limiter.may_tell("u", "Missing", now) for now in (0, 1, PAUSE_S - 1, PAUSE_S)]

    assert told == [True, False, False, True]
    assert limiter.may_tell("u", "Drifted", PAUSE_S)
    assert limiter.may_tell("other", "Missing", PAUSE_S)


def test_the_limiter_forgets_the_oldest_beyond_its_limit() -> None:
    limiter = EventLimiter()
    for number in range(REMEMBERED_MAX + 1):
        limiter.may_tell(str(number), "Missing", 0)

    assert limiter.may_tell("0", "Missing", 1)
    assert not limiter.may_tell(str(REMEMBERED_MAX), "Missing", 1)


def test_times_are_written_as_kubernetes_does() -> None:
    assert time_text(NOW_S + 0.9) == "2027-01-15T08:00:00Z"
    assert time_of("2027-01-15T08:00:00Z") == NOW_S
    with pytest.raises(ValueError, match="time zone"):
        time_of("2027-01-15T08:00:00")


@pytest.mark.parametrize("kind", sorted(schemas()))
def test_every_limit_and_word_fits_the_schema(kind: str) -> None:
    status = schemas()[kind].root["properties"]["status"]["properties"]
    rows = status["conditions"]
    fields = rows["items"]["properties"]

    assert rows["maxItems"] == CONDITIONS_MAX
    assert all(reason.isalpha() for reason in Reason)
    assert fields["status"]["enum"] == ["True", "False", "Unknown"]
