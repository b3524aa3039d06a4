"""A data directory that cannot be used: one line that says what, where and the fix; no change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from broker_process import BrokerProcess, running_broker, wait_for_exit
from iggy_client.client import Client
from iggy_client.errors import ClientError
from iggy_wire.batch import Message, messages
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer, Partitioning, PollingStrategy
from small_disk import BrokerOnSmallDisk, SmallDisk, small_disk, wait_until

FIRST = Partitioning.partition(0)
NOBODY = 65534


def listing(root: Path) -> dict[str, tuple[int, int, int]]:
    """All files with mode, size and time of the last change."""
    found = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def refused(broker: BrokerProcess) -> str:
    """What a broker says that does not start."""
    before = len(broker.text())
    assert wait_for_exit(broker.launch()) in (1, 70)
    said = broker.text()[before:]
    assert "Traceback" not in said
    critical = [r for r in broker.records() if r["level"] == "critical"]
    assert len(said.splitlines()) == len([line for line in said.splitlines() if line[0] == "{"])
    return str(critical[0]["message"])


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that others may enter: pytest keeps its own to itself."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture
def stopped(public: Path) -> BrokerProcess:
    """A broker with data that was stopped."""
    with running_broker(public) as broker, broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 4)
        client.send("s", "t", FIRST, [Message(b"m")])
        client.store_offset("c", "s", "t", 0, 0)
    broker.log = public / "second.log"
    return broker


def as_nobody(broker: BrokerProcess) -> None:
    """Run it as somebody else, who may read the program but owns nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    broker.wrapper = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    program = [*broker.wrapper, sys.executable, "-m", "iggy_broker", "--version"]
    if subprocess.run(program, capture_output=True, check=False).returncode:
        pytest.skip("another user may not run the program here")


def chown(*paths: Path) -> None:
    for path in paths:
        os.chown(path, NOBODY, NOBODY)


def everything(broker: BrokerProcess) -> list[Path]:
    return [broker.data, *broker.data.rglob("*")]


@pytest.mark.parametrize(
    "what",
    ["", "metadata/journal.wal", "streams/0/topics/0/partitions/0/life"],
)
def test_files_of_another_user_are_named(stopped: BrokerProcess, what: str) -> None:
    as_nobody(stopped)
    if what:
        chown(*everything(stopped))
        os.chown(stopped.data / what, 0, 0)
    before = listing(stopped.data)

    said = refused(stopped)

    assert str(stopped.data / (what or "lock")) in said
    assert "Permission denied" in said
    assert f"let user {NOBODY} read and write there" in said
    assert "system.path" in said
    kept = {path: status[:2] for path, status in before.items() if not path.endswith("/lock")}
    after = listing(stopped.data)
    assert {path: after[path][:2] for path in kept} == kept


def test_a_parent_that_cannot_be_written_is_named(public: Path) -> None:
    broker = BrokerProcess(public)
    as_nobody(broker)

    said = refused(broker)

    assert f"{broker.data}: Permission denied: let user {NOBODY}" in said
    assert not broker.data.exists()


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.data.write_bytes(b"mine")

    said = refused(broker)

    assert f"{broker.data}: File exists: a folder must be there" in said
    assert broker.data.read_bytes() == b"mine"


def test_a_missing_parent_is_made(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.data = tmp_path / "a" / "b" / "data"
    broker.start()
    assert broker.stop() == 0
    assert (broker.data / "format_version").exists()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path) as mounted:
        yield mounted


def test_a_read_only_volume_is_named_and_left_alone(tmp_path: Path, disk: SmallDisk) -> None:
    broker = BrokerOnSmallDisk(tmp_path, disk)
    broker.start()
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 2)
        client.send("s", "t", FIRST, [Message(b"m")])
    assert broker.stop() == 0
    broker.log = tmp_path / "second.log"
    disk.forbid_writes("data")
    before = listing(broker.data)

    said = refused(broker)

    assert f"{disk.inside}/data/lock: Read-only file system: make it writable" in said
    assert listing(broker.data) == before
    disk.allow_writes("data")
    broker.start()
    assert broker.stop() == 0


def test_a_folder_that_turns_read_only_refuses_writes_until_it_is_writable(
    tmp_path: Path, disk: SmallDisk
) -> None:
    broker = BrokerOnSmallDisk(tmp_path, disk)
    broker.start()
    try:
        with broker.client() as client:
            client.create_stream("s")
            for topic in ("t", "purged", "deleted"):
                client.create_topic("s", topic, 1, {"segment_size": 1 << 20})
                assert client.send("s", topic, FIRST, [Message(b"first")]).base_offset == 0
            client.store_offset("old", "s", "t", 0, 0)
            for topic in ("t", "purged"):
                client.create_group("s", topic, "g")
                client.join_group("s", topic, "g")
                client.store_offset(Consumer.group("g"), "s", topic, 0, 0)
            disk.forbid_writes("data")

            acknowledged = send_until_refused(client, "t")
            client.create_topic("s", "new", 1)
            client.purge_topic("s", "purged")
            client.delete_topic("s", "deleted")
            for topic in ("t", "purged"):
                client.delete_group("s", topic, "g")
            for topic in ("new", "purged"):
                with pytest.raises(ClientError) as refusal:
                    client.send("s", topic, FIRST, [Message(b"m")])
                assert refusal.value.code == ErrorCode.CANNOT_OPEN_PARTITION_LOG_FILE
            with pytest.raises(ClientError) as refusal:
                client.store_offset("new", "s", "t", 0, 0)
            assert refusal.value.code == ErrorCode.CANNOT_OPEN_CONSUMER_OFFSETS_FILE
            assert sizes(client, "t") == [5, *[PAYLOAD_BYTES] * acknowledged]

            disk.allow_writes("data")

            wait_until(lambda: sends(client, "t"), say=broker.text)
            assert sizes(client, "t") == [5, *[PAYLOAD_BYTES] * acknowledged, 5]
            for topic in ("new", "purged"):
                assert sends(client, topic)
                assert sizes(client, topic) == [5]
            client.store_offset("new", "s", "t", 0, 1)
        broker.kill()
        broker.start()
        with broker.client() as client:
            assert sizes(client, "t") == [5, *[PAYLOAD_BYTES] * acknowledged, 5]
            assert sizes(client, "purged") == sizes(client, "new") == [5]
            client.create_topic("s", "deleted", 1)
            assert sizes(client, "deleted") == []
            stored = client.get_offset("new", "s", "t", 0)
            assert stored is not None and stored.stored_offset == 1
            for topic in ("t", "purged"):
                client.create_group("s", topic, "g")
                assert client.get_offset(Consumer.group("g"), "s", topic, 0) is None
        assert broker.stop() == 0
        assert "Traceback" not in broker.text()
    finally:
        broker.end()


PAYLOAD_BYTES = 100_000


def send_until_refused(client: Client, topic: str) -> int:
    """How many were acknowledged until the segment was full."""
    for sent in range(100):
        try:
            client.send("s", topic, FIRST, [Message(bytes(PAYLOAD_BYTES))])
        except ClientError as refusal:
            assert refusal.code == ErrorCode.CANNOT_APPEND_MESSAGE
            return sent
    raise AssertionError("new segments were made on a read-only volume")


def sends(client: Client, topic: str) -> bool:
    try:
        client.send("s", topic, FIRST, [Message(b"again")])
    except ClientError as refusal:
        assert refusal.code == ErrorCode.CANNOT_APPEND_MESSAGE
        return False
    return True


def sizes(client: Client, topic: str) -> list[int]:
    """Of all messages, by offset."""
    strategy = PollingStrategy.offset(0)
    polled = client.poll("s", topic, 0, strategy=strategy, count=1000)
    found = list(messages(polled.region))
    assert [message.offset for message in found] == list(range(len(found)))
    return [len(message.payload) for message in found]
