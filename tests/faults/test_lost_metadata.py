"""A broker whose metadata are gone or rotten: it says so, or makes them anew from what is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess, wait_for_exit
from iggy_wire.primitives import Consumer
from stored import read_all, send

RECREATE = {"IGGY_SYSTEM_RECOVERY_RECREATE_MISSING_STATE": "true"}
READER = Consumer.plain(7)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
        assert "Traceback" not in broker.text()
    finally:
        broker.end()


def fill(broker: BrokerProcess) -> None:
    with broker.client() as client:
        for stream in ("orders", "events"):
            client.create_stream(stream)
            for topic in ("a", "b"):
                client.create_topic(stream, topic, 3, {"segment_size": 1 << 20})
                for partition in range(3):
                    words = [f"{stream}/{topic}/{partition}/{n}".encode() for n in range(5)]
                    assert send(client, stream, topic, *words, partition=partition) == 0
        client.create_group("orders", "a", "billing")
        client.store_offset(READER, "orders", "a", 1, 2)
        client.delete_topic("events", "b")


def check(broker: BrokerProcess, *, names: Callable[[str, str], tuple[str, str]]) -> None:
    with broker.client() as client:
        for stream, topic in (("orders", "a"), ("orders", "b"), ("events", "a")):
            shown = names(stream, topic)
            for partition in range(3):
                words = [f"{stream}/{topic}/{partition}/{n}".encode() for n in range(5)]
                assert read_all(client, *shown, partition) == words
                assert send(client, *shown, b"next", partition=partition) == 5
        assert len(client.get_topics(names("events", "a")[0])) == 1
        stored = client.get_offset(READER, *names("orders", "a"), 1)
        assert stored is not None
        assert stored.stored_offset == 2


def as_made(stream: str, topic: str) -> tuple[str, str]:
    return stream, topic


def by_number(stream: str, topic: str) -> tuple[str, str]:
    return f"stream-{('orders', 'events').index(stream)}", f"topic-{('a', 'b').index(topic)}"


def rot(folder: Path) -> None:
    for path in (folder / "metadata").iterdir():
        data = bytearray(path.read_bytes())
        data[2] ^= 1
        path.write_bytes(data)


def lose(folder: Path) -> None:
    shutil.rmtree(folder / "metadata")


@pytest.mark.parametrize("damage", [rot, lose])
def test_names_options_groups_and_messages_come_back(
    broker: BrokerProcess, damage: Callable[[Path], None]
) -> None:
    fill(broker)
    assert broker.stop() == 0
    damage(broker.data)
    broker.settings |= RECREATE

    broker.start()

    check(broker, names=as_made)
    with broker.client() as client:
        assert [group.name for group in client.get_groups("orders", "a")] == ["billing"]
    told = [record["event"] for record in broker.records()]
    assert "metadata_recreated" in told
    broker.kill()
    broker.settings = {}
    broker.start()
    with broker.client() as client:
        assert len(read_all(client, "orders", "a", 2)) == 6


def test_a_killed_broker_with_neither_metadata_nor_names(broker: BrokerProcess) -> None:
    fill(broker)
    broker.kill()
    lose(broker.data)
    (broker.data / "streams" / "info").unlink(missing_ok=True)
    broker.settings |= RECREATE
    broker.start()
    check(broker, names=by_number)


def test_without_the_setting_damaged_metadata_stop_the_start_and_are_left_alone(
    broker: BrokerProcess,
) -> None:
    fill(broker)
    assert broker.stop() == 0
    rot(broker.data)
    assert wait_for_exit(broker.launch()) == 1
    assert "metadata" in str(broker.records()[-1]["message"])
    assert not list(broker.data.glob("metadata.*"))
    rot(broker.data)  # back
    broker.start()
    check(broker, names=as_made)


def test_without_the_setting_unknown_folders_are_told_and_left_alone(
    broker: BrokerProcess,
) -> None:
    fill(broker)
    assert broker.stop() == 0
    lose(broker.data)
    broker.start()
    told = [one for one in broker.records() if one["event"] == "folder_unknown"]
    assert len(told) == 9
    logs = list(broker.data.glob("streams/*/topics/*/partitions/*/*.log"))
    assert len(logs) == 9
