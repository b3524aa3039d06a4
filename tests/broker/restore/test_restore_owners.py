"""A broker is stopped in the middle of its work, another one takes its archive over, and then it
goes on: what is read from the archive is the new one's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archived_rows import rows_of
from broker_process import BrokerProcess
from iggy_broker.archive.fences import read_fences
from iggy_broker.archive.folder import FolderStore
from iggy_broker.restore.survey import survey
from kept_directories import MESSAGES
from restored import restore
from stored import read_all, send
from waiting import wait_until

WITHIN_S = 60.0
FOLDER = "streams/0/topics/0/partitions/0"
MORE = 40
STREAM, TOPIC = "orders", "new"


@contextmanager
def stopped(broker: BrokerProcess) -> Iterator[None]:
    """All its processes, for the length of a block; who looks after the others wakes up last."""
    processes = [broker.pid, *broker.shard_pids()]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            os.kill(process, signal.SIGCONT)


def reached(archive: Path) -> int:
    """Up to which offset the archive has the partition."""
    store = FolderStore(archive)
    held = survey(store, is_all=True, fences=read_fences(store))
    return next((one.next_offset for one in held if one.folder == FOLDER), 0)


def give(broker: BrokerProcess, what: str, count: int = MORE) -> None:
    with broker.client() as client:
        for number in range(count):
            send(client, STREAM, TOPIC, f"{what} {number}".encode() * 50)


def found_by(broker: BrokerProcess) -> list[bytes]:
    with broker.client() as client:
        return read_all(client, STREAM, TOPIC)


def test_a_broker_that_was_stopped_while_its_archive_was_taken_over_changes_nothing(
    broker: BrokerProcess, archive: Path, tmp_path: Path
) -> None:
    restore(broker)
    broker.start()
    others = [BrokerProcess(tmp_path / name, settings=broker.settings) for name in ("two", "three")]
    new, heir = others
    try:
        give(broker, "before")
        wait_until(lambda: reached(archive) > MESSAGES, "copied", WITHIN_S)
        give(broker, "before, and perhaps not copied")
        with stopped(broker):
            new.folder.mkdir()
            restore(new, "--take-over")
            new.start()
            give(new, "of the new one")
            expected = found_by(new)
            wait_until(lambda: reached(archive) == len(expected), "copied", WITHIN_S)
        give(broker, "of the former one", 2 * MORE)
        wait_until(
            lambda: any(one["event"] == "archive_taken" for one in broker.records()),
            "the former one to notice",
            WITHIN_S,
        )
        assert len(found_by(broker)) > len(expected)
        assert found_by(new) == expected
        given = {"stream": STREAM, "topic": TOPIC, "archivePath": str(archive)}
        rows = rows_of({**given, "archiveMode": "only"})
        assert [data for partition, _, data in rows if partition == 0] == expected
        assert new.stop() == 0, new.text()
        heir.folder.mkdir()
        restore(heir)
        assert found_by(heir.start()) == expected
    finally:
        for one in others:
            one.end()
