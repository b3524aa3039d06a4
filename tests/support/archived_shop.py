"""A topic whose first nine tenths only an archive has: for readers of archives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from broker_process import PASSWORD, USERNAME, BrokerProcess
from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.store import ArchiveStore
from iggy_client import Client
from iggy_wire.archive import Manifest, parse_key
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore
from stored import logs, partition_folder, send
from waiting import wait_until

STREAM, TOPIC = "shop", "orders"
PARTITIONS = 2
SEGMENT_BYTES = 1 << 20  # the smallest that there is
SEGMENTS = 10  # of the first partition, before what comes last
BATCH = 20
MESSAGE_BYTES = 5_000
WITHIN_S = 60.0
_NAME = "IGGY_DATA_MAINTENANCE_ARCHIVER_"


@dataclass
class ArchivedShop:
    """The topic, its broker, and the archive as the options of a reader name it."""

    broker: BrokerProcess
    settings: Mapping[str, str]
    store: ArchiveStore
    where: dict[str, str]
    sent: dict[int, list[bytes]] = field(default_factory=lambda: {n: [] for n in range(PARTITIONS)})
    local: int = 0
    """Offset of the first message of partition 0 that the broker has itself."""

    def options(self, **more: str) -> dict[str, str]:
        """Of a reader of both."""
        login = {"servers": self.broker.address, "username": USERNAME, "password": PASSWORD}
        return {**login, "stream": STREAM, "topic": TOPIC, **self.where, **more}

    def only(self, **more: str) -> dict[str, str]:
        """Of a reader of the archive alone."""
        return {"stream": STREAM, "topic": TOPIC, "archiveMode": "only", **self.where, **more}

    def rows(self) -> list[tuple[int, int, bytes]]:
        """All that was sent, by partition and offset."""
        return [(n, at, data) for n, sent in self.sent.items() for at, data in enumerate(sent)]

    def send(self, client: Client, partition: int, count: int) -> None:
        """Messages that tell where they belong."""
        for _ in range(0, count, BATCH):
            first = len(self.sent[partition])
            payloads = [
                f"{partition}/{offset} ".encode().ljust(MESSAGE_BYTES, b"x")
                for offset in range(first, first + BATCH)
            ]
            send(client, STREAM, TOPIC, *payloads, partition=partition)
            self.sent[partition] += payloads

    def manifests(self) -> dict[str, Manifest]:
        """All there are, by key."""
        keys = [entry.key for entry in self.store.entries("")]
        named = [key for key in keys if (found := parse_key(key)) and found.kind == "json"]
        return {key: Manifest.decode(self.store.read(key, 1 << 20, 0), key) for key in named}

    def archived(self, partition: int = 0) -> int:
        """Up to which offset a partition is in the archive."""
        try:
            found = list(self.manifests().values())
        except FileNotFoundError:  # it changes while it is read
            return -1
        life = max((one.incarnation for one in found), default=0)  # of a topic made at once
        ours = [one for one in found if one.partition_id == partition and one.incarnation == life]
        return max((one.next_offset for one in ours), default=0)

    def wait(self) -> None:
        """Until all is in the archive."""

        def is_there() -> bool:
            return all(self.archived(n) == len(sent) for n, sent in self.sent.items())

        wait_until(is_there, "all archived", WITHIN_S)

    def restart(self, *, archiver: bool) -> None:
        """Go on with an archiver or without one, and so without its archive."""
        assert self.broker.stop() == 0, self.broker.text()
        self.broker.settings = dict(self.settings) if archiver else {}
        self.broker.start()

    def catch_up(self) -> None:
        """What was sent meanwhile is archived."""
        self.restart(archiver=True)
        self.wait()
        self.restart(archiver=False)


def _fill(shop: ArchivedShop, segments: int) -> None:
    folder = partition_folder(shop.broker)
    with shop.broker.client() as client:
        client.create_stream(STREAM)
        client.create_topic(STREAM, TOPIC, PARTITIONS, {"segment_size": SEGMENT_BYTES})
        while len(logs(folder)) < segments:
            shop.send(client, 0, BATCH)
        shop.send(client, 1, 3 * BATCH)
        shop.wait()
        client.delete_segments(STREAM, TOPIC, 0, segments - 1)
        wait_until(lambda: len(logs(folder)) == 1, "old segments are gone", WITHIN_S)
        shop.local = int(logs(folder)[0].stem)
        for _ in range(3):  # pieces
            shop.send(client, 0, BATCH)
            shop.wait()


@contextmanager
def running_shop(
    folder: Path, store: ObjectStore | None = None, *, segments: int = SEGMENTS
) -> Iterator[ArchivedShop]:
    """The topic with its archive in a folder, or in a bucket. The broker has no archiver any more,
    so that nobody but the reader has what is only there.
    """
    settings = {
        f"{_NAME}ENABLED": "true",
        f"{_NAME}INTERVAL": "100ms",
        f"{_NAME}CONTINUOUS": "true",
    }
    archive = folder / "archive"
    objects: ArchiveStore = FolderStore(archive)
    where = {"archivePath": str(archive)}
    if store is None:
        settings[f"{_NAME}DISK_PATH"] = str(archive)
    else:
        place = BucketPlace(
            store.common_bucket,
            "shop/",
            endpoint=store.endpoint,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
        )
        objects = BucketStore(place)
        where = {
            "archivePath": f"s3://{place.bucket}/shop",
            "archive.endpoint": place.endpoint,
            "archive.credentialsPath": str(store.login),
        }
        settings |= {
            f"{_NAME}KIND": "s3",
            f"{_NAME}S3_BUCKET": place.bucket,
            f"{_NAME}S3_KEY_PREFIX": place.prefix,
            f"{_NAME}S3_ENDPOINT": place.endpoint,
            f"{_NAME}S3_ACCESS_KEY_ID": ACCESS_KEY,
            f"{_NAME}S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }
    broker = BrokerProcess(folder / "broker", settings=settings)
    try:
        shop = ArchivedShop(broker.start(), settings, objects, where)
        _fill(shop, segments)
        shop.restart(archiver=False)
        yield shop
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()
