"""Real brokers that find an empty place where their archive was: they wait, and skip nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from archive_settings import CONTINUOUS, NAME, of_bucket
from broker_process import BrokerProcess
from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.owner import OWNER_FILE
from iggy_broker.archive.state_objects import Owner
from iggy_broker.archive.store import ArchiveStore
from iggy_client.client import ClientError
from iggy_wire.archive import OWNER_KEY
from iggy_wire.batch import messages
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import PollingStrategy
from scraped import Scrape
from stored import logs, partition_folder, send
from waiting import wait_until

SEGMENT_BYTES = 1 << 20
SIZE_BYTES = 100_000
MESSAGES = 40
SETTINGS = {**CONTINUOUS, "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "100ms"}


@dataclass
class Place:
    """Where an archive is, and how it comes to be empty."""

    settings: dict[str, str]
    empty: dict[str, str]
    """Settings that name an empty place, if it is not the same one."""
    store: Callable[[], ArchiveStore]
    """What the broker finds then."""
    folder: Path | None = None

    def hide(self) -> None:
        if self.folder is not None:  # as a mount point without its volume
            self.folder.rename(self.folder.with_name("volume"))
            self.folder.mkdir()

    def show(self) -> None:
        if self.folder is not None:
            self.folder.rmdir()
            self.folder.with_name("volume").rename(self.folder)


@pytest.fixture(params=["folder", "bucket"])
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        folder = tmp_path / "archive"
        return Place({f"{NAME}DISK_PATH": str(folder)}, {}, lambda: FolderStore(folder), folder)
    place: BucketPlace = request.getfixturevalue("place")
    typo = replace(place, prefix=f"{place.prefix}typo/")
    return Place(of_bucket(place), of_bucket(typo), lambda: BucketStore(typo))


@pytest.fixture
def broker(found: Place, tmp_path: Path) -> Iterator[BrokerProcess]:
    """Its first messages are only in the archive, and its last ones on the disk."""
    running = BrokerProcess(
        tmp_path, shards=1, settings={**SETTINGS, **found.settings}, monitoring=True
    )
    try:
        running.start()
        with running.client() as client:
            client.create_stream("s")
            options = {"segment_size": SEGMENT_BYTES, "max_topic_size": SEGMENT_BYTES}
            client.create_topic("s", "t", 1, options)
            for number in range(MESSAGES):
                send(client, "s", "t", bytes([number]) * SIZE_BYTES)
        wait_until(lambda: len(logs(partition_folder(running))) == 1, "older ones went")
        yield running
    finally:
        running.end()


def read_first(broker: BrokerProcess) -> int | None:
    """The first offset that a poll from the start gives; None: not now."""
    with broker.client() as client:
        try:
            found = client.poll("s", "t", 0, strategy=PollingStrategy.first(), count=1)
        except ClientError as error:
            assert error.code == ErrorCode.TRANSIENT_NOT_ACCEPTED, error
            return None
    return next(messages(found.region)).offset


def is_failing(broker: BrokerProcess) -> bool:
    return Scrape(broker).sum("iggy_archiver_failing") > 0


def missed(broker: BrokerProcess) -> list[str]:
    """What the log said of an archive that is not where it was."""
    return [str(one["message"]) for one in broker.records() if one["event"] == "archive_missing"]


def test_an_empty_place_at_a_start_is_no_new_archive(found: Place, broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    found.hide()
    broker.settings.update(found.empty)
    broker.start()
    wait_until(lambda: missed(broker), "it says so")
    assert is_failing(broker)
    assert read_first(broker) is None
    with broker.client() as client:
        for _ in range(MESSAGES):
            send(client, "s", "t", bytes(SIZE_BYTES))
        last = client.poll("s", "t", 0, strategy=PollingStrategy.last(), count=1)
        assert next(messages(last.region)).offset == 2 * MESSAGES - 1, "what is on the disk"
    assert list(found.store().entries("")) == []

    if found.empty:
        broker.stop()
        broker.settings.update(found.settings)
        broker.start()
    found.show()
    wait_until(lambda: read_first(broker) == 0, "it is back", 60)
    wait_until(lambda: not is_failing(broker), "copied again", 60)
    wait_until(lambda: len(logs(partition_folder(broker))) == 1, "older ones go again", 60)


@pytest.mark.parametrize("found", ["folder"], indirect=True)
def test_another_archive_is_begun_when_the_former_one_is_given_up(
    found: Place, broker: BrokerProcess
) -> None:
    assert broker.stop() == 0
    found.hide()
    broker.settings.update(found.empty)
    noted = Owner.decode((broker.data / OWNER_FILE).read_bytes(), OWNER_FILE)
    broker.start()
    wait_until(lambda: missed(broker), "it says so")
    assert f"data_maintenance.archiver.abandoned to {noted.id}" in missed(broker)[0]
    broker.stop()
    broker.settings[f"{NAME}ABANDONED"] = noted.id
    broker.start()
    wait_until(lambda: found.store().size(OWNER_KEY), "another one is begun")
    wait_until(lambda: (read_first(broker) or 0) > 0, "older messages are gone with theirs")


@pytest.mark.parametrize("found", ["folder"], indirect=True)
def test_a_folder_whose_volume_goes_gets_nothing(found: Place, broker: BrokerProcess) -> None:
    found.hide()
    wait_until(lambda: missed(broker), "it says so")
    with broker.client() as client:
        for _ in range(MESSAGES):
            send(client, "s", "t", bytes(SIZE_BYTES))
    assert is_failing(broker)
    assert len(logs(partition_folder(broker))) > 3, "nothing goes from the disk"
    assert list(found.store().entries("")) == []
    found.show()
    wait_until(lambda: len(logs(partition_folder(broker))) == 1, "copied, and gone", 60)
    assert read_first(broker) == 0
