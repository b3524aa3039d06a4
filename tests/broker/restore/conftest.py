"""An archive that a real broker has made, and a broker that has lost its data directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive_content import is_archived
from broker_process import BrokerProcess
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.state_objects import StoredOffsets
from iggy_broker.metadata.snapshot import VERSION
from iggy_broker.restore.survey import read_metadata
from iggy_wire.archive import offsets_key
from kept_directories import MESSAGES, fill
from restored import ARCHIVER
from stored import send
from waiting import wait_until

CONTINUOUS = {
    f"{ARCHIVER}ENABLED": "true",
    f"{ARCHIVER}CONTINUOUS": "true",
    f"{ARCHIVER}INTERVAL": "100ms",
}
FOLDER = "streams/0/topics/0/partitions/0"
YOUNG = "streams/1/topics/0/partitions/0"


@pytest.fixture(scope="package")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `kept_directories.fill` makes, archived; for tests to copy. Also of a deleted topic."""
    folder = tmp_path_factory.mktemp("archived")
    archive = folder / "archive"
    broker = BrokerProcess(folder, settings={**CONTINUOUS, f"{ARCHIVER}DISK_PATH": str(archive)})
    store = FolderStore(archive)
    try:
        broker.start()
        fill(broker, VERSION)
        with broker.client() as client:
            client.create_topic("stream-1", "young", 1)
            send(client, "stream-1", "young", b"youth")
            wait_until(lambda: is_archived(store, MESSAGES, FOLDER), "messages")
            wait_until(lambda: is_archived(store, 1, YOUNG), "the young topic")
            wait_until(lambda: has_offsets(store), "offsets")
            client.delete_topic("stream-1", "young")
        wait_until(lambda: not has_topics(store, "stream-1"), "metadata")
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()
    return archive


def has_topics(store: FolderStore, stream: str) -> bool:
    state = read_metadata(store)
    return state is not None and bool(state.stream(stream).topics)


def has_offsets(store: FolderStore) -> bool:
    key = offsets_key(FOLDER)
    try:
        found = StoredOffsets.decode(store.read(key, 1 << 20, 0), key)
    except FileNotFoundError:
        return False
    return bool(found.consumers and found.groups)


@pytest.fixture
def archive(kept: Path, tmp_path: Path) -> Path:
    """A copy for one test."""
    return shutil.copytree(kept, tmp_path / "archive")


@pytest.fixture
def broker(tmp_path: Path, archive: Path) -> Iterator[BrokerProcess]:
    """One whose data directory is lost."""
    settings = {**CONTINUOUS, f"{ARCHIVER}DISK_PATH": str(archive)}
    broker = BrokerProcess(tmp_path / "one", settings=settings)
    broker.folder.mkdir()
    try:
        yield broker
    finally:
        broker.end()
