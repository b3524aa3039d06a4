"""Every decision of recovery is one line of the log that says what was done, and is counted."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

from broker_process import BrokerProcess
from group_cases import GROUP
from iggy_broker.storage.disk import RealDisk
from iggy_broker.storage.records import Life, read_life
from iggy_client import Client
from iggy_wire.batch import Message
from iggy_wire.primitives import Consumer, Partitioning
from scraped import Scrape, scrape_until

STREAM = "s"
MEBIBYTE = 1 << 20
# What is done to which partition of topic 0 between two starts.
TORN, BEHIND, INDEX, SEALED, HOLE, FOREIGN, GONE, STRANGER, PURGED, NAMELESS, STOPPED, OFFSETS = (
    range(12)
)
ROT = 12
PARTITIONS = 13
OPEN = (TORN, INDEX, SEALED, HOLE, OFFSETS, ROT)  # used once more after the clean stop
RECOVERY = {
    "tail_cut", "segment_set_aside", "index_rebuilt", "damaged", "fenced", "foreign_file",
    "folder_missing", "folder_set_aside", "purge_finished", "life_noted", "marker_disbelieved",
}  # fmt: skip


def folder(broker: BrokerProcess, partition: int, *, topic: int = 0) -> Path:
    return broker.data / f"streams/0/topics/{topic}/partitions/{partition}"


def logs_of(place: Path) -> list[Path]:
    return sorted(place.glob("*.log"))


def fill(client: Client, partition: int, batches: int) -> None:
    """Each batch is larger than half a segment: two of them seal one."""
    for _ in range(batches):
        target = Partitioning.partition(partition)
        client.send(STREAM, "t", target, [Message(bytes(60_000))] * 10)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def two_lives(broker: BrokerProcess) -> None:
    """A clean stop, so that all was synced and noted; then more, and a kill."""
    with broker.start().client() as client:
        client.create_stream(STREAM)
        client.create_topic(STREAM, "t", PARTITIONS, {"segment_size": MEBIBYTE})
        client.create_topic(STREAM, "other", 1)
        client.create_group(STREAM, "t", "g")
        client.join_group(STREAM, "t", "g")
        for partition in range(PARTITIONS):
            fill(client, partition, 5)
        client.store_offset(GROUP, STREAM, "t", HOLE, 0)
        client.store_offset(Consumer.plain(5), STREAM, "t", OFFSETS, 1)
        client.store_offset(Consumer.plain(6), STREAM, "t", OFFSETS, 1)
    assert broker.stop() == 0
    with broker.start().client() as client:
        for partition in OPEN:
            client.send(STREAM, "t", Partitioning.partition(partition), [Message(b"more")])
    broker.kill()


def damage(broker: BrokerProcess) -> None:
    places = [folder(broker, partition) for partition in range(PARTITIONS)]
    last = logs_of(places[TORN])[-1]
    last.write_bytes(last.read_bytes()[:-5])
    (places[BEHIND] / "clean").unlink()
    (places[BEHIND] / "synced").unlink()
    flip(logs_of(places[BEHIND])[0], 300)
    index = sorted(places[INDEX].glob("*.index"))[-1]
    index.write_bytes(b"\xff" * 48)
    first = logs_of(places[SEALED])[0]
    flip(first, first.stat().st_size // 2 + 32)  # the length of its second batch
    hole = logs_of(places[HOLE])[1]
    hole.unlink()
    hole.with_suffix(".index").unlink()
    (places[FOREIGN] / "notes.txt").write_text("mine")
    shutil.rmtree(places[GONE])
    shutil.copy(folder(broker, 0, topic=1) / "life", places[STRANGER] / "life")
    life = read_life(RealDisk(), str(places[PURGED]))
    assert life is not None
    (places[PURGED] / "life").write_bytes(Life(life.incarnation, 1, purging=True).encode())
    (places[NAMELESS] / "life").unlink()
    last = logs_of(places[STOPPED])[-1]
    last.write_bytes(last.read_bytes()[:-5])
    offsets = places[OFFSETS] / "offsets"
    (offsets / "consumers" / "readme").write_text("mine")
    (offsets / "consumers" / "5").write_bytes(b"\xff" * 16)
    (offsets / "consumers" / "6").write_bytes((10**9).to_bytes(8, "little"))
    (offsets / "groups").mkdir(exist_ok=True)
    (offsets / "groups" / "77").write_bytes(bytes(8))
    flip(logs_of(places[ROT])[0], 400)
    with (broker.data / "metadata" / "journal.wal").open("ab") as journal:
        journal.write(b"\x07" * 11)


def test_every_decision_is_logged_once_with_what_was_done(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, monitoring=True)
    try:
        two_lives(broker)
        damage(broker)
        broker.log.unlink()
        broker.start()
        check_log(broker)
        check_metrics(broker)
        check_rot(broker)
        assert broker.stop() == 0
    finally:
        broker.end()


def told(broker: BrokerProcess, event: str) -> list[dict[str, object]]:
    return [record for record in broker.records() if record["event"] == event]


def check_log(broker: BrokerProcess) -> None:
    assert all(json.loads(line) for line in broker.text().splitlines()), "JSON, all of it"
    places = [str(folder(broker, partition)) for partition in range(PARTITIONS)]
    seen = Counter((str(one["event"]), str(one.get("folder"))) for one in broker.records()
                   if one["event"] in RECOVERY)  # fmt: skip
    expected = {
        ("tail_cut", places[TORN]): 1,
        ("tail_cut", places[BEHIND]): 1,
        ("segment_set_aside", places[BEHIND]): 2,
        ("index_rebuilt", places[INDEX]): 1,
        ("damaged", places[SEALED]): 1,
        ("fenced", places[HOLE]): 1,
        ("foreign_file", places[FOREIGN]): 1,
        ("folder_missing", places[GONE]): 1,
        ("folder_set_aside", places[STRANGER]): 1,
        ("purge_finished", places[PURGED]): 1,
        ("life_noted", places[NAMELESS]): 1,
        ("marker_disbelieved", places[STOPPED]): 1,
    }
    assert {key: count for key, count in seen.items() if key in expected} == expected
    assert {event for event, _ in seen} == RECOVERY
    (cut,) = [one for one in told(broker, "tail_cut") if one["folder"] == places[TORN]]
    kept = Path(str(cut["kept_path"]))
    assert kept.stat().st_size == cut["kept_bytes"] == cut["cut_bytes"]
    assert cut["offset"] == 50
    for event in ("offset_file_foreign", "offset_file_damaged", "offset_drawn_back",
                  "group_offset_removed", "journal_cut"):  # fmt: skip
        assert len(told(broker, event)) == 1, event
    assert "11 bytes" in str(told(broker, "journal_cut")[0]["message"])
    by_shard = {one["shard"]: int(str(one["partitions"])) for one in told(broker, "recovered")}
    assert set(by_shard) == {0, 1}
    assert sum(by_shard.values()) == PARTITIONS + 1
    (start,) = told(broker, "starting")
    assert start["kernel"] in ("compiled", "python")
    assert start["shard"] is None


def check_metrics(broker: BrokerProcess) -> None:
    found = Scrape(broker)
    counted = Counter(str(one["event"]) for one in broker.records() if one["event"] in RECOVERY)
    for kind in RECOVERY:
        assert found.value("iggy_recovery_decisions", kind=kind) == counted[kind], kind
    cut = sum(int(str(one["cut_bytes"])) for one in broker.records() if "cut_bytes" in one
              and one["event"] in RECOVERY)  # fmt: skip
    assert found.sum("iggy_recovery_cut_bytes") == cut > 0
    assert found.sum("iggy_recovery_partitions") == PARTITIONS + 1
    assert found.value("iggy_partitions_fenced") == 1
    group = {"stream": STREAM, "topic": "t", "group": "g"}
    assert found.value("iggy_group_partition_lag_messages", **group, partition=HOLE) is None
    assert found.value("iggy_group_partition_lag_messages", **group, partition=GONE) == 0
    assert found.value("iggy_group_lag_messages", **group) is None, "a part of it is unknown"


def check_rot(broker: BrokerProcess) -> None:
    """Bytes that nobody looked at at start are found when they are read."""
    before = Scrape(broker).value("iggy_checksum_errors_total", source="disk")
    assert before is not None
    assert before >= 2, "a damaged batch and a damaged offset were met at start"
    with broker.client() as client:
        polled = client.poll(STREAM, "t", ROT, consumer="c", count=100)
        assert polled.count == 0
        assert client.poll(STREAM, "t", ROT, consumer="c", count=100).count == 0
    scrape_until(
        broker,
        lambda found: found.value("iggy_checksum_errors_total", source="disk") == before + 1,
        "it is counted once",
    )
    (found,) = told(broker, "damage_found")
    assert "00000000000000000000.log" in str(found["message"])
    assert found["level"] == "warning"
