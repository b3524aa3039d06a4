import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_operator.backoff import PAUSE_S_MAX, pause_s
from iggy_operator.clock import SystemClock
from iggy_operator.queue import After, Done, Failed, Outcome, Workers, WorkQueue


def no_jitter() -> float:
    return 0.0


def queue(**options: int) -> WorkQueue[str]:
    return WorkQueue(no_jitter, **options)


def test_a_key_that_is_added_often_runs_once() -> None:
    keys = queue()
    for _ in range(3):
        keys.add("a", 0)

    assert keys.take(0) == "a"
    assert keys.take(0) is None
    keys.finish("a", 0, Done())
    assert keys.take(1e9) is None


def test_keys_run_in_the_order_in_which_they_are_due() -> None:
    keys = queue()
    keys.add("late", 2)
    keys.add("early", 1)

    assert keys.take(0) is None
    assert [keys.take(3), keys.take(3)] == ["early", "late"]


def test_a_key_that_changes_during_its_pass_runs_again_but_not_beside_itself() -> None:
    keys = queue()
    keys.add("a", 0)
    keys.take(0)

    keys.add("a", 0)
    beside = keys.take(0)
    keys.finish("a", 1, Done())

    assert beside is None
    assert keys.take(1) == "a"


def failures(keys: WorkQueue[str], count: int) -> list[float]:
    """The pauses after so many failures in a row of key `a`."""
    now, pauses = 0.0, []
    for _ in range(count):
        assert keys.take(now) == "a"
        keys.finish("a", now, Failed())
        due = keys.next_due_s()
        assert due is not None
        pauses.append(due - now)
        now = due
    return pauses


def test_failures_double_the_pause_up_to_five_minutes() -> None:
    keys = queue()
    keys.add("a", 0)

    assert failures(keys, 11) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@pytest.mark.parametrize(
    "reset",
    [
        lambda keys: keys.finish("a", 10, Done()) or keys.add("a", 10),
        lambda keys: keys.finish("a", 10, After(0)),
        lambda keys: keys.add("a", 10) and keys.finish("a", 10, Failed()),
    ],
    ids=["success", "waiting", "change during a failed pass"],
)
def test_the_pause_starts_anew_after(reset: Callable[[WorkQueue[str]], object]) -> None:
    keys = queue()
    keys.add("a", 0)
    failures(keys, 3)
    assert keys.take(10) == "a"

    reset(keys)

    assert keys.take(10) == "a"
    keys.finish("a", 10, Failed())
    assert keys.next_due_s() == 11


def test_a_change_cuts_a_pause_short_and_a_resync_does_not() -> None:
    keys = queue()
    keys.add("a", 0)
    failures(keys, 5)

    keys.check("a", 20)
    before = keys.take(20)
    keys.add("a", 20)

    assert before is None
    assert keys.take(20) == "a"


def test_a_pass_may_ask_to_be_run_later() -> None:
    keys = queue()
    keys.add("a", 0)
    keys.take(0)

    keys.finish("a", 5, After(60))

    assert keys.take(64.9) is None
    assert keys.take(65) == "a"


def test_a_full_queue_refuses_new_keys_and_still_takes_known_ones() -> None:
    keys = queue(keys_max=2)
    keys.add("a", 0)
    keys.add("b", 0)
    keys.take(0)

    assert not keys.add("c", 0)
    assert keys.add("a", 0)
    assert keys.add("b", 0)
    assert len(keys) == 2


def test_the_age_for_the_probe_counts_waiting_and_running_keys_that_are_due() -> None:
    keys = queue()
    idle = keys.oldest_age_s(5)
    keys.add("a", 10)
    keys.add("later", 100)
    keys.take(11)

    assert idle == 0
    assert keys.oldest_age_s(30) == 20
    keys.finish("a", 30, Done())
    assert keys.oldest_age_s(99) == 0


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_every_pause_is_short_enough_and_never_nothing(count: int, chance: float) -> None:
    assert 0.8 <= pause_s(count, lambda: chance) <= PAUSE_S_MAX


OUTCOMES: dict[str, Outcome] = {"done": Done(), "fail": Failed(), "after": After(3)}
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "check", "take", *OUTCOMES]), st.sampled_from("abc"))
)


class Worked:
    """A queue, and what must come to a pass whatever happens."""

    def __init__(self) -> None:
        self.keys = queue()
        self.running: set[str] = set()
        self.wanted: set[str] = set()

    def step(self, now: float, step: str, key: str) -> None:
        if step == "add":
            self.keys.add(key, now)
            self.wanted.add(key)
        elif step == "check":
            self.keys.check(key, now)
        elif step == "take":
            self.take(now)
        elif key in self.running:
            self.running.discard(key)
            self.keys.finish(key, now, OUTCOMES[step])
            self.wanted |= set() if step == "done" else {key}

    def take(self, now: float) -> None:
        taken = self.keys.take(now)
        if taken is not None:
            assert taken not in self.running
            self.running.add(taken)
            self.wanted.discard(taken)


@given(STEPS)
def test_no_key_is_lost_or_runs_twice_at_once(steps: list[tuple[str, str]]) -> None:
    worked = Worked()
    for now, (step, key) in enumerate(steps):
        worked.step(now, step, key)
    for key in sorted(worked.running):
        worked.keys.finish(key, 1_000, Done())

    left = set()
    while (taken := worked.keys.take(1e6)) is not None:
        left.add(taken)
    assert worked.wanted <= left
    assert len(worked.keys) == len(left)


def test_workers_run_different_keys_side_by_side_and_one_key_never() -> None:
    side_by_side: list[frozenset[str]] = []
    asyncio.run(run_some(["a", "b", "a", "c", "a"], side_by_side))

    assert max(len(now) for now in side_by_side) == 3
    assert all(len(now) == len(set(now)) for now in side_by_side)


async def run_some(keys: list[str], side_by_side: list[frozenset[str]]) -> None:
    """Add the keys, each once more during its first pass; return when all have run twice."""
    running: list[str] = []
    counts: dict[str, int] = {}

    async def one_pass(key: str) -> Outcome:
        assert key not in running
        running.append(key)
        side_by_side.append(frozenset(running))
        if key not in counts:
            workers.add(key)
        for _ in range(5):
            await asyncio.sleep(0)
        running.remove(key)
        counts[key] = counts.get(key, 0) + 1
        if sorted(counts) == sorted(set(keys)) and min(counts.values()) == 2:
            workers.stop()
        return Done()

    workers: Workers[str] = Workers(WorkQueue(no_jitter), SystemClock(), one_pass)
    for key in keys:
        workers.add(key)
    async with asyncio.timeout(30):
        await workers.run()
    assert set(counts.values()) == {2}


def test_workers_wake_up_for_what_is_due_later() -> None:
    seen: list[str] = []

    async def main() -> None:
        async def one_pass(key: str) -> Outcome:
            seen.append(key)
            if len(seen) == 2:
                workers.stop()
            return After(0.01)

        workers: Workers[str] = Workers(WorkQueue(no_jitter), SystemClock(), one_pass)
        workers.check("a")
        async with asyncio.timeout(30):
            await workers.run()

    asyncio.run(main())

    assert seen == ["a", "a"]
