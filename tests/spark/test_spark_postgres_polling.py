"""Rows of a table that is polled: late commits, ties, limits, and what cannot be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iggy_spark.errors import OptionError
from iggy_spark.retry import Retry
from iggy_spark.sources.postgres_polling import PollingSource
from postgres_sources import QUICK, Shop, drain, messages, read

SETTLE_S = 2.0


class Clock:
    """Time that passes when somebody waits; then `meanwhile` happens, once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited = 0.0
        self.meanwhile: Callable[[], object] | None = None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds
        then, self.meanwhile = self.meanwhile, None
        if then is not None:
            then()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(shop: Shop) -> str:
    name = f"{shop.schema}.events"
    shop.run(
        f"create table {name} (id bigint generated always as identity primary key, "
        "at timestamptz not null default now(), v text)",
        f"create index on {name} (at, id)",
    )
    return name


def polling(shop: Shop, table: str, clock: Clock, **block: Any) -> PollingSource:
    given = {"cursorColumn": "id", "keyColumns": ["id"], "settle": f"{SETTLE_S:g}s", **block}
    made = PollingSource(
        shop.block(mode="Polling", tables=[table], **given),
        name="shop/in",
        retry=Retry(QUICK),
        clock=clock,
        sleep=clock.sleep,
    )
    shop.keep(made)
    return made


def add(shop: Shop, table: str, *texts: str) -> None:
    shop.run(*(f"insert into {table} (v) values ('{text}')" for text in texts))


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [one["v"] for one in found]


@pytest.mark.parametrize("cursor", ["id", "at"])
def test_a_row_that_commits_late_within_settle_is_not_lost(
    shop: Shop, table: str, clock: Clock, cursor: str
) -> None:
    source = polling(shop, table, clock, cursorColumn=cursor)
    slow = shop.hold(f"insert into {table} (v) values ('slow')")
    add(shop, table, "fast")  # has a higher number and time, and can be seen
    clock.meanwhile = slow.commit

    found = messages(source, source.first())

    assert texts(found) == ["slow", "fast"]
    assert clock.waited >= SETTLE_S


def test_a_row_that_commits_later_than_settle_is_what_the_page_warns_of(
    shop: Shop, table: str, clock: Clock
) -> None:
    source = polling(shop, table, clock)
    slow = shop.hold(f"insert into {table} (v) values ('slow')")
    add(shop, table, "fast")
    batches, at = drain(source, source.first())
    slow.commit()
    add(shop, table, "next")

    later, _ = drain(source, at)

    assert [texts(batch) for batch in batches + later] == [["fast"], ["next"]]


def test_many_late_writers_lose_nothing(shop: Shop, table: str, clock: Clock) -> None:
    source = polling(shop, table, clock)
    at = source.first()
    found: list[str] = []
    for number in range(12):
        slow = shop.hold(f"insert into {table} (v) values ('slow {number}')")
        add(shop, table, f"fast {number}")
        clock.meanwhile = slow.commit
        end = source.latest(at, 3)
        found += texts(read(source, at, end))
        at = end

    found += texts(messages(source, at))

    assert sorted(found) == sorted(f"{kind} {n}" for kind in ("fast", "slow") for n in range(12))


def test_an_idle_source_does_not_wait(shop: Shop, table: str, clock: Clock) -> None:
    source = polling(shop, table, clock)
    add(shop, table, "a")
    _, at = drain(source, source.first())
    clock.waited = 0.0

    assert source.latest(at, 10) == at
    assert clock.waited == 0


def test_rows_that_have_settled_are_not_waited_for_again(
    shop: Shop, table: str, clock: Clock
) -> None:
    shop.run(f"insert into {table} (v) select 'x' from generate_series(1, 50)")
    source = polling(shop, table, clock)

    at = source.latest(source.first(), 10)
    clock.waited = 0.0
    for _ in range(4):
        at = source.latest(at, 10)

    assert at == {"row": ["50"]}
    assert clock.waited == 0


def test_rows_with_the_same_time_are_told_apart_by_their_keys(
    shop: Shop, table: str, clock: Clock
) -> None:
    shop.run(f"insert into {table} (v) select n from generate_series(1, 25) n")
    source = polling(shop, table, clock, cursorColumn="at")

    batches, _ = drain(source, source.first(), messages_max=10)

    assert [len(batch) for batch in batches] == [10, 10, 5]
    found = [one for batch in batches for one in batch]
    assert texts(found) == [str(n) for n in range(1, 26)]
    assert len({one["message"] for one in found}) == 25
    assert found[0]["by"] == b'{"id":1}'


def test_a_row_that_changes_comes_again_and_a_deleted_one_is_not_told(
    shop: Shop, table: str, clock: Clock
) -> None:
    add(shop, table, "a", "b")
    source = polling(shop, table, clock, cursorColumn="at")
    batches, at = drain(source, source.first())
    shop.run(
        f"update {table} set v = 'a2', at = clock_timestamp() where v = 'a'",
        f"delete from {table} where v = 'b'",
    )

    later, _ = drain(source, at)

    assert [texts(batch) for batch in batches + later] == [["a", "b"], ["a2"]]
    first, again = batches[0][0], later[0][0]
    assert first["by"] == again["by"]
    assert first["message"] != again["message"]


def test_a_row_that_moves_on_while_it_is_read_comes_later(
    shop: Shop, table: str, clock: Clock
) -> None:
    add(shop, table, "a", "b")
    source = polling(shop, table, clock, cursorColumn="at")
    start = source.first()
    end = source.latest(start, 10)
    shop.run(f"update {table} set v = 'a2', at = clock_timestamp() where v = 'a'")

    found = texts(read(source, start, end)) + texts(messages(source, end))

    assert found == ["b", "a2"]


def test_rows_without_an_end_or_a_cursor_stop_nothing(shop: Shop, table: str, clock: Clock) -> None:
    shop.run(
        f"alter table {table} alter at drop not null",
        f"insert into {table} (at, v) values ('infinity', 'never'), (null, 'none'), (now(), 'a')",
    )
    source = polling(shop, table, clock, cursorColumn="at")
    batches, at = drain(source, source.first())
    add(shop, table, "b")

    later, _ = drain(source, at)

    assert [texts(batch) for batch in batches + later] == [["a"], ["b"]]


def test_numbers_that_are_none_stop_nothing(shop: Shop, clock: Clock) -> None:
    name = f"{shop.schema}.numbers"
    shop.run(
        f"create table {name} (n numeric primary key, v text)",
        f"insert into {name} values (1.5, 'a'), ('NaN', 'x'), ('Infinity', 'y'), (1e30, 'b')",
    )
    source = polling(shop, name, clock, cursorColumn="n", keyColumns=["n"])

    found = messages(source, source.first())

    assert [(one["n"], one["v"]) for one in found] == [("1.5", "a"), (f"1{'0' * 30}", "b")]


def test_a_view_can_be_polled(shop: Shop, table: str, clock: Clock) -> None:
    add(shop, table, "a", "b")
    shop.run(f"create view {shop.schema}.seen as select id, upper(v) as v, 2.5::float8 as f from "
             f"{table}")  # fmt: skip
    source = polling(shop, f"{shop.schema}.seen", clock)
    source.check()

    found = messages(source, source.first())

    assert [(one["id"], one["v"], one["f"]) for one in found] == [(1, "A", 2.5), (2, "B", 2.5)]


def test_what_waits_is_counted(shop: Shop, table: str, clock: Clock) -> None:
    add(shop, table, "a", "b", "c")
    source = polling(shop, table, clock)
    start = source.first()
    end = source.latest(start, 2)

    assert (source.behind(start), source.behind(end)) == (3, 1)


def test_a_run_with_an_end_waits_for_what_is_there(shop: Shop, table: str, clock: Clock) -> None:
    source = polling(shop, table, clock)
    slow = shop.hold(f"insert into {table} (v) values ('slow')")
    add(shop, table, "fast")
    clock.meanwhile = slow.commit
    source.freeze()
    add(shop, table, "later")

    found = messages(source, source.first())

    assert texts(found) == ["slow", "fast"]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"keyColumns": []}, r"postgres\.keyColumns: mode Polling needs them"),
        ({"settle": "11m"}, r"postgres\.settle: at most 600s"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    shop: Shop, table: str, clock: Clock, block: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        polling(shop, table, clock, **block)
