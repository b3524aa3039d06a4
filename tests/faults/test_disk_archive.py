"""The archive is away until the disk is full: what is not copied stays, then all goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from archive_content import objects_of, payloads_of
from archive_settings import BASE, CONTINUOUS, NAME, of_bucket
from full_disk import NO_ROOM, send_until_taken
from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store
from played_server import Reply, Request
from scraped import Scrape
from small_disk import BrokerOnSmallDisk, SmallDisk, small_disk
from store_front import StoreFront
from stored import FIRST, logs, partition_folder, read_all
from waiting import wait_until

SEGMENT_BYTES = 1 << 20
PAYLOAD_BYTES = 200_000
AGAIN = 20  # messages, so that segments are sealed and go after the trouble, too
FULL_MIN = 200  # most of 64 MiB
OPTIONS = {"segment_size": SEGMENT_BYTES, "message_expiry": 1_000_000}
SETTINGS = {
    f"{NAME}READ_ENABLED": "false",  # what is polled is on the disk
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100ms",
    "IGGY_SYSTEM_PARTITION_MESSAGE_SAVER_INTERVAL": "100ms",
}
WITHIN_S = 90.0


class AwayFront(StoreFront):
    """One behind which no store answers for a while."""

    is_away = False

    def answer(self, request: Request) -> Reply:
        return Reply(503) if self.is_away else super().answer(request)


@dataclass
class Scene:
    """A broker on a small disk, and its archive behind a front."""

    broker: BrokerOnSmallDisk
    disk: SmallDisk
    front: AwayFront
    place: BucketPlace

    @property
    def is_failing(self) -> bool:
        return Scrape(self.broker).sum("iggy_archiver_failing") > 0

    @property
    def has_archive(self) -> bool:
        return Scrape(self.broker).sum("iggy_archiver_uploads_total") > 0  # metadata

    @property
    def segments_gone(self) -> float:
        return Scrape(self.broker).sum("iggy_retention_segments_total")

    @property
    def segments(self) -> int:
        return len(logs(partition_folder(self.broker)))

    @property
    def first_on_disk(self) -> int:
        return int(logs(partition_folder(self.broker))[0].stem)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_object_store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture(params=[BASE, CONTINUOUS], ids=["when due, never begun", "continuous"])
def scene(tmp_path: Path, request: pytest.FixtureRequest, store: ObjectStore) -> Iterator[Scene]:
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path))
        front = stack.enter_context(AwayFront(store))
        place = BucketPlace(
            store.common_bucket, f"{tmp_path.name}/", endpoint=store.endpoint,
            access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY,
        )  # fmt: skip
        settings = SETTINGS | request.param | of_bucket(place, front.url)
        broker = BrokerOnSmallDisk(tmp_path, disk, settings=settings)
        broker.monitoring = True
        stack.callback(broker.end)
        front.is_away = request.param is BASE  # from the first start on
        broker.start()
        yield Scene(broker, disk, front, place)
        assert broker.stop() == 0, broker.text()


def payload(offset: int) -> bytes:
    return f"{offset}/".encode().ljust(PAYLOAD_BYTES, b".")


def send_until_refused(client: Client) -> list[bytes]:
    """What was acknowledged."""
    sent: list[bytes] = []
    while True:
        try:
            client.send("s", "t", FIRST, [Message(payload(len(sent)))])
        except ClientError as refused:
            assert refused.code in NO_ROOM
            return sent
        sent.append(payload(len(sent)))


@pytest.mark.timeout(300)
def test_a_full_disk_waits_for_an_archive_that_is_away(scene: Scene) -> None:
    with scene.broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1, OPTIONS)
        if scene.front.is_away:
            wait_until(lambda: scene.is_failing, "nobody's yet", WITHIN_S)
        else:
            wait_until(lambda: scene.has_archive, "the archive is taken", WITHIN_S)
            scene.front.is_away = True
        sent = send_until_refused(client)
        scene.disk.fill()  # also what an index or a note would need
        assert len(sent) > FULL_MIN
        wait_until(lambda: scene.is_failing, "the archive is missed", WITHIN_S)
        with pytest.raises(ClientError) as refused:
            client.send("s", "t", FIRST, [Message(payload(0))])
        assert refused.value.code == ErrorCode.CANNOT_APPEND_MESSAGE
        assert read_all(client, "s", "t") == sent, "all is due to go, and stays"
        assert scene.segments_gone == 0
        assert payloads_of(objects_of(BucketStore(scene.place))) == {}

        scene.front.is_away = False
        wait_until(lambda: scene.segments_gone, scene.broker.text, WITHIN_S)
        sent.append(payload(len(sent)))
        assert send_until_taken(client, "t", sent[-1]) == len(sent) - 1
        for _ in range(AGAIN):
            sent.append(payload(len(sent)))
            assert send_until_taken(client, "t", sent[-1]) == len(sent) - 1
        wait_until(lambda: scene.segments == 1, "copied and gone", WITHIN_S)
        wait_until(lambda: not scene.is_failing, "all is well", WITHIN_S)
        last = read_all(client, "s", "t", first=scene.first_on_disk)
    copied = list(payloads_of(objects_of(BucketStore(scene.place))).values())
    assert copied[: scene.first_on_disk] + last == sent
