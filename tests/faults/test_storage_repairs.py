"""Files that are torn, gone or foreign at a start: what is whole is served, the rest is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from iggy_client.errors import ClientError
from iggy_wire.errors import ErrorCode
from stored import logs, partition_folder, read_all, send, warnings

BATCHES = 100
PER_BATCH = 10
BATCH_BYTES = 256 + PER_BATCH * (48 + len("000/0"))


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


def payloads(number: int) -> list[bytes]:
    return [f"{number:03d}/{place}".encode() for place in range(PER_BATCH)]


def cut(size_bytes: int) -> Callable[[Path], None]:
    def damage(log: Path) -> None:
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - size_bytes)

    return damage


def zeros(log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(-4096, 2)
        file.write(bytes(4096))


@pytest.mark.parametrize(
    "damage",
    [cut(37), cut(BATCH_BYTES - 100), zeros],
    ids=["in a message", "in a header", "zeros"],
)
def test_a_torn_tail_is_cut_kept_aside_and_named(
    broker: BrokerProcess, damage: Callable[[Path], None]
) -> None:
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1)
        for number in range(BATCHES):
            send(client, "s", "t", *payloads(number))
    broker.kill()
    folder = partition_folder(broker)
    log = logs(folder)[-1]
    assert log.stat().st_size == BATCHES * BATCH_BYTES
    damage(log)
    damaged_bytes = log.stat().st_size

    broker.start()

    with broker.client() as client:
        found = read_all(client, "s", "t")
        whole = len(found) // PER_BATCH
        assert BATCHES - 10 <= whole < BATCHES
        assert found == [payload for number in range(whole) for payload in payloads(number)]
        assert send(client, "s", "t", b"next") == len(found)
        assert read_all(client, "s", "t") == [*found, b"next"]
    (said,) = [text for text in warnings(broker) if "tail cut" in text]
    kept = [path for path in folder.glob("cut/*/*") if path.is_file()]
    cut_bytes = sum(path.stat().st_size for path in kept)
    assert cut_bytes == damaged_bytes - whole * BATCH_BYTES
    assert "partitions/0" in said
    assert f"at offset {len(found)}," in said
    assert f"truncated {cut_bytes} bytes" in said
    assert str(kept[0].relative_to(folder)) in said


def test_no_offset_is_ever_given_to_two_payloads(tmp_path: Path) -> None:
    settings = {"IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1000"}
    broker = BrokerProcess(tmp_path, settings=settings)
    seen: dict[int, bytes] = {}
    try:
        broker.start()
        with broker.client() as client:
            client.create_stream("s")
            client.create_topic("s", "t", 1)
        for life in range(3):
            with broker.client() as client:
                for number in range(10 if life == 0 else 1):
                    payload = f"{life}/{number}".encode()
                    offset = send(client, "s", "t", payload)
                    assert offset not in seen
                    seen[offset] = payload
                broker.kill()
            broker.start()
        with broker.client() as client:
            assert dict(enumerate(read_all(client, "s", "t"))) == seen
        assert sorted(seen) == list(range(12))
        assert broker.stop() == 0
    finally:
        broker.end()


def test_holes_among_the_ids_are_no_trouble_at_a_start(broker: BrokerProcess) -> None:
    with broker.client() as client:
        for stream in "abc":
            client.create_stream(stream)
            for topic in "xyz":
                client.create_topic(stream, topic, 1)
                client.create_group(stream, topic, "x")
                client.create_group(stream, topic, "y")
                client.create_group(stream, topic, "z")
                client.delete_group(stream, topic, "y")
                send(client, stream, topic, f"{stream}/{topic}".encode())
            client.delete_topic(stream, "y")
        client.delete_stream("b")
        ids = {stream.name: stream.id for stream in client.get_streams()}
    for restart in range(2):
        assert broker.stop() == 0
        broker.start()
        with broker.client() as client:
            assert {stream.name: stream.id for stream in client.get_streams()} == ids
            assert client.get_stream(1) is None or restart
            for stream in ids:
                for topic in client.get_topics(stream):
                    groups = client.get_groups(stream, topic.name)
                    assert [(group.id, group.name) for group in groups] == [(0, "x"), (2, "z")]
                    found = read_all(client, stream, topic.name)
                    assert found == [f"{stream}/{topic.name}".encode()]
            if restart == 0:
                ids["d"] = client.create_stream("d").id
                client.create_topic("d", "x", 1)
                client.create_group("d", "x", "x")
                groups = client.create_group("d", "x", "y"), client.create_group("d", "x", "z")
                client.delete_group("d", "x", "y")
                assert send(client, "d", "x", b"d/x") == 0
                assert groups[1].group.id == 2


def test_foreign_files_among_offsets_are_named_and_left_alone(broker: BrokerProcess) -> None:
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1)
        send(client, "s", "t", *payloads(0))
        for consumer in (1, 2, 3):
            client.store_offset(consumer, "s", "t", 0, consumer)
    assert broker.stop() == 0
    folder = partition_folder(broker) / "offsets" / "consumers"
    odd = [folder / name for name in (".DS_Store", "12.bak", "tmp", "7", "8", "2")]
    for file in odd[:3]:
        file.write_bytes(b"\x07" * 16)
    odd[3].mkdir()
    odd[4].touch()
    odd[5].write_bytes(odd[5].read_bytes()[:5])
    known = len(warnings(broker))

    broker.start()

    with broker.client() as client:
        stored = {n: client.get_offset(n, "s", "t", 0) for n in (1, 2, 3, 7, 8, 12)}
        assert {n: one.stored_offset for n, one in stored.items() if one} == {1: 1, 3: 3}
        said = warnings(broker)[known:]
        for path in odd:
            assert len([text for text in said if str(path) in text]) == 1, path
            assert path.exists()
        client.store_offset(2, "s", "t", 0, 9)
        assert client.poll("s", "t", 0, consumer=2, count=1).count == 0


def test_folders_removed_by_hand_are_named_and_the_rest_is_served(broker: BrokerProcess) -> None:
    with broker.client() as client:
        client.create_stream("s")
        for topic in ("gone", "half"):
            client.create_topic("s", topic, 2)
            for partition in range(2):
                send(client, "s", topic, b"m", b"n", partition=partition)
    assert broker.stop() == 0
    removed = [partition_folder(broker, topic=0, partition=n) for n in (0, 1)]
    removed.append(partition_folder(broker, topic=1, partition=0))
    shutil.rmtree(broker.data / "streams/0/topics/0")
    shutil.rmtree(removed[2])

    broker.start()

    said = warnings(broker)
    for folder in removed:
        (line,) = [text for text in said if str(folder) in text]
        assert "the folder is missing" in line
    with broker.client() as client:
        assert read_all(client, "s", "half", 1) == [b"m", b"n"]
        assert send(client, "s", "half", b"o", partition=1) == 2
        for topic, partition in (("gone", 0), ("gone", 1), ("half", 0)):
            assert read_all(client, "s", topic, partition) == []
            assert send(client, "s", topic, b"again", partition=partition) == 0
            assert read_all(client, "s", topic, partition) == [b"again"]
        with pytest.raises(ClientError) as refusal:
            client.store_offset("c", "s", "gone", 0, 1)
        assert refusal.value.code == ErrorCode.INVALID_OFFSET
