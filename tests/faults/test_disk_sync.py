"""A device that takes no more bytes under a file system that promised room: an fsync fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_process import wait_for_exit
from iggy_client.client import Client
from iggy_client.errors import LinkError
from small_disk import BrokerOnSmallDisk, SmallDisk, make_ext4, small_disk
from stored import read_all, send

EXIT_FAILED = 70
PAYLOAD = bytes(200_000)


def ext4_in(disk: SmallDisk) -> SmallDisk:
    """An ext4 that believes to have 1 GiB, in a sparse file on the small disk."""
    image = disk.outside / "image"
    with image.open("wb") as file:
        file.truncate(1 << 30)
    make_ext4(image)
    return disk.below("ext4")


def mount(disk: SmallDisk, inner: SmallDisk) -> None:
    disk.run("mount", "-t", "ext4", "-o", "loop", str(disk.inside / "image"), str(inner.inside))


def send_until_lost(client: Client) -> int:
    sent = 0
    try:
        while True:
            assert send(client, "s", "t", PAYLOAD) == sent
            sent += 1
    except LinkError:
        return sent


def test_a_failed_fsync_stops_the_broker_and_costs_nothing_acknowledged(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        inner = ext4_in(disk)
        try:
            mount(disk, inner)
        except OSError as error:
            pytest.skip(f"no loop device is permitted here: {error}")
        broker = BrokerOnSmallDisk(tmp_path, inner)
        broker.start()
        try:
            with broker.client() as client:
                client.create_stream("s")
                client.create_topic("s", "t", 1, {"durability": "persisted"})
                acknowledged = send_until_lost(client)
            assert acknowledged > 50
            assert broker.process is not None
            assert wait_for_exit(broker.process) == EXIT_FAILED
            critical = [str(r["message"]) for r in broker.records() if r["level"] == "critical"]
            assert any("sync failed" in text for text in critical)
            assert "Traceback" not in broker.text()

            disk.run("umount", str(inner.inside))
            disk.run("mount", "-o", "remount,size=256m", str(disk.inside))  # the device is well
            mount(disk, inner)
            broker.start()
            with broker.client() as client:
                found = read_all(client, "s", "t")
                assert len(found) >= acknowledged
                assert set(found) == {PAYLOAD}
            assert broker.stop() == 0
        finally:
            broker.end()
