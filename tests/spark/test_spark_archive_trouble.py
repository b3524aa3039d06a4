"""Archives that are damaged, encrypted, somewhere else, or of another topic."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path

import pytest

from archived_rows import batch, rows_of
from archived_shop import BATCH, ArchivedShop, running_shop
from iggy_spark import archived, connections
from iggy_spark.archive_store import FolderObjects
from iggy_spark.errors import (
    ArchiveUnreadable,
    BrokerRefused,
    DataLoss,
    IggySparkError,
    OptionError,
)
from iggy_wire import sealing
from iggy_wire.batch import BatchHeader
from stored import logs, partition_folder


@pytest.fixture
def damaged(in_folder: ArchivedShop, tmp_path: Path) -> Path:
    """A copy of the archive."""
    return Path(shutil.copytree(in_folder.where["archivePath"], tmp_path / "copy"))


def of_partition(archive: Path, ending: str) -> list[Path]:
    """Objects of partition 0, the oldest first."""
    return sorted((archive / "streams/0/topics/0/partitions/0").glob(f"*.{ending}"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_what_is_damaged_is_told(in_folder: ArchivedShop, damaged: Path) -> None:
    shop = in_folder
    second = of_partition(damaged, "log")[1]
    flip(second, 300_000)
    for given in (shop.only(archivePath=str(damaged)), shop.options(archivePath=str(damaged))):
        with pytest.raises(ArchiveUnreadable, match=rf"{second.name} is damaged .*CHECKSUM"):
            rows_of(given)
    with second.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ArchiveUnreadable, match=rf"{second.name} ends at byte 1000, before"):
        rows_of(shop.only(archivePath=str(damaged)))

    manifest = of_partition(damaged, "json")[0]
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(ArchiveUnreadable, match="has format 2, this version reads 1"):
        rows_of(shop.only(archivePath=str(damaged)))


@pytest.mark.parametrize("mode", ["auto", "only"])
@pytest.mark.parametrize("place", ["payload", "length"])
def test_damaged_batches_are_counted_where_loss_is_no_error(
    in_folder: ArchivedShop, damaged: Path, mode: str, place: str
) -> None:
    shop = in_folder
    second = of_partition(damaged, "log")[1]
    data, at, starts = second.read_bytes(), 0, []
    while at < len(data):
        starts.append(at)
        at += BatchHeader.decode(data, at).length
    first = int(second.stem) + 3 * BATCH
    given = shop.options() if mode == "auto" else shop.only()
    given |= {"archivePath": str(damaged)}

    if place == "payload":
        for number in (3, 4, 6):
            flip(second, starts[number] + 300)
        lost = {*range(first, first + 2 * BATCH), *range(first + 3 * BATCH, first + 4 * BATCH)}
    else:
        flip(second, starts[3] + 32)  # up to where the index has a batch again: here the next one
        lost = set(range(first, first + BATCH))
    with pytest.raises(ArchiveUnreadable, match=rf"partitions/0/.* at offset {first} of"):
        rows_of(given)
    found = rows_of({**given, "failOnDataLoss": "false"})
    assert found == [row for row in shop.rows() if row[0] or row[1] not in lost]


def test_a_damaged_index_is_no_trouble(
    in_folder: ArchivedShop, damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for index in of_partition(damaged, "index"):
        flip(index, 30)
    assert rows_of(in_folder.only(archivePath=str(damaged))) == in_folder.rows()
    assert "is damaged: its segment is read from the start" in caplog.text


def test_encrypted_segments_need_their_key(
    in_folder: ArchivedShop, damaged: Path, tmp_path: Path
) -> None:
    key, keys = bytes(range(32)), tmp_path / "keys"
    keys.mkdir()
    for log in of_partition(damaged, "log")[1:]:
        encrypt(log, sealing.Keyring(key=key))
    given = in_folder.only(archivePath=str(damaged))

    key_id = sealing.id_of(key)
    with pytest.raises(ArchiveUnreadable, match=rf"with key {key_id}.*set archive\.keysPath"):
        rows_of(given)
    given["archive.keysPath"] = str(keys)
    with pytest.raises(ArchiveUnreadable, match=rf"{key_id}.*add it as a file to {keys}"):
        rows_of(given)
    (keys / "old").write_text("no key")
    with pytest.raises(OptionError, match=r"archive.keysPath: .*/old: .*base64 of 32 bytes"):
        rows_of(given)
    (keys / "old").write_bytes(base64.b64encode(key) + b"\n")
    assert rows_of(given) == in_folder.rows()


def encrypt(log: Path, keys: sealing.Keyring) -> None:
    """As the broker would have written it: batches keep their places."""
    data, at, sealed = log.read_bytes(), 0, b""
    while at < len(data):
        length = BatchHeader.decode(data, at).length
        sealed += keys.seal(data[at : at + length])
        at += length
    log.write_bytes(sealed)


@pytest.mark.parametrize("mode", ["auto", "only"])
def test_what_nobody_has_is_lost(
    in_folder: ArchivedShop, damaged: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    shop = in_folder
    second = of_partition(damaged, "log")[1]
    first, end = int(second.stem), int(of_partition(damaged, "log")[2].stem)
    second.unlink()
    given = shop.options() if mode == "auto" else shop.only()
    given |= {"archivePath": str(damaged)}

    nor = ", and not in the archive" if mode == "auto" else " from the archive"
    told = rf"partition 0: offsets {first}\u2013{end - 1} \({end - first} messages\) are gone{nor}"
    with pytest.raises(DataLoss, match=told):
        rows_of(given)
    found = rows_of({**given, "failOnDataLoss": "false"})
    assert found == [row for row in shop.rows() if row[0] or not first <= row[1] < end]
    assert "lacks objects that manifests name" in caplog.text


def test_names_places_and_logins_that_are_wrong(
    in_folder: ArchivedShop,
    in_bucket: ArchivedShop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(kind: type[IggySparkError], told: str, given: dict[str, str]) -> None:
        with pytest.raises(kind, match=told):
            batch(given).partitions()

    fails(
        BrokerRefused,
        r"'none' in stream 'shop' is not in .*: there is shop/orders",
        in_folder.only(topic="none"),
    )
    fails(OptionError, "archivePath: /nowhere is no folder", in_folder.only(archivePath="/nowhere"))
    fails(OptionError, "archivePath: .* is no address", in_bucket.only(archivePath="s3://b//c"))
    fails(
        ArchiveUnreadable,
        "bucket nowhere does not exist",
        in_bucket.only(archivePath="s3://nowhere/x"),
    )
    path_style = {"archive.pathStyle": "true"}  # so it is with an endpoint, unless said otherwise
    assert rows_of(in_bucket.only(**path_style)) == in_bucket.rows()
    wrong = {"archive.credentialsPath": str(tmp_path)}
    fails(
        ArchiveUnreadable,
        "archive.credentialsPath: .* needs the files accessKeyId",
        in_bucket.only(**wrong),
    )
    (tmp_path / "accessKeyId").write_text("nobody")
    (tmp_path / "secretAccessKey").write_text("x")
    fails(ArchiveUnreadable, "refuses the access key|denies access", in_bucket.only(**wrong))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    none = in_bucket.only()
    del none["archive.credentialsPath"]
    fails(ArchiveUnreadable, "set archive.credentialsPath to a folder", none)


def test_a_topic_of_the_same_name_is_another(tmp_path: Path) -> None:
    with running_shop(tmp_path, segments=2) as shop:
        before = shop.rows()
        with shop.broker.client() as client:
            client.delete_topic("shop", "orders")
            client.create_topic("shop", "orders", 2, {"segment_size": 1 << 20})
            shop.sent = {0: [], 1: []}
            while len(logs(partition_folder(shop.broker))) < 3:
                shop.send(client, 0, BATCH)
            assert rows_of(shop.options()) == shop.rows(), "from the broker"
            client.delete_segments("shop", "orders", 0, 1)
        with pytest.raises(
            DataLoss, match=r"partition 0: offsets 0.* are gone, and not in the archive"
        ):
            rows_of(shop.options(startingOffsets='{"0": 0, "1": 0}'))
        assert rows_of(shop.only()) == before

        shop.catch_up()
        lives = archived.Archive(FolderObjects(shop.where["archivePath"])).topics()
        old, new = sorted(topic.life.suffix for topic in lives)
        assert rows_of(shop.only(**{"archive.incarnation": old}))[: len(before)] == before
        first = next(row[1] for row in rows_of(shop.only(**{"archive.incarnation": new})))
        assert rows_of(shop.only()) == shop.rows()[first:]
        assert rows_of(shop.options()) == shop.rows()[first:]
    connections.close_all()
