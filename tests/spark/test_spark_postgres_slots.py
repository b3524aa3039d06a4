"""Slots that are gone, given up, or read by somebody else: told, never passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from iggy_spark.errors import EXIT_DATA_LOSS, DataLoss, OptionError, SinkError
from iggy_spark.retry import Policy, Retry
from iggy_spark.sources.postgres_changes import ChangesSource
from postgres import PASSWORD, Postgres, running_postgres
from postgres_sources import HASTY, Shop, messages, read, shop_in
from waiting import wait_until

FOREVER = Policy(60, 0.01, 0.05)


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A server that may be killed and set otherwise."""
    with running_postgres(fsync="off", wal_level="logical") as server:
        yield server


def drop(shop: Shop) -> None:
    shop.run(f"select pg_drop_replication_slot('{shop.slot}')")


def test_a_slot_that_was_dropped_is_a_loss(shop: Shop) -> None:
    source = shop.source()
    start = source.first()
    shop.insert(1)
    end = source.latest(start, 10)
    drop(shop)

    for call in (
        lambda: source.latest(end, 10),
        lambda: read(source, start, end),
        lambda: source.done(end),
    ):
        with pytest.raises(DataLoss, match=r"slot 'slot_.*' is gone.*snapshot: true") as told:
            call()
        assert told.value.exit_code == EXIT_DATA_LOSS
    source.check()  # a first start would make it anew


def test_a_slot_that_was_made_anew_is_a_loss(shop: Shop) -> None:
    source = shop.source()
    start = source.first()
    drop(shop)
    shop.insert(1)
    shop.source().first()

    with pytest.raises(DataLoss, match=r"stands at .*, and the checkpoint at"):
        source.latest(start, 10)


def test_a_checkpoint_beyond_the_log_is_a_loss(shop: Shop) -> None:
    source = shop.source()
    source.first()

    with pytest.raises(DataLoss, match=r"restored from a backup\?"):
        source.latest({"lsn": "FFF/0"}, 10)


def test_a_slot_that_kept_too_much_is_a_loss_and_a_busy_one_is_warned_of(
    own: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    own.kill()
    own.settings["max_slot_wal_keep_size"] = "1MB"
    own.start()
    with shop_in(own) as shop:
        source = shop.source()
        start = source.first()
        # Two files of the log: the slot may keep the first one until the next checkpoint.
        shop.run("select pg_logical_emit_message(false, '', repeat('x', 30000000))")
        wait_until(
            lambda: wal_status(shop) == "unreserved",
            lambda: f"the slot keeps too much: {wal_status(shop)}",
        )
        source.check()
        assert "more than max_slot_wal_keep_size allows" in caplog.text

        shop.run("checkpoint")
        wait_until(lambda: wal_status(shop) == "lost", "the server gives it up")

        for call in (source.check, lambda: source.latest(start, 10)):
            with pytest.raises(DataLoss, match="has given up slot"):
                call()
    own.kill()
    own.settings.pop("max_slot_wal_keep_size")
    own.start()


def wal_status(shop: Shop) -> str:
    query = f"select wal_status from pg_replication_slots where slot_name = '{shop.slot}'"
    return str(shop.run(query)[0][0])


@contextmanager
def somebody_else(shop: Shop) -> Iterator[Any]:
    """Another program reads the slot."""
    reader = shop.server.start_reader(shop.slot, shop.slot)
    query = f"select active from pg_replication_slots where slot_name = '{shop.slot}'"
    try:
        wait_until(lambda: shop.run(query) == [(True,)], "somebody else reads the slot")
        yield reader
    finally:
        reader.kill()
        reader.wait()
        wait_until(lambda: shop.run(query) == [(False,)], "the slot is free")


def test_a_slot_in_use_is_named_after_the_time_for_retries(shop: Shop) -> None:
    source = shop.source(policy=HASTY)
    start = source.first()
    shop.insert(1)

    with (
        somebody_else(shop),
        pytest.raises(SinkError, match=r"is active for PID \d+: .*each source needs a slot of its"),
    ):
        source.latest(start, 10)


def test_a_slot_in_use_is_waited_for(shop: Shop) -> None:
    """As a task does for one that was thought dead."""
    source = shop.source()
    start = source.first()
    shop.insert(1)
    with somebody_else(shop) as reader:
        retry = Retry(FOREVER, sleep=lambda _: reader.kill())
        with closing(ChangesSource(shop.block(), name="x", retry=retry)) as waiting:
            end = waiting.latest(start, 10)

    assert [one["key"]["id"] for one in read(source, start, end)] == [1]


def test_a_server_that_dies_forgets_nothing(own: Postgres) -> None:
    """A slot that was moved shortly before may stand where it stood earlier."""
    with shop_in(own) as shop:
        source = shop.source()
        start = source.first()
        shop.insert(1, 2)
        middle = source.latest(start, 10)
        source.done(middle)
        shop.insert(3)
        own.kill()
        own.start()

        found = messages(source, middle)

        assert [one["key"]["id"] for one in found] == [3]
        assert shop.confirmed() != json.loads(json.dumps(start))["lsn"]


def test_a_publication_that_was_dropped_is_a_loss(shop: Shop) -> None:
    source = shop.source()
    start = source.first()
    shop.run(f"drop publication {shop.slot}")
    shop.insert(1)

    with pytest.raises(DataLoss, match=r'publication "slot_.*" does not exist') as told:
        source.latest(start, 10)

    assert PASSWORD not in str(told.value)


def test_a_slot_of_another_kind_is_refused(shop: Shop) -> None:
    shop.run(f"select pg_create_logical_replication_slot('{shop.slot}', 'test_decoding')")

    with pytest.raises(OptionError, match="is of plugin test_decoding in database shop"):
        shop.source().check()


def test_a_lost_checkpoint_goes_on_where_the_slot_stands(shop: Shop) -> None:
    source = shop.source()
    start = source.first()
    shop.insert(1)
    end = source.latest(start, 10)
    source.done(end)
    shop.insert(2)

    again = shop.source().first()

    assert again == end
    assert [one["key"]["id"] for one in messages(source, again)] == [2]


def test_ends_of_batches_come_late_and_twice(shop: Shop) -> None:
    source = shop.source()
    start = source.first()
    shop.insert(1)
    first = source.latest(start, 10)
    shop.insert(2)
    second = source.latest(first, 10)

    for end in (first, second, first, second):
        source.done(end)

    assert shop.confirmed() == second["lsn"]
