"""A task whose process has looked at the archive before its range was planned elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archived_rows import batch, rows_of
from archived_shop import BATCH, STREAM, TOPIC, ArchivedShop, running_shop
from iggy_client import Client
from iggy_spark import archive_places, archived, connections
from iggy_spark.archive_store import FolderObjects
from iggy_spark.errors import BrokerRefused, DataLoss
from stored import logs, partition_folder
from waiting import wait_until

Change = Callable[[ArchivedShop, Client], None]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchivedShop]:
    """What a process has seen of it is not old enough to be looked at again."""
    for module in (archived, archive_places):
        monkeypatch.setattr(module, "LOOK_S", 3600.0)
    with running_shop(tmp_path, segments=2) as found:
        yield found
    connections.close_all()


def more(shop: ArchivedShop, client: Client) -> None:
    shop.send(client, 1, BATCH)
    shop.wait()


def rolled(shop: ArchivedShop, client: Client) -> None:
    """More segments, of which the broker keeps the last."""
    folder, before = partition_folder(shop.broker), len(shop.sent[0])
    while len(logs(folder)) < 3:
        shop.send(client, 0, BATCH)
    shop.wait()
    client.delete_segments(STREAM, TOPIC, 0, 2)
    wait_until(lambda: len(logs(folder)) == 1, "old segments are gone", 60)
    assert int(logs(folder)[0].stem) > before


def wider(shop: ArchivedShop, client: Client) -> None:
    """One more partition."""
    client.create_partitions(STREAM, TOPIC, 1)
    shop.sent[2] = []
    shop.send(client, 2, BATCH)

    def is_there() -> bool:
        return any(one.partition_id == 2 for one in shop.manifests().values())

    wait_until(is_there, "the new partition is archived", 60)


def anew(shop: ArchivedShop, client: Client) -> None:
    """The topic is another one."""
    client.delete_topic(STREAM, TOPIC)
    client.create_topic(STREAM, TOPIC, 2, {"segment_size": 1 << 20})
    shop.sent = {0: [], 1: []}
    shop.send(client, 0, BATCH)
    shop.send(client, 1, BATCH)
    shop.wait()


@pytest.mark.parametrize("change", [more, rolled, wider, anew])
@pytest.mark.parametrize("mode", ["auto", "only"])
def test_a_task_finds_what_was_planned(shop: ArchivedShop, mode: str, change: Change) -> None:
    assert rows_of(shop.only()) == shop.rows()
    seen = dict(archived._archives)
    shop.restart(archiver=True)
    with shop.broker.client() as client:
        change(shop, client)
    shop.restart(archiver=False)
    given = shop.options() if mode == "auto" else shop.only()

    parts = batch(given).partitions()
    archived._archives.clear()
    archived._archives.update(seen)
    assert rows_of(given, parts) == shop.rows()


def test_a_task_finds_a_topic_that_is_new(shop: ArchivedShop, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "streams").mkdir(parents=True)
    given = shop.only(archivePath=str(copy))
    with pytest.raises(BrokerRefused, match="there are no topics in it"):
        rows_of(given)
    seen = dict(archived._archives)

    shutil.copytree(shop.where["archivePath"], copy, dirs_exist_ok=True)
    parts = batch(given).partitions()
    archived._archives.clear()
    archived._archives.update(seen)
    assert rows_of(given, parts) == shop.rows()


def test_what_is_gone_is_looked_for_once(
    shop: ArchivedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shop.where["archivePath"]) / "streams/0/topics/0/partitions/0"
    first, second, *_ = sorted(folder.glob("*.json"))
    parts = batch(shop.only()).partitions()
    first.unlink()
    given = shop.only(failOnDataLoss="false")
    start, lists = int(second.stem), []
    of_folder = FolderObjects.keys

    def keys(self: FolderObjects, prefix: str) -> list[str]:
        lists.append(prefix)
        return of_folder(self, prefix)

    batch(given).partitions()
    monkeypatch.setattr(FolderObjects, "keys", keys)
    assert rows_of(given, parts) == [row for row in shop.rows() if row[0] or row[1] >= start]
    assert lists.count("streams/0/topics/0/") <= 2, "a partition has one gap"
    with pytest.raises(DataLoss, match=rf"partition 0: offsets 0–{start - 1} "):
        rows_of(shop.only(), parts)
