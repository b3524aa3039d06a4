"""What is looked at before a Postgres source starts: settings of the server, rights, tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iggy_spark.errors import IggySparkError, OptionError, SinkError
from iggy_spark.retry import Retry
from iggy_spark.sources.postgres_link import Link
from postgres import PASSWORD, Postgres, running_postgres
from postgres_sources import QUICK, Shop, shop_in


@pytest.fixture(scope="module")
def plain() -> Iterator[Postgres]:
    """A server as it is installed."""
    with running_postgres(fsync="off") as server:
        yield server


@pytest.fixture
def weak(shop: Shop, tmp_path: Path) -> Iterator[Path]:
    """The login of a user who may nothing yet: `reader_` and the schema."""
    user = f"reader_{shop.schema}"
    shop.run(f"create role {user} login password '{PASSWORD}'",
             f"grant usage on schema {shop.schema} to {user}")  # fmt: skip
    folder = tmp_path / "weak"
    folder.mkdir()
    (folder / "username").write_text(user)
    (folder / "password").write_text(PASSWORD)
    yield folder
    shop.run(f"drop owned by {user}", f"drop role {user}")


def refused(shop: Shop, kind: type[IggySparkError], said: str, **block: object) -> None:
    source = shop.source(**block)
    with pytest.raises(kind, match=said) as told:
        source.check()
    assert PASSWORD not in str(told.value)


def expect_polling_refused(
    shop: Shop, kind: type[IggySparkError], said: str, **block: object
) -> None:
    given = {"mode": "Polling", "cursorColumn": "id", "keyColumns": ["id"], **block}
    refused(shop, kind, said, **given)


def test_a_server_without_logical_decoding(plain: Postgres) -> None:
    with shop_in(plain) as shop:
        refused(shop, SinkError, "wal_level replica.*wal_level = logical.*or use mode Polling")
        shop.source(mode="Polling", cursorColumn="id", keyColumns=["id"]).check()


def test_rights_for_changes_one_after_the_other(shop: Shop, weak: Path) -> None:
    user = (weak / "username").read_text()
    login = {"credentialsPath": str(weak), "snapshot": True}
    refused(shop, SinkError, f"user {user} may not use replication slots: alter role", **login)
    shop.run(f"alter role {user} replication")
    refused(shop, SinkError, f"may not read {shop.table}: grant select", **login)
    shop.run(f"grant select on {shop.table} to {user}")
    refused(shop, SinkError, r"lacks create in the database.*let an owner run create pub", **login)
    shop.run(f"grant create on database shop to {user}")
    refused(shop, SinkError, f"lacks the ownership of {shop.table}", **login)
    shop.run(f'create publication "{shop.slot}" for table {shop.table}')

    source = shop.source(**login)
    source.check()
    source.first()
    shop.insert(1)

    assert source.latest(source.first(), 10) != source.first()


def test_rights_for_polling(shop: Shop, weak: Path) -> None:
    user = (weak / "username").read_text()
    expect_polling_refused(shop, SinkError, f"may not read {shop.table}", credentialsPath=str(weak))
    shop.run(f"grant select on {shop.table} to {user}")

    source = shop.source(
        mode="Polling", cursorColumn="id", keyColumns=["id"], credentialsPath=str(weak)
    )
    source.check()
    assert source.behind(source.first()) == 0


def test_tables_that_cannot_be_read_for_changes(shop: Shop) -> None:
    name = shop.schema
    shop.run(
        f"create table {name}.bare (v int)",
        f"create table {name}.none (id int primary key)",
        f"alter table {name}.none replica identity nothing",
        f"create unlogged table {name}.fleeting (id int primary key)",
        f"create view {name}.seen as select 1 as id",
        f"create table {name}.parts (id int) partition by range (id)",
        f"create table {name}.parts_1 partition of {name}.parts for values from (0) to (9)",
    )
    for table, kind, said in (
        ("gone", OptionError, "there is no .*gone in database shop"),
        ("ORDERS", OptionError, "capital letters count"),
        ("bare", OptionError, "has neither a primary key.*replica identity full"),
        ("none", OptionError, "has neither a primary key"),
        ("fleeting", OptionError, "is unlogged"),
        ("seen", OptionError, "is no table"),
        ("parts", OptionError, r"parts_1 has neither"),
    ):
        refused(shop, kind, said, tables=[f"{name}.{table}"])


def test_a_publication_that_does_not_tell_of_a_table_is_not_changed(shop: Shop) -> None:
    other = f"{shop.schema}.other"
    shop.run(f"create table {other} (id int primary key)", f"create publication {shop.slot}")

    refused(
        shop, OptionError, rf'alter publication "{shop.slot}" add table "{shop.schema}"."orders"'
    )
    shop.run(f"alter publication {shop.slot} add table {shop.table}")
    refused(shop, OptionError, f"does not tell of {other}", tables=[shop.table, other])
    shop.source().check()


def test_a_server_without_a_free_slot(plain: Postgres) -> None:
    plain.kill()
    plain.settings |= {"wal_level": "logical", "max_replication_slots": "1"}
    plain.start()
    with shop_in(plain) as shop:
        shop.run("select pg_create_physical_replication_slot('standby')")

        refused(shop, SinkError, "all 1 replication slots of the server are taken")

        shop.run("select pg_drop_replication_slot('standby')")
        shop.source().check()
    plain.kill()
    plain.settings["wal_level"] = "replica"
    plain.start()


def test_columns_that_cannot_be_polled(shop: Shop) -> None:
    table = f"{shop.schema}.events"
    shop.run(
        f"create table {table} (id int primary key, day date, at timestamptz, name text, "
        "code int not null)"
    )
    for block, said in (
        ({"cursorColumn": "gone"}, r"postgres\.cursorColumn: .* has no column 'gone'"),
        ({"keyColumns": ["gone"]}, r"postgres\.keyColumns: .* has no column 'gone'"),
        ({"cursorColumn": "day"}, "is date, and one that grows"),
        ({"cursorColumn": "name"}, "is text, and one that grows"),
        ({"keyColumns": ["name"]}, "may be null"),
        ({"cursorColumn": "at", "keyColumns": ["code"]}, "no unique index of .* at, code"),
    ):
        expect_polling_refused(shop, OptionError, said, tables=[table], **block)


def test_a_cursor_without_an_index_is_warned_of(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    table = f"{shop.schema}.events"
    shop.run(f"create table {table} (id int primary key, at timestamptz)")
    source = shop.source(mode="Polling", tables=[table], cursorColumn="at", keyColumns=["id"])

    source.check()
    assert f"create index on {table} (at, id)" in caplog.text
    caplog.clear()
    shop.run(f"create index on {table} (at, id)")
    source.check()

    assert caplog.text == ""


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_a_server_may_have_the_name_of_a_scheme(shop: Shop, scheme: str) -> None:
    block = shop.block(url=f"{scheme}://postgres:5432/shop")

    assert str(Link(block, Retry(QUICK))) == "postgres:5432/shop"


def test_a_wrong_password_and_a_missing_database(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "username").write_text("iggy")
    (tmp_path / "password").write_text("guess")

    refused(shop, SinkError, "look at postgres.credentialsPath", credentialsPath=str(tmp_path))
    url = shop.server.source_url.replace("/shop", "/gone")
    refused(shop, OptionError, r'postgres\.url: .*"gone" does not exist', url=url)
