"""A PostgreSQL that is away, busy, or changed: nothing twice, nothing lost, and no bad messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from iggy_spark import postgres as reached
from iggy_spark.errors import DataLoss, OptionError, SinkError
from iggy_spark.retry import Policy
from jdbc_cases import Scene, breaking, ready
from postgres import PASSWORD, USERNAME, Postgres, running_postgres
from sink_cases import INCARNATION, PlayedTask, portions, wanted
from tls_front import authority

HASTY = Policy(0.5, 0.01, 0.05)


@pytest.fixture
def scene(postgres: Postgres) -> Scene:
    return Scene(postgres)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server that may be killed, and that speaks TLS."""
    made = authority(tmp_path_factory.mktemp("certificate"), "127.0.0.1")
    with running_postgres(fsync="off") as server:
        server.kill()
        server.secure(made.certificate, made.key)
        yield server.start()


def carried(
    scene: Scene, break_it: Callable[[], None], *, at: int = 2, count: int = 12
) -> PlayedTask:
    """Write a range in portions of three; before one of them something happens."""
    sink = ready(scene.sink())
    task, span = PlayedTask(), wanted(0, count)
    written = sink.write_task(span, breaking(portions(span), at, break_it), task)
    assert (written.rows, task.confirmed, task.refusals) == (count, 1, [])
    assert scene.offsets() == list(range(count))
    return task


def test_a_server_that_dies_halfway_gets_every_row_once(own: Postgres) -> None:
    def crash() -> None:
        own.kill()
        own.start()

    carried(Scene(own), crash)


def test_a_server_that_is_away_for_a_while_gets_every_row_and_nothing_is_set_aside(
    own: Postgres,
) -> None:
    scene = Scene(own)
    back = threading.Timer(3, own.start)

    def outage() -> None:
        own.kill()
        back.start()

    carried(scene, outage)
    back.join()


def test_a_server_that_stays_away_is_named_without_a_secret(own: Postgres) -> None:
    sink = ready(Scene(own).sink(policy=HASTY))
    own.kill()
    span, task = wanted(0, 3), PlayedTask()

    with pytest.raises(SinkError, match=rf"127\.0\.0\.1:{own.port}/shop: .*refused.*retry") as told:
        sink.write_task(span, portions(span), task)
    own.start()

    assert PASSWORD not in str(told.value)
    assert (task.refusals, task.confirmed) == ([], 0)


def end_connections(scene: Scene) -> None:
    scene.run(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'iggykube'"
    )


def test_a_connection_that_is_ended_by_somebody_is_made_anew(scene: Scene) -> None:
    carried(scene, lambda: end_connections(scene))


@pytest.mark.parametrize("state", ["40001", "40P01", "53100", "55P03", "57P03", "25006"])
def test_inserts_that_fail_three_times_are_tried_again(scene: Scene, state: str) -> None:
    ready(scene.sink())
    scene.run(
        f"create sequence {scene.schema}.tries",
        f"create function {scene.schema}.fail() returns trigger language plpgsql as $$ begin "
        f"if nextval('{scene.schema}.tries') in (2, 4, 5) then "
        f"raise exception using errcode = '{state}'; end if; return null; end $$",
        f"create trigger failing before insert on {scene.table} for each statement "
        f"execute function {scene.schema}.fail()",
    )

    carried(scene, lambda: None)


def test_a_commit_whose_answer_is_lost_counts_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = ready(scene.sink())
    lost = [True]
    commit = psycopg.Connection.commit

    def commits(self: psycopg.Connection[Any]) -> None:
        commit(self)
        if lost:
            lost.pop()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(psycopg.Connection, "commit", commits)

    written, task = scene.carry(sink, wanted(0, 9))

    assert (written.rows, task.confirmed) == (9, 1)
    assert scene.offsets() == list(range(9))


def test_a_row_that_was_set_aside_stays_so_when_all_is_written_again(scene: Scene) -> None:
    scene.make("number bigint check (number <> 1), month int, customer text, amount numeric, "
               "at timestamptz, iggy_offset bigint")  # fmt: skip
    sink = ready(scene.sink())
    task, span = PlayedTask(), wanted(0, 12)

    def end() -> None:
        end_connections(scene)
        scene.run(f"alter table {scene.table} drop constraint orders_number_check")

    written = sink.write_task(span, breaking(portions(span), 2, end), task)

    assert [bad.offset for bad in task.refusals] == [1]
    assert (written.rows, scene.offsets()) == (11, [0, *range(2, 12)])


@pytest.mark.parametrize(
    ("limit", "statement", "told"),
    [
        ("LOCK_S", "lock table {} in share mode", "lock_timeout: another transaction holds a lock"),
        ("STATEMENT_S", "select pg_sleep(0) from {}", "statement_timeout: a statement took too lo"),
    ],
)
def test_time_outs_are_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, limit: str, statement: str, told: str
) -> None:
    monkeypatch.setattr(reached, limit, 1)
    sink = ready(scene.sink(policy=HASTY))
    if limit == "STATEMENT_S":
        scene.run(
            f"create function {scene.schema}.slow() returns trigger language plpgsql as "
            "$$ begin perform pg_sleep(30); return null; end $$",
            f"create trigger slow before insert on {scene.table} for each statement "
            f"execute function {scene.schema}.slow()",
        )

    with scene.server.connect() as other, other.transaction():
        other.execute(statement.format(scene.table).encode())
        with pytest.raises(SinkError, match=told):
            scene.carry(sink, wanted(0, 3))


def test_a_database_that_is_read_only_for_a_while_is_no_fault_of_rows(own: Postgres) -> None:
    scene = Scene(own)
    sink = ready(scene.sink(policy=HASTY))
    own.run("alter database shop set default_transaction_read_only = on")
    try:
        with pytest.raises(SinkError, match="session is read-only"):
            scene.carry(sink, wanted(0, 3))
    finally:
        with own.connect("postgres") as other:
            other.execute("alter database shop set default_transaction_read_only = off")

    scene.carry(sink, wanted(0, 3))

    assert scene.offsets() == [0, 1, 2]


def test_the_login_is_read_anew_for_each_connection(scene: Scene, tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.mkdir()
    (login / "username").write_text(USERNAME)
    (login / "password").write_text("yesterday's")
    sink = scene.sink(credentialsPath=str(login))

    with pytest.raises(SinkError, match=r"authentication failed.*jdbc\.credentialsPath") as told:
        sink.check()
    (login / "password").write_text(f"{PASSWORD}\n")
    sink.check()

    assert "yesterday" not in str(told.value)


@pytest.mark.parametrize(
    ("block", "kind", "told"),
    [
        ({"url": "jdbc:postgresql://127.0.0.1:{port}/none"}, OptionError, r"jdbc\.url: .*none"),
        ({"table": "none.orders"}, OptionError, r"jdbc\.table: schema .none. does not exist"),
        ({"credentialsPath": "/none"}, OptionError, r"jdbc\.credentialsPath: /none is no folder"),
        ({"caPath": "/none"}, OptionError, r"jdbc\.caPath: there is no /none/ca\.crt"),
    ],
)
def test_what_is_not_there_is_told_at_once(
    scene: Scene, block: dict[str, str], kind: type[Exception], told: str
) -> None:
    block = {name: value.format(port=scene.server.port) for name, value in block.items()}

    with pytest.raises(kind, match=told):
        scene.sink(**block).check()


def test_the_servers_certificate_is_checked(own: Postgres, tmp_path: Path) -> None:
    for name, source in (("right", own.folder / "certificate.pem"), ("wrong", None)):
        (tmp_path / name).mkdir()
        source = source or authority(tmp_path / "other", "127.0.0.1").certificate
        (tmp_path / name / "ca.crt").write_bytes(source.read_bytes())
    scene = Scene(own)

    scene.carry(ready(scene.sink(caPath=str(tmp_path / "right"))), wanted(0, 3))

    assert scene.offsets() == [0, 1, 2]
    with pytest.raises(SinkError, match="certificate verify failed"):
        scene.sink(caPath=str(tmp_path / "wrong")).check()


def test_a_user_without_rights_is_told_which_are_missing(scene: Scene, tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.mkdir()
    user = f"u_{scene.schema}"
    (login / "username").write_text(user)
    (login / "password").write_text("p")
    scene.run(
        f"create role {user} login password 'p'", f"grant usage on schema {scene.schema} to {user}"
    )
    limited = scene.sink(credentialsPath=str(login))

    with pytest.raises(SinkError, match=rf"{user}.* may not create in schema {scene.schema}"):
        limited.check()
    ready(scene.sink())
    with pytest.raises(SinkError, match=r"may not insert in table .*: grant insert on table"):
        limited.check()
    scene.run(f"grant insert on {scene.table} to {user}")
    with pytest.raises(SinkError, match="iggy_sink_offsets"):
        limited.check()
    scene.run(f"grant select, insert, update on {scene.schema}.iggy_sink_offsets to {user}")
    scene.carry(ready(limited), wanted(0, 3))

    assert scene.offsets() == [0, 1, 2]


def test_a_column_that_got_a_wider_type_is_filled_on(scene: Scene) -> None:
    schema = "number BIGINT NOT NULL, month INT, amount DECIMAL(9,2), code STRING"
    sink = ready(scene.sink(schema))

    def made(n: int) -> bytes:
        return json.dumps({"number": n, "month": n, "amount": "1.25", "code": "x"}).encode()

    scene.carry(sink, wanted(0, 3), made, schema=schema)
    scene.run(
        f"alter table {scene.table} alter month type bigint, alter amount type numeric, "
        "alter code type varchar(20)"
    )
    _, task = scene.carry(sink, wanted(3, 6), made, schema=schema)

    assert task.refusals == []
    assert scene.run(f"select sum(month), sum(amount) from {scene.table}")[0][0] == 15


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("alter table {0} drop column month", r"has no column 'month': add it as int4"),
        ("alter table {0} alter month type text", r"orders\.month is text, and the payload's"),
        (
            "alter table {0} add extra int not null default 1; "
            "alter table {0} alter extra drop default",
            r"orders\.extra is NOT NULL and has no default",
        ),
        ("alter table {0} rename to shelved", r"jdbc\.table: .*orders.*was it renamed or dropped"),
        ("drop table {0}", r"jdbc\.table: .*was it renamed or dropped"),
    ],
)
def test_a_table_that_changes_while_the_job_runs_is_told(
    scene: Scene, change: str, told: str
) -> None:
    sink = ready(scene.sink())
    scene.carry(sink, wanted(0, 3))
    scene.run(change.format(scene.table))
    task, span = PlayedTask(), wanted(3, 6)

    with pytest.raises(OptionError, match=told):
        sink.write_task(span, portions(span), task)

    assert task.refusals == []
    places = scene.run(f"select next_offset from {scene.schema}.iggy_sink_offsets")
    assert places == [(3,)]


def test_a_database_that_was_restored_from_a_backup_is_noticed(scene: Scene) -> None:
    sink = ready(scene.sink())
    scene.carry(sink, wanted(0, 10))
    scene.run(
        f"delete from {scene.table} where iggy_offset >= 6",
        f"update {scene.schema}.iggy_sink_offsets set next_offset = 6",
    )

    with pytest.raises(DataLoss, match=r"up to offset 5, and the checkpoint goes on at 10"):
        scene.carry(sink, wanted(10, 15))
    assert sink.prepare(INCARNATION) == {0: ((0, 6),)}  # where a job without a checkpoint begins
    scene.carry(sink, wanted(6, 15))

    assert scene.offsets() == list(range(15))


def test_a_table_cannot_change_while_a_task_writes(scene: Scene) -> None:
    def change() -> None:
        with scene.server.connect() as other:
            other.execute("set lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(f"alter table {scene.table} drop column month".encode())

    carried(scene, change)


def test_two_sinks_that_start_together_make_their_tables_once(scene: Scene) -> None:
    sinks = [scene.sink() for _ in range(4)]
    found: list[Any] = []

    def work(number: int) -> None:
        found.append(sinks[number].prepare(INCARNATION))

    drivers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in drivers:
        one.start()
    for one in drivers:
        one.join()

    assert found == [{}] * 4
