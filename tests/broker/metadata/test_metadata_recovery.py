"""The first start makes root; later starts keep what is there."""

from __future__ import annotations

from pathlib import Path

from iggy_broker import config
from iggy_broker.clock import SystemClock
from iggy_broker.metadata import credentials
from iggy_broker.metadata.recovery import Opened, open_metadata
from metadata_cases import QuickDisk


def start(root: Path, **environ: str) -> Opened:
    loaded = config.load(None, {"IGGY_SYSTEM_PATH": str(root), **environ})
    return open_metadata(loaded.config, disk=QuickDisk(), clock=SystemClock(), warn=print)


def test_without_credentials_root_gets_a_password_that_is_told_once(tmp_path: Path) -> None:
    first = start(tmp_path)
    second = start(tmp_path)

    assert first.first_password is not None
    assert second.first_password is None
    root = second.state.find_user("iggy")
    assert root is not None
    assert root.id == 0
    assert credentials.verify(root.password_hash, first.first_password)
    assert first.first_password not in (tmp_path / "metadata" / "journal.wal").read_text("latin1")


def test_credentials_count_on_the_first_start_only(tmp_path: Path) -> None:
    first = start(tmp_path, IGGY_ROOT_USERNAME="boss", IGGY_ROOT_PASSWORD="secret")
    second = start(tmp_path, IGGY_ROOT_USERNAME="other", IGGY_ROOT_PASSWORD="changed")

    assert first.first_password is None
    assert second.state == first.state
    root = second.state.find_user("boss")
    assert root is not None
    assert credentials.verify(root.password_hash, "secret")
