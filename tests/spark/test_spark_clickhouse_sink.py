"""Sink ClickHouse against the real engine: what every sink promises, columns, tokens, errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clickhouse import ClickHouse, Engine, failed
from iggy_spark import blocks
from iggy_spark.errors import BadPayload, OptionError, SinkError
from iggy_spark.payload import Payload
from iggy_spark.sinks import clickhouse_parts
from iggy_spark.sinks.base import Portion
from iggy_spark.sinks.clickhouse import ClickHouseSink
from iggy_spark.sinks.rows import table_fields
from played_server import LOST, Reply
from quick_retry import quick
from sink_cases import INCARNATION, NEXT_LIFE, PlayedTask, declare, portions, wanted
from sink_contract import REFUSED, Row, SinkContract, Target

COLUMNS = """
    number Int64, month Nullable(Int32), customer Nullable(String),
    amount Nullable(Decimal(18, 2)), at Nullable(DateTime64(6, 'UTC')),
    iggy_partition_id Int32, iggy_offset Int64, iggy_timestamp DateTime64(6, 'UTC')
"""
KNOWS = "non_replicated_deduplication_window = 100"
NAMES = itertools.count()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    running = Engine(tmp_path_factory.mktemp("clickhouse"))
    yield running
    running.close()


@pytest.fixture
def server(engine: Engine) -> Iterator[ClickHouse]:
    with ClickHouse(engine) as running:
        yield running


class TableTarget:
    """A table with the columns of SCHEMA."""

    def __init__(
        self,
        server: ClickHouse,
        *,
        columns: str = COLUMNS,
        settings: str = KNOWS,
        kind: str = "MergeTree ORDER BY tuple()",
        seconds: float = 20.0,
        exactly_once: bool = True,
    ) -> None:
        self.server, self.seconds, self.exactly_once = server, seconds, exactly_once
        self.name = f"orders {next(NAMES)}"
        self.table = f"default.`{self.name}`"
        self.credentials: str | None = None
        end = f" SETTINGS {settings}" if settings else ""
        server.engine.run(f"CREATE TABLE {self.table} ({columns}) ENGINE = {kind}{end}")

    def sink(self, payload: Payload | None = None) -> ClickHouseSink:
        block = blocks.ClickHouse(
            url=self.server.url, table=self.name, credentials_path=self.credentials
        )
        return ClickHouseSink(
            block,
            table_fields(payload or declare()),
            name="orders.wares",
            retry=quick(self.seconds),
            exactly_once=self.exactly_once,
        )

    def rows(self) -> list[Row]:
        found = self.select("iggy_partition_id, iggy_offset")
        return sorted((partition, offset) for partition, offset in found)

    def select(self, what: str) -> list[list[Any]]:
        return self.server.engine.rows(f"SELECT {what} FROM {self.table}")

    def alter(self, change: str) -> None:
        self.server.engine.run(f"ALTER TABLE {self.table} {change}")

    def refusing(self) -> Target:
        return TableTarget(
            self.server,
            columns=f"{COLUMNS}, CONSTRAINT few CHECK number != {REFUSED}",
            exactly_once=self.exactly_once,
        )

    def away(self) -> Target:
        self.seconds = 0.2
        self.server.faults += [Reply(503)] * 1000
        return self


@pytest.fixture
def target(server: ClickHouse) -> TableTarget:
    return TableTarget(server)


class TestContract(SinkContract):
    """What every sink promises, where ranges end where parts end."""

    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clickhouse_parts, "PART_OFFSETS", 3)


class TestContractOfAnyTable(SinkContract):
    """The same with a table that knows nothing again."""

    @pytest.fixture
    def target(self, server: ClickHouse) -> TableTarget:
        return TableTarget(server, settings="", exactly_once=False)


def write(target: TableTarget, first: int, end: int, **more: Any) -> PlayedTask:
    task = PlayedTask()
    span = wanted(first, end)
    sink = target.sink(more.get("payload"))
    written = sink.write_task(span, portions(span, **more), task)
    assert written.rows == end - first - len(task.refusals)
    return task


def offsets(first: int, end: int) -> list[Row]:
    return [(0, offset) for offset in range(first, end)]


def test_columns_go_by_name(target: TableTarget) -> None:
    target.alter("ADD COLUMN note String DEFAULT 'none' FIRST")
    target.alter("DROP COLUMN iggy_timestamp")
    target.sink().check()

    write(target, 0, 4)

    names = "number, month, customer, toString(amount), toString(at), note, iggy_offset"
    at = "2026-03-29 00:59:59.999999"
    assert sorted(target.select(names)) == [
        [0, 1, "c0", "0.25", None, "none", 0],
        [1, 2, "c1", "1.25", at, "none", 1],
        [2, 3, "c2", "2.25", None, "none", 2],
        [3, None, "c3", "3.25", at, "none", 3],
    ]


def test_an_insert_whose_answer_is_lost_is_there_once(target: TableTarget) -> None:
    target.server.faults += [LOST, failed(252), LOST, failed(241), Reply(503), failed(999)]

    task = write(target, 0, 6)

    assert target.rows() == offsets(0, 6)
    assert task.refusals == []


def test_parts_are_cut_alike_whatever_the_plan(
    target: TableTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clickhouse_parts, "PART_OFFSETS", 10)
    write(target, 0, 34, size=7)
    tokens = target.server.tokens()
    target.server.statements.clear()
    write(target, 0, 34, size=4)
    write(target, 10, 30)

    assert tokens == ["0-9", "10-19", "20-29", "30-33"]
    assert target.server.tokens() == [*tokens, "10-19", "20-29"]
    assert target.rows() == offsets(0, 34)


def test_a_range_that_ends_elsewhere_repeats_less_than_one_part(
    target: TableTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is lost after a batch was written and before it was noted, and the next one
    ends elsewhere: nothing is lost, and only the part at the seam is there twice.
    """
    monkeypatch.setattr(clickhouse_parts, "PART_OFFSETS", 10)
    write(target, 4, 33)
    write(target, 4, 38)

    assert target.rows() == sorted([*offsets(4, 38), *offsets(30, 33)])


def test_what_was_noted_is_not_repeated_at_a_seam(
    target: TableTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clickhouse_parts, "PART_OFFSETS", 10)
    for first, end in [(0, 33), (33, 38), (38, 41)]:
        write(target, first, end)
        write(target, first, end)

    assert target.server.tokens()[-4:] == ["38-39", "40-40"] * 2
    assert target.rows() == offsets(0, 41)


def test_a_null_is_refused_before_its_part_is_written(target: TableTarget) -> None:
    """So that a table that takes null from then on gets the part once."""
    target.alter("DROP COLUMN month, ADD COLUMN month Int32")

    class Strict(PlayedTask):
        def refuse(self, portion: object, refusals: object) -> None:
            raise BadPayload("refused")

    span = wanted(0, 6)
    with pytest.raises(BadPayload):
        target.sink().write_task(span, portions(span), Strict())
    assert target.rows() == []

    task = write(target, 0, 6)

    (refusal,) = task.refusals
    assert (refusal.offset, refusal.stage) == (3, "write")
    assert refusal.kind == "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN"
    assert "month is null" in refusal.message
    target.alter("MODIFY COLUMN month Nullable(Int32)")
    write(target, 0, 6)
    assert target.rows() == [row for row in offsets(0, 6) if row[1] != 3]


def test_rows_that_the_server_refuses_are_found_and_named(target: TableTarget) -> None:
    known = "Enum8('c0', 'c1', 'c2', 'c3', 'c5', 'c6', 'c8', 'c9')"
    target.alter(f"DROP COLUMN customer, ADD COLUMN customer {known}")
    task = write(target, 0, 10, size=4)
    again = write(target, 0, 10)

    assert [(bad.offset, bad.kind) for bad in task.refusals] == [
        (4, "UNKNOWN_ELEMENT_OF_ENUM"),
        (7, "UNKNOWN_ELEMENT_OF_ENUM"),
    ]
    assert "Unknown element 'c4' for enum" in task.refusals[0].message
    assert [portion.offsets[0] for portion, _ in task.letters] == [4, 4]  # of their own portions
    assert again.refusals[0].offset == 4
    assert target.rows() == [row for row in offsets(0, 10) if row[1] not in (4, 7)]


def test_large_messages_make_small_parts(
    target: TableTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clickhouse_parts, "PART_BYTES_MAX", 1000)

    def made(number: int) -> bytes:
        size = 5000 if number == 5 else 150
        return b'{"number": %d, "customer": "%s"}' % (number, b"x" * size)

    write(target, 0, 12, made=made, size=5)
    tokens = target.server.tokens()
    write(target, 0, 12, made=made, size=2)

    assert tokens == ["0-4", "5-5", "6-10", "11-11"]
    assert target.server.tokens() == tokens * 2
    assert target.rows() == offsets(0, 12)


def test_dead_letters_that_come_back_are_inserts_of_their_own(target: TableTarget) -> None:
    """They have places of another topic, in any order, and some are there twice."""
    span = wanted(100, 107, incarnation=NEXT_LIFE)  # of the letters

    def letters() -> Iterator[Portion]:
        for first, partition in [(6, 0), (2, 0), (2, 1), (2, 0)]:
            for portion in portions(wanted(first, first + 2)):
                yield replace(portion, messages=replace(portion.messages, partition=partition))

    for _ in range(2):
        task = PlayedTask()
        target.sink().write_task(span, letters(), task)

        assert task.refusals == []
        assert target.rows() == sorted([*offsets(2, 4), *offsets(2, 4), *offsets(6, 8)])

    assert f"'orders.wares/{INCARNATION}/1/3-3'" in target.server.statements[5]


@pytest.mark.parametrize("code", [159, 202, 209, 210, 241, 242, 252, 319, 999])
def test_trouble_of_the_server_is_no_bad_message(code: int, target: TableTarget) -> None:
    target.server.faults += [failed(code, status=400)] * 1000
    target.seconds = 0.2
    task, span = PlayedTask(), wanted(0, 3)

    with pytest.raises(SinkError, match=r"clickhouse: http.*PLAYED_ERROR.*errors\.retry"):
        target.sink().write_task(span, portions(span), task)

    assert (task.refusals, task.confirmed) == ([], 0)


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        (failed(497), "clickhouse.credentialsPath"),
        (failed(516, status=403), "clickhouse.credentialsPath"),
        (failed(60, status=404), "clickhouse.table"),
        (failed(164), "clickhouse.url"),
        (Reply(404, b"<html>"), "clickhouse.url"),
        (Reply(403), "clickhouse.credentialsPath"),
    ],
)
def test_settings_of_the_server_are_no_bad_message(
    fault: Reply, field: str, target: TableTarget
) -> None:
    target.server.faults.append(fault)
    task, span = PlayedTask(), wanted(0, 3)

    with pytest.raises(SinkError, match=f"^{field}: "):
        target.sink().write_task(span, portions(span), task)

    assert task.refusals == []
    assert len(target.server.sent()) == 1  # not tried again


def test_a_request_that_is_too_large_is_halved(target: TableTarget) -> None:
    target.server.faults += [Reply(413), Reply(413)]

    task = write(target, 0, 4)

    assert target.server.tokens() == ["0-0", "1-1", "2-3"]
    assert target.rows() == offsets(0, 4)
    assert task.refusals == []


def test_a_table_that_changes_while_the_job_runs_stops_it(target: TableTarget) -> None:
    target.sink().check()
    target.alter("DROP COLUMN customer")
    span = wanted(0, 3)

    with pytest.raises(OptionError, match=r"has no column 'customer': add it as Nullable"):
        target.sink().write_task(span, portions(span), PlayedTask())


def test_the_login_is_checked(target: TableTarget, tmp_path: Path) -> None:
    target.server.login = "Basic d3JpdGVyOnNlY3JldA=="  # writer:secret
    target.credentials = str(tmp_path)
    (tmp_path / "username").write_text("writer")
    (tmp_path / "password").write_text("wrong secret")

    with pytest.raises(OptionError, match=r"clickhouse\.credentialsPath: .* answers 401") as error:
        target.sink().check()

    assert "wrong secret" not in str(error.value)
    (tmp_path / "password").write_text("secret\n")
    target.sink().check()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("MergeTree ORDER BY tuple()", "MODIFY SETTING non_replicated_deduplication_window"),
        ("ReplacingMergeTree ORDER BY iggy_offset", "MODIFY SETTING non_replicated_dedup"),
        ("Memory", "is Memory: make it a MergeTree"),
    ],
)
def test_exactly_once_needs_a_table_that_deduplicates(
    kind: str, words: str, server: ClickHouse
) -> None:
    target = TableTarget(server, kind=kind, settings="")

    with pytest.raises(OptionError, match=r"^sink\.delivery: .*") as error:
        target.sink().check()

    assert words in str(error.value)
    target.exactly_once = False
    target.sink().check()


def test_a_table_that_is_not_there(target: TableTarget) -> None:
    target.name = "nothing"

    with pytest.raises(OptionError, match=r"^clickhouse\.table: there is no table default\."):
        target.sink().check()


def test_the_check_does_not_wait_for_a_server_that_is_away(target: TableTarget) -> None:
    with ClickHouse(target.server.engine) as gone:
        pass
    target.seconds = 600
    target.server = gone

    with pytest.raises(SinkError, match=gone.url):
        target.sink().check()
