"""Whole data directories that brokers of this and of earlier formats have written.

Each archive in `kept_directories/` is named by the version of the metadata's format and by how the
broker ended. To keep one of the present format, before a change raises it:

    .venv/bin/python tests/support/kept_directories.py

For one of an older broker, put its `wire` and `broker` folders into BROKER_PATH, as a PYTHONPATH.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from broker_process import BrokerProcess
from iggy_broker.metadata.snapshot import VERSION
from iggy_client.client import Client
from iggy_wire.primitives import Consumer
from stored import read_all, send

FOLDER = Path(__file__).with_suffix("")
ENDS = ("stopped", "killed")
READER = Consumer.plain(7)
GROUP = Consumer.group("billing")
USER, USER_PASSWORD = "ann", "secret of ann"
MESSAGES = 60  # of 60 KB: four segments
SETTINGS = {"IGGY_METADATA_JOURNAL_SLOTS": "16"}  # a snapshot and a journal


def payload(number: int) -> bytes:
    return f"{number:06d}".encode() * 10_000


def fill(broker: BrokerProcess, version: int) -> None:
    """What is in each of them; users and members of groups came with version 2."""
    with broker.client() as client:
        for number in range(6):
            client.create_stream(f"stream-{number}")
        client.delete_stream("stream-4")
        client.update_stream("stream-0", "orders")
        client.create_topic("orders", "t", 2, {"segment_size": 1 << 20, "durability": "persisted"})
        client.update_topic("orders", "t", "new")
        client.create_topic("orders", "purged", 1)
        client.create_topic("orders", "deleted", 1)
        client.create_group("orders", "new", "billing")
        for number in range(MESSAGES):
            assert send(client, "orders", "new", payload(number)) == number
        client.store_offset(READER, "orders", "new", 0, 40)
        for topic in ("purged", "deleted"):
            send(client, "orders", topic, b"before")
        client.purge_topic("orders", "purged")
        send(client, "orders", "purged", b"after")
        client.delete_topic("orders", "deleted")
        client.create_partitions("orders", "purged", 2)
        if version > 1:
            client.join_group("orders", "new", "billing")
            client.store_offset(GROUP, "orders", "new", 0, 30)
            client.create_user(USER, USER_PASSWORD)


def check(broker: BrokerProcess, version: int, *, appended: int = 0) -> None:
    """All of it is there; `appended` messages came since."""
    more = [f"more {number}".encode() for number in range(appended)]
    with broker.client() as client:
        names = [stream.name for stream in client.get_streams()]
        assert names == ["orders", "stream-1", "stream-2", "stream-3", "stream-5"]
        topics = {topic.name: topic for topic in client.get_topics("orders")}
        assert sorted(topics) == ["new", "purged"]
        assert [topics["new"].partitions_count, topics["purged"].partitions_count] == [2, 3]
        found = read_all(client, "orders", "new")
        assert found == [*map(payload, range(MESSAGES)), *more]
        assert read_all(client, "orders", "purged") == [b"after"]
        for consumer, offset in ((READER, 40), (GROUP, 30))[:version]:
            stored = client.get_offset(consumer, "orders", "new", 0)
            assert stored is not None
            assert stored.stored_offset == offset
        assert [group.name for group in client.get_groups("orders", "new")] == ["billing"]
        users = [user.name for user in client.get_users()]
        assert users == (["iggy", USER] if version > 1 else ["iggy"])
    if version > 1:
        Client.connect(broker.address, USER, USER_PASSWORD).close()


def kept() -> list[Path]:
    """The archives, the oldest format first."""
    return sorted(FOLDER.glob("*.tar.gz"))


def version_of(archive: Path) -> int:
    return int(archive.name.split("-")[1])


def unpack(archive: Path, folder: Path) -> Path:
    """The data directory below `folder`."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "data"


def keep(version: int, path: str | None) -> None:
    """Let a broker, with its code from `path`, write a directory for each end, and pack it."""
    settings = SETTINGS | ({"PYTHONPATH": path} if path else {})
    for end in ENDS:
        folder = Path(tempfile.mkdtemp())
        broker = BrokerProcess(folder, settings=settings).start()
        try:
            fill(broker, version)
            if end == "stopped":
                assert broker.stop() == 0, broker.text()
        finally:
            broker.end()
        for name in ("lock", "runtime"):
            path_of = folder / "data" / name
            shutil.rmtree(path_of) if path_of.is_dir() else path_of.unlink(missing_ok=True)
        with tarfile.open(FOLDER / f"metadata-{version}-{end}.tar.gz", "w:gz") as packed:
            packed.add(folder / "data", "data", filter=_nobody)
        shutil.rmtree(folder)


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    keep(int(os.environ.get("BROKER_FORMAT", VERSION)), os.environ.get("BROKER_PATH"))
