"""The archive for finding faults: what is in it, how it is packed, and what is not in it."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Iterator

import pytest

from access_cases import code_of
from broker_process import PASSWORD, BrokerProcess
from iggy_client import Client
from iggy_wire.errors import ErrorCode

NAMES = {
    1: "filesystem_overview.txt",
    2: "process_list.txt",
    3: "resource_usage.txt",
    4: "test.txt",
    5: "server_logs.txt",
    6: "server_config.txt",
}


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


def unpacked(archive: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        assert file.testzip() is None
        return {name: file.read(name).decode() for name in file.namelist()}


@pytest.mark.parametrize("compression", range(1, 7))
def test_every_compression_can_be_unpacked(root: Client, compression: int) -> None:
    files = unpacked(root.get_snapshot([4], compression))

    assert list(files) == ["test.txt"]
    assert "test" in files["test.txt"]


def test_all_types_are_there_and_no_secret(broker: BrokerProcess, root: Client) -> None:
    token = root.create_access_token("of the snapshot")
    files = unpacked(root.get_snapshot())
    root.delete_access_token("of the snapshot")

    assert set(files) == set(NAMES.values())
    assert "journal.wal" in files[NAMES[1]]
    assert f"{broker.pid} " in files[NAMES[2]]
    assert "load:" in files[NAMES[3]]
    assert "[heartbeat]" in files[NAMES[6]]
    everything = "".join(files.values())
    assert PASSWORD not in everything
    assert token not in everything


@pytest.mark.parametrize("types", [[1, 3], [6, 6]], ids=str)
def test_some_types_are_asked_for(root: Client, types: list[int]) -> None:
    assert list(unpacked(root.get_snapshot(types))) == [NAMES[one] for one in dict.fromkeys(types)]


@pytest.mark.parametrize(
    ("types", "compression"), [([], 2), ([7], 2), ([100, 4], 2), ([0], 2), ([4], 0), ([4], 7)]
)
def test_what_cannot_be_asked_for(root: Client, types: list[int], compression: int) -> None:
    refused = code_of(lambda: root.get_snapshot(types, compression))

    assert refused == ErrorCode.INVALID_COMMAND
    root.ping()


def test_one_at_a_time(broker: BrokerProcess) -> None:
    """Whoever comes while another is made is refused, on any shard; nobody is left out for ever."""
    outcomes: list[ErrorCode | None] = []

    def ask() -> None:
        with broker.client() as client:
            for _ in range(5):
                outcomes.append(code_of(client.get_snapshot))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(outcomes) == 20
    assert set(outcomes) <= {None, ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED}
    assert None in outcomes
    with broker.client() as client:
        assert code_of(client.get_snapshot) is None
