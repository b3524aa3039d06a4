"""Bits that rot under a running broker, or while it is stopped: found, told, and not served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from scraped import Scrape, scrape_until
from stored import logs, partition_folder, read_all, send

SCRUB = {
    "IGGY_DATA_MAINTENANCE_SCRUB_INTERVAL": "100 ms",
    "IGGY_DATA_MAINTENANCE_SCRUB_RATE": "100 MiB",
}
MESSAGES = 60  # of 100 KB: six segments of 1 MiB
PER_SEGMENT = 11
FIRST_DAMAGED = PER_SEGMENT + 4  # in the second segment


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, monitoring=True, settings=dict(SCRUB))
    try:
        yield broker
        assert broker.stop() == 0, broker.text()
        assert "Traceback" not in broker.text()
    finally:
        broker.end()


def payload(number: int) -> bytes:
    return f"{number:06d}".encode() * 16_500


def fill(broker: BrokerProcess) -> None:
    with broker.client() as client:
        client.create_stream("s")
        client.create_topic("s", "t", 1, options={"segment_size": 1 << 20})
        for number in range(MESSAGES):
            assert send(client, "s", "t", payload(number)) == number


def rot(broker: BrokerProcess) -> None:
    """One bit of the payload of one message."""
    log = logs(partition_folder(broker))[1]
    with log.open("r+b") as file:
        size = log.stat().st_size // PER_SEGMENT
        file.seek((FIRST_DAMAGED - PER_SEGMENT) * size + 5000)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def check_what_is_told_and_served(broker: BrokerProcess) -> None:
    found = scrape_until(broker, lambda one: one.sum("iggy_damaged_segments") == 1, "found")
    assert found.value("iggy_checksum_errors_total", source="disk") == 1
    where = {"stream": "s", "topic": "t", "partition": 0}
    assert found.value("iggy_partition_damaged_offset", **where) == FIRST_DAMAGED
    (told,) = [one for one in broker.records() if one["event"] == "segment_damaged"]
    folder = str(partition_folder(broker))
    assert (told["folder"], told["offset"]) == (folder, FIRST_DAMAGED)
    assert told["next_offset"] == 2 * PER_SEGMENT
    with broker.client() as client:
        before = read_all(client, "s", "t")
        behind = read_all(client, "s", "t", first=2 * PER_SEGMENT)
    assert before == [payload(number) for number in range(FIRST_DAMAGED)]
    assert behind == [payload(number) for number in range(2 * PER_SEGMENT, MESSAGES)]


def test_the_background_check_finds_rot_of_what_was_read_before(broker: BrokerProcess) -> None:
    broker.start()
    fill(broker)
    scrape_until(broker, lambda one: one.sum("iggy_scrub_passes_total") >= 2, "a pass")
    with broker.client() as client:
        assert len(read_all(client, "s", "t")) == MESSAGES
    rot(broker)
    check_what_is_told_and_served(broker)
    passes = Scrape(broker).sum("iggy_scrub_passes_total")
    scrape_until(broker, lambda one: one.sum("iggy_scrub_passes_total") > passes + 3, "again")
    check_what_is_told_and_served(broker)  # told once


def test_a_purge_ends_it(broker: BrokerProcess) -> None:
    broker.start()
    fill(broker)
    rot(broker)
    scrape_until(broker, lambda one: one.sum("iggy_damaged_segments") == 1, "found")
    with broker.client() as client:
        client.purge_topic("s", "t")
        assert send(client, "s", "t", b"new") == 0
    found = scrape_until(broker, lambda one: one.sum("iggy_damaged_segments") == 0, "gone")
    assert found.series("iggy_partition_damaged_offset") == {}


def test_a_start_finds_rot_before_it_serves(broker: BrokerProcess) -> None:
    broker.start()
    fill(broker)
    assert broker.stop() == 0
    rot(broker)
    broker.settings = {
        "IGGY_SYSTEM_SEGMENT_VALIDATE_CHECKSUM": "true",
        "IGGY_DATA_MAINTENANCE_SCRUB_ENABLED": "false",
    }
    broker.start()
    check_what_is_told_and_served(broker)
