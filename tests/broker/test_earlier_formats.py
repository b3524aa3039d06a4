"""Data directories of earlier brokers open, lose nothing, and are of the present format then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_process import running_broker
from iggy_broker.metadata.snapshot import VERSION
from iggy_broker.storage.format_version import PLAIN_FORMAT
from kept_directories import MESSAGES, check, kept, payload, unpack, version_of
from stored import read_all, send


def test_one_of_each_format_is_kept() -> None:
    found = sorted({version_of(archive) for archive in kept()})
    assert found == list(range(1, VERSION + 1)), (
        "keep one before the format is raised: tests/support/kept_directories.py"
    )
    assert PLAIN_FORMAT == 1, "keep data directories of the earlier one, too"


@pytest.mark.parametrize("archive", kept(), ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_it_opens_and_goes_on(archive: Path, tmp_path: Path) -> None:
    version = version_of(archive)
    unpack(archive, tmp_path)
    for life in range(3):
        with running_broker(tmp_path) as broker:
            check(broker, version, appended=life)
            with broker.client() as client:
                send(client, "orders", "new", f"more {life}".encode())
            told = [one["event"] for one in broker.records() if one["level"] == "error"]
            assert told == []
            if life == 1:
                broker.kill()
    head = (tmp_path / "data" / "metadata" / "journal.wal").read_bytes()[:12]
    assert head[8] == VERSION


@pytest.mark.parametrize("archive", kept(), ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_every_batch_of_it_is_sound(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    settings = {"IGGY_SYSTEM_SEGMENT_VALIDATE_CHECKSUM": "true"}
    with running_broker(tmp_path, settings=settings) as broker:
        check(broker, version_of(archive))
        assert "segment_damaged" not in {one["event"] for one in broker.records()}


@pytest.mark.parametrize("archive", kept(), ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_its_metadata_are_made_anew_if_they_are_lost(archive: Path, tmp_path: Path) -> None:
    data = unpack(archive, tmp_path)
    shutil.rmtree(data / "metadata")
    settings = {"IGGY_SYSTEM_RECOVERY_RECREATE_MISSING_STATE": "true"}
    with running_broker(tmp_path, settings=settings) as broker, broker.client() as client:
        told = {one["event"] for one in broker.records()}
        assert "metadata_recreated" in told
        stream = client.get_streams()[0].name
        topics = client.get_topics(stream)
        assert read_all(client, stream, topics[0].name) == [*map(payload, range(MESSAGES))]
        assert read_all(client, stream, topics[1].name) == [b"after"]
