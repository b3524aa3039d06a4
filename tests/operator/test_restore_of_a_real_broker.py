"""A real broker with the settings of its pod, its volume lost, and the command that is rendered."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from broker_process import BrokerProcess
from desired_cases import broker_of
from iggy_client.client import Client
from iggy_operator.cluster import Object
from iggy_operator.desired.archive import (
    ARCHIVE_FOLDER,
    RESTORE,
    SUMMARY,
    archiver_settings,
    restore_command,
)
from iggy_operator.kinds.restore_report import restored
from scraped import Scrape
from stored import read_all, send
from waiting import wait_until

SPEC = {
    "archiver": {"kind": "Disk", "interval": "100ms"},
    "restoreFrom": {},
}
SENT = [b"a", b"b", b"c"]


def pod_after(broker: BrokerProcess, folder: Path) -> Object:
    """What Kubernetes shows of the pod once the container that restores has run."""
    summary = folder / "summary"
    summary.write_text("")  # each container has a new one
    here = {ARCHIVE_FOLDER: str(folder / "archive"), SUMMARY: str(summary)}
    program, *arguments = restore_command(broker_of(**SPEC))
    assert program == "iggy-broker"
    done = subprocess.run(
        [sys.executable, "-m", "iggy_broker", *(here.get(text, text) for text in arguments)],
        env=os.environ | broker.environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    ended = {"exitCode": 0, "finishedAt": "2027-01-15T08:00:00Z", "message": summary.read_text()}
    rows = [{"name": RESTORE, "state": {"terminated": ended}}]
    return {"status": {"initContainerStatuses": rows}}


def test_a_lost_volume_comes_back_by_the_command_of_the_pod(tmp_path: Path) -> None:
    settings = archiver_settings(broker_of(**SPEC), folder=str(tmp_path / "archive"))
    broker = BrokerProcess(tmp_path, shards=1, settings=settings, monitoring=True)
    assert restored(pod_after(broker, tmp_path)) is None, "a new broker has nothing to bring back"
    try:
        broker.start()
        with broker.client() as client:
            fill(client)
        wait_until(lambda: is_archived(broker), "everything is copied")
        broker.kill()
        shutil.rmtree(broker.data)

        back = restored(pod_after(broker, tmp_path))
        assert restored(pod_after(broker, tmp_path)) is None, "a volume with data is left alone"
        broker.start()
        with broker.client() as client:
            assert read_all(client, "s", "t") == SENT
    finally:
        broker.end()

    assert back is not None
    assert back.message.startswith("1 streams, 1 topics, 1 users and 3 messages came back from ")
    assert back.is_complete


def fill(client: Client) -> None:
    client.create_stream("s")
    client.create_topic("s", "t", 1)
    send(client, "s", "t", *SENT)


def is_archived(broker: BrokerProcess) -> bool:
    """Messages and metadata: both are copied once an interval."""
    found = {path.name for path in (broker.folder / "archive").rglob("*")}
    is_there = any(name.endswith(".part") for name in found) and "snapshot" in found
    return is_there and Scrape(broker).sum("iggy_archiver_behind_seconds") < 1
