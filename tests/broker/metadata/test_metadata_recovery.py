"""The first start makes root; later starts keep what is there."""

from __future__ import annotations

from pathlib import Path

from iggy_broker import config
from iggy_broker.clock import SystemClock
from iggy_broker.config_values import UNLIMITED
from iggy_broker.metadata import changes, credentials
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import AnyChange, Entry
from iggy_broker.metadata.model import Defaults
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


def test_topics_of_an_older_broker_get_the_defaults_of_the_first_start_and_keep_them(
    tmp_path: Path,
) -> None:
    opened = start(tmp_path)
    old: list[AnyChange] = [changes.CreateStream("s"), changes.CreateTopic("s", "old", 1)]
    state = opened.state
    for change in old:  # as an older broker wrote them: without frozen defaults
        entry = Entry(state.op + 1, 5, 0, change)
        state = apply(state, entry).state
        opened.journal.append_now(state, [entry])
    opened.journal.close()

    hour = start(tmp_path, IGGY_SYSTEM_SEGMENT_MESSAGE_EXPIRY="1 h")
    day = start(tmp_path, IGGY_SYSTEM_SEGMENT_MESSAGE_EXPIRY="1 day")

    assert day.state == hour.state
    assert hour.state.stream("s").topic("old").defaults == Defaults(3_600_000_000, UNLIMITED)
