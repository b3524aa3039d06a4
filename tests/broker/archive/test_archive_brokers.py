"""Real brokers with an archive in a folder and in a real object store, and what goes wrong."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from archive_content import manifests_of, objects_of, payloads_of
from archive_settings import BASE, CONTINUOUS, NAME, of_bucket
from broker_process import BrokerProcess
from iggy_broker.archive.bucket import PART_BYTES, BucketPlace, BucketStore
from iggy_broker.archive.folder import UNFINISHED, FolderStore
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_client.client import Client, ClientError
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store
from played_server import LOST, Reply, Request
from scraped import Scrape
from store_front import StoreFront
from stored import logs, partition_folder, read_all, send
from waiting import wait_until

SEGMENT_BYTES = 1 << 20
PARTITIONS = 3
WHEN_DUE = {
    **BASE,
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100ms",
    "IGGY_SYSTEM_PARTITION_MESSAGE_SAVER_INTERVAL": "100ms",
}
WITHIN_S = 60.0


@contextmanager
def running(folder: Path, settings: dict[str, str], **more: bool) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(folder, settings=settings, **more)
    try:
        broker.start()
        yield broker
        if broker.is_running:
            assert broker.stop() == 0, broker.text()
    finally:
        broker.end()
    assert SECRET_KEY not in broker.text()


def make(client: Client, partitions: int = 1, **options: int) -> None:
    client.create_stream("s")
    client.create_topic("s", "t", partitions, {"segment_size": SEGMENT_BYTES, **options})


def events(broker: BrokerProcess, name: str) -> list[dict[str, object]]:
    return [record for record in broker.records() if record["event"] == name]


def is_archived(store: ArchiveStore, count: int, partition: int = 0) -> bool:
    """Whether the archive has the first `count` messages of a partition."""
    try:
        found = payloads_of(objects_of(store), partition)
    except (AssertionError, ArchiveError, FileNotFoundError, KeyError):
        return False  # it changes while it is read
    return all(offset in found for offset in range(count))


class Producer(threading.Thread):
    """Sends to all partitions until told to end, whatever becomes of the broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._over = threading.Event()
        self.acknowledged: dict[tuple[int, int], bytes] = {}

    def run(self) -> None:
        chance = random.Random(1)
        while not self._over.is_set():
            try:
                with self._broker.client(timeout_s=5) as client:
                    while not self._over.is_set():
                        partition = chance.randrange(PARTITIONS)
                        payload = chance.randbytes(chance.choice((100, 20_000, 200_000)))
                        offset = send(client, "s", "t", payload, partition=partition)
                        self.acknowledged[partition, offset] = payload
            except (OSError, ClientError):
                time.sleep(0.05)

    def wait_for_more(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) > wanted, "messages", WITHIN_S)

    def end(self) -> None:
        self._over.set()
        self.join()


@pytest.fixture(params=["folder", "bucket"])
def place_of(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ArchiveStore, dict[str, str]]:
    """A store, and the settings for it."""
    if request.param == "folder":
        folder = tmp_path / "archive"
        return FolderStore(folder), {f"{NAME}DISK_PATH": str(folder)}
    place: BucketPlace = request.getfixturevalue("place")
    return BucketStore(place), of_bucket(place)


def test_kills_under_load_lose_nothing_of_the_archive(
    tmp_path: Path, place_of: tuple[ArchiveStore, dict[str, str]]
) -> None:
    store, where = place_of
    with running(tmp_path, {**CONTINUOUS, **where}) as broker:
        with broker.client() as client:
            make(client, PARTITIONS)
        producer = Producer(broker)
        producer.start()
        for number in range(3):
            producer.wait_for_more(60)
            broker.kill()
            payloads_of(objects_of(store))  # each manifest names what is there
            broker.start()
            assert broker.is_running, number
        producer.wait_for_more(60)
        producer.end()
        counts = [
            1 + max(offset for at, offset in producer.acknowledged if at == partition)
            for partition in range(PARTITIONS)
        ]
        for partition, count in enumerate(counts):
            wait_until(partial(is_archived, store, count, partition), "all archived", WITHIN_S)
    objects = objects_of(store)
    for partition in range(PARTITIONS):
        found = payloads_of(objects, partition)
        sent = {at[1]: data for at, data in producer.acknowledged.items() if at[0] == partition}
        assert {offset: found[offset] for offset in sent} == sent
    assert {manifest.topic for manifest in manifests_of(objects).values()} == {"t"}
    assert not any(key.endswith(UNFINISHED) for key in objects)


def test_what_is_due_goes_when_it_is_copied(
    tmp_path: Path, place_of: tuple[ArchiveStore, dict[str, str]]
) -> None:
    store, where = place_of
    file = tmp_path / "broker.toml"  # the environment wins over it
    file.write_text('[data_maintenance.archiver]\nenabled = false\nkind = "disk"\n')
    settings = {**WHEN_DUE, **where, "IGGY_CONFIG_PATH": str(file)}
    with running(tmp_path, settings, monitoring=True) as broker:
        check_told_settings(broker, settings)
        with broker.client() as client:
            make(client, message_expiry=1_000_000)
            sent = [os.urandom(SEGMENT_BYTES // 3 + 1) for _ in range(9)]
            for payload in sent:
                send(client, "s", "t", payload)
            folder = partition_folder(broker)
            wait_until(lambda: len(logs(folder)) == 1, "old segments are gone", WITHIN_S)
            assert read_all(client, "s", "t", first=9) == []
        found = Scrape(broker)
        assert found.sum("iggy_archiver_segments_total") == 3
        assert found.sum("iggy_archiver_failing") == 0
        assert len(events(broker, "segment_archived")) == 3
    assert list(payloads_of(objects_of(store)).values()) == sent


def check_told_settings(broker: BrokerProcess, settings: dict[str, str]) -> None:
    """The log's first line has what the environment says of the archive, without the login."""
    (start,) = events(broker, "starting")
    told = start["settings"]
    assert isinstance(told, dict)
    shown = {variable(key): text for key, text in told.items() if "archiver." in key}
    given = {name: text for name, text in settings.items() if name.startswith(NAME)}
    for name, text in given.items():
        expected = "***" if name.endswith(("_KEY_ID", "_SECRET_ACCESS_KEY")) else text
        assert str(shown[name]).replace(" ", "").casefold() == expected.casefold(), name


def variable(key: str) -> str:
    """Of a setting."""
    return f"IGGY_{key.replace('.', '_').upper()}"


def test_a_store_that_fails_lies_and_goes_away(tmp_path: Path) -> None:
    with running_object_store(tmp_path / "store") as away, LyingFront(away) as front:
        place = BucketPlace(
            away.common_bucket, "a/", endpoint=away.endpoint,
            access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY,
        )  # fmt: skip
        store = BucketStore(place)
        settings = {**WHEN_DUE, **of_bucket(place, front.url)}
        with running(tmp_path, settings, monitoring=True) as broker, broker.client() as client:
            make(client, message_expiry=1_000_000)
            folder, sent = partition_folder(broker), []

            def grow() -> None:
                for _ in range(6):
                    sent.append(os.urandom(SEGMENT_BYTES // 3 + 1))
                    send(client, "s", "t", sent[-1])

            front.faults += [Reply(500), LOST, Reply(503)]
            grow()
            wait_until(lambda: is_archived(store, 6), "copied in spite of faults", WITHIN_S)
            wait_until(lambda: len(logs(folder)) == 1, "and gone", WITHIN_S)

            front.lies_about = ".log"
            grow()
            wait_until(lambda: events(broker, "archive_failed"), "a lie is noticed", WITHIN_S)
            assert "does not give" in str(events(broker, "archive_failed")[0]["message"])
            assert len(logs(folder)) == 3
            assert Scrape(broker).sum("iggy_archiver_failing") == 1
            front.lies_about = ""
            wait_until(lambda: len(logs(folder)) == 1, "gone after the truth", WITHIN_S)

            away.kill()
            grow()
            failures = len(events(broker, "archive_failed"))
            wait_until(
                lambda: Scrape(broker).sum("iggy_archiver_failing") == 1, "seen away", WITHIN_S
            )
            assert read_all(client, "s", "t", first=12) == sent[12:], "nothing went"
            assert len(events(broker, "archive_failed")) <= failures + 1, "one line a minute"
            away.start()
            wait_until(lambda: len(logs(folder)) == 1, "gone when it is back", 2 * WITHIN_S)
            assert front.refused == []
        assert list(payloads_of(objects_of(store)).values()) == sent


class LyingFront(StoreFront):
    """One that gives back a wrong byte of objects whose keys end with `lies_about`."""

    lies_about = ""

    def answer(self, request: Request) -> Reply:
        reply = super().answer(request)
        is_it = request.method == "GET" and request.path.partition("?")[0].endswith(self.lies_about)
        if not (self.lies_about and is_it and reply.status in (200, 206)):
            return reply
        data = reply.data
        return Reply(reply.status, bytes([data[0] ^ 1]) + data[1:], reply.headers)


def test_uploads_that_were_cut_are_no_trouble(
    tmp_path: Path, object_store: ObjectStore, place: BucketPlace
) -> None:
    size_bytes = 2 * PART_BYTES + SEGMENT_BYTES
    with StoreFront(object_store) as front:
        settings = {**CONTINUOUS, **of_bucket(place, front.url)}
        with running(tmp_path, settings) as broker:
            front.only = "partNumber=2"
            front.faults += [Reply(500)] * 1000
            with broker.client() as client:
                client.create_stream("s")
                client.create_topic("s", "t", 1, {"segment_size": 16 << 20})
                payload = os.urandom(size_bytes)
                send(client, "s", "t", payload)
            wait_until(lambda: events(broker, "archive_failed"), "the failure", WITHIN_S)
            wait_until(lambda: "DELETE" in front.methods(place.prefix), "abort is sent", WITHIN_S)
            front.only = "partNumber=3"
            wait_until(lambda: front.methods("partNumber=3"), "the third part", WITHIN_S)
            broker.kill()
            front.faults.clear()
            front.only = "?uploadId"  # the last step
            front.faults += [LOST]
            broker.start()
            store = BucketStore(place)
            wait_until(lambda: is_archived(store, 1), "copied after all", WITHIN_S)
            wait_until(lambda: has_sealed(store), "the sealed copy", WITHIN_S)
    client = object_store.client()
    left = client.list_multipart_uploads(Bucket=place.bucket, Prefix=place.prefix)
    assert left.get("Uploads", []) == []
    objects = objects_of(BucketStore(place))
    assert payloads_of(objects) == {0: payload}


def has_sealed(store: ArchiveStore) -> bool:
    return any(entry.key.endswith(".log") for entry in store.entries(""))


def test_a_folder_that_cannot_be_written_is_named_and_nothing_goes(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_text("no folder")
    settings = {**WHEN_DUE, f"{NAME}DISK_PATH": str(archive)}
    with running(tmp_path, settings, monitoring=True) as broker, broker.client() as client:
        make(client, message_expiry=1_000_000)
        for _ in range(6):
            send(client, "s", "t", bytes(SEGMENT_BYTES // 3 + 1))
        wait_until(lambda: events(broker, "archive_failed"), "the folder is named", WITHIN_S)
        assert str(archive) in str(events(broker, "archive_failed")[0]["message"])
        assert len(read_all(client, "s", "t")) == 6
        assert Scrape(broker).sum("iggy_archiver_failing") == 1

        archive.unlink()
        key = archive / "streams/0/topics/0/partitions/0/00000000000000000000.log"
        key.parent.mkdir(parents=True)
        key.write_bytes(b"something else")
        key.with_name(key.name + UNFINISHED).write_bytes(b"half")
        folder = partition_folder(broker)
        wait_until(lambda: len(logs(folder)) == 1, "copied and gone", 2 * WITHIN_S)
    objects = objects_of(FolderStore(archive))
    assert len(payloads_of(objects)) == 6
    assert not key.with_name(key.name + UNFINISHED).exists()


def test_a_stop_does_not_wait_for_an_upload(
    tmp_path: Path, object_store: ObjectStore, place: BucketPlace
) -> None:
    with SlowFront(object_store) as front:
        settings = {**CONTINUOUS, **of_bucket(place, front.url)}
        with running(tmp_path, settings) as broker:
            with broker.client() as client:
                make(client)
                send(client, "s", "t", b"one")
            wait_until(front.waiting.is_set, "an upload runs", WITHIN_S)
            assert broker.stop() == 0, broker.text()
        front.go_on.set()
    with running(tmp_path, {**CONTINUOUS, **of_bucket(place)}):
        store = BucketStore(place)
        wait_until(lambda: is_archived(store, 1), "copied by the next start", WITHIN_S)


class SlowFront(StoreFront):
    """One whose first PUT is answered only when the test goes on."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.waiting, self.go_on = threading.Event(), threading.Event()

    def answer(self, request: Request) -> Reply:
        if request.method == "PUT":
            self.waiting.set()
            self.go_on.wait(WITHIN_S)
        return super().answer(request)
