"""Local mode with a real broker process, and a small stand-in for the sink's job."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iggy_client.client import Message
from iggy_operator.documents import DocumentErrors
from iggy_wire.primitives import Consumer, Partitioning
from iggykube.errors import BrokerDied, LocalError, Stopped
from iggykube.local import LocalInstance, Ports, Snapshot, load_resources
from iggykube.local.job_set import JOBS_STOP_S_MAX
from iggykube.local.plan import make_plan
from iggykube.local.snapshot import JobState
from local_instances import FREE, client_of, local_instance, use_fake_job

SHOP = """\
apiVersion: iggykube.dev/v1alpha1
kind: IggyStream
metadata: {name: shop}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: orders}
spec:
  streamRef: {name: shop}
"""
SINK = """\
  sinks:
  - name: lake
    type: Files
    files: {path: lake}
    checkpoint: {volume: {}}
    restart: {maxRetries: 2, backoffSeconds: 1}
    spark: {conf: {fake.exits: "%s"}}
"""
pytestmark = pytest.mark.timeout(120)


def step_until(running: LocalInstance, is_done: Callable[[Snapshot], bool]) -> Snapshot:
    """The test's own time limit ends this when it never comes."""
    while not is_done(snapshot := running.step(timeout_s=0.05)):
        pass
    return snapshot


@pytest.fixture
def fake_job(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_job(monkeypatch)


def test_streams_and_topics_are_made_once_and_changes_are_applied(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP + "  partitions: 2\n") as first:
        first.start()
        assert first.notes == ["created stream shop", "created topic orders with 2 partitions"]

    with local_instance(tmp_path, SHOP + "  partitions: 2\n") as same:
        same.start()
        assert same.notes == []

    changed = SHOP + "  partitions: 3\n  retention: {messageExpiry: 1d}\n"
    with local_instance(tmp_path, changed) as second:
        second.start()
        with client_of(second) as client:
            topic = client.get_topic("shop", "orders")

    assert topic is not None
    assert topic.topic.partitions_count == 3
    assert topic.topic.message_expiry_us == 86_400_000_000


def test_a_forbidden_change_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP + "  partitions: 2\n") as first:
        first.start()

    with pytest.raises(DocumentErrors, match=r"spec\.partitions: partitions cannot decrease"):
        local_instance(tmp_path, SHOP + "  partitions: 1\n")


@pytest.mark.usefixtures("fake_job")
def test_a_sink_runs_is_counted_and_stops_in_order(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP + SINK % "-") as running:
        running.start()
        with client_of(running) as client:
            batch = [Message(b"x") for _ in range(7)]
            client.send("shop", "orders", Partitioning.partition(0), batch)
            client.create_group("shop", "orders", "orders.lake")
            client.join_group("shop", "orders", "orders.lake")  # in the place of the job
            client.store_offset(Consumer.group("orders.lake"), "shop", "orders", 0, 6)
            snapshot = step_until(
                running,
                lambda now: now.sink("orders.lake").committed == 7 and bool(now.sinks[0].rows),
            )
            row = snapshot.sink("orders.lake")
            client.send("shop", "orders", Partitioning.partition(0), batch)
            behind = step_until(running, lambda now: now.sink("orders.lake").end == 14)
        running.stop()

    assert (row.state, row.end, row.batch) == (JobState.RUNNING, 7, 0)
    assert row.rows == ('{"id": 0}',)
    assert behind.lag == 7
    assert "not an event" in (running.folders.logs / "sink-default.orders.lake.log").read_text()


@pytest.mark.usefixtures("fake_job")
def test_a_failed_sink_is_started_again_then_given_up_with_the_reason(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP + SINK % "1") as running:
        running.start()
        waiting = step_until(running, lambda now: now.sinks[0].state == JobState.WAITING)
        failed = step_until(running, lambda now: now.sinks[0].state == JobState.FAILED)

    assert waiting.sinks[0].reason == "start 0 failed"
    assert failed.sinks[0].restarts == 2
    assert failed.sinks[0].reason == "start 2 failed (gave up after 2 restarts)"


@pytest.mark.usefixtures("fake_job")
def test_a_wrong_configuration_is_not_tried_again(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP + SINK % "2") as running:
        running.start()
        failed = step_until(running, lambda now: now.sinks[0].state == JobState.FAILED)

    assert failed.sinks[0].restarts == 0


@pytest.mark.usefixtures("fake_job")
def test_no_secret_stands_in_a_file_or_argument_of_a_job(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP + SINK % "-") as running:
        running.start()
        step_until(running, lambda now: now.sinks[0].state == JobState.RUNNING)
        files = [path for path in running.folders.root.rglob("*") if path.is_file()]
        holders = [path for path in files if running.password.encode() in path.read_bytes()]
        arguments = [
            Path(f"/proc/{item['pid']}/cmdline").read_text()
            for item in json.loads((running.folders.run / "processes.json").read_text())
        ]

    assert holders == [running.folders.password_file]
    assert len(arguments) == 2
    assert not [text for text in arguments if running.password in text]


def test_a_second_instance_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP) as first:
        first.start()
        with pytest.raises(LocalError, match=f"in use by process {os.getpid()}.*--data"):
            local_instance(tmp_path, SHOP).start()
        assert first.step().streams[0].name == "shop"


def test_a_port_that_is_taken_is_named_with_its_option(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(LocalError, match=f"port {port} cannot be used.*--port"):
            local_instance(tmp_path, SHOP, Ports(port, 0)).start()


def test_a_broker_that_dies_is_told_with_its_log(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP) as running:
        running.start()
        broker = json.loads((running.folders.run / "processes.json").read_text())[-1]
        os.kill(broker["pid"], signal.SIGKILL)

        with pytest.raises(BrokerDied, match=r"ended by SIGKILL; .*broker\.log"):
            step_until(running, lambda now: False)


@pytest.mark.usefixtures("fake_job")
def test_a_sink_that_waits_for_a_broker_that_died_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggykube.local.instance.ORPHANS_STOP_S_MAX", 0.1)
    with local_instance(tmp_path, SHOP + SINK % "!") as running:
        running.start()
        step_until(running, lambda now: now.sinks[0].state == JobState.RUNNING)
        broker = json.loads((running.folders.run / "processes.json").read_text())[-1]
        os.kill(broker["pid"], signal.SIGKILL)
        with pytest.raises(BrokerDied):
            step_until(running, lambda now: False)
        began_s = time.monotonic()
        running.stop()

    assert time.monotonic() - began_s < JOBS_STOP_S_MAX / 2


def test_a_wrong_setting_of_the_broker_is_told(tmp_path: Path) -> None:
    broker = SHOP + (
        "---\napiVersion: iggykube.dev/v1alpha1\nkind: IggyBroker\nmetadata: {name: iggy}\n"
        "spec: {config: {system.segment.size: 10XB}}\n"
    )

    with pytest.raises(BrokerDied, match="10XB"):
        local_instance(tmp_path, broker).start()


def test_a_start_can_be_stopped(tmp_path: Path) -> None:
    starting = local_instance(tmp_path, SHOP)

    with pytest.raises(Stopped):
        starting.start(should_stop=lambda: True)

    assert starting.folders.owner_pid() is None


def test_what_a_killed_instance_left_is_ended_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    command = [sys.executable, "-m", "iggykube", "up", "-f", str(path), "--port", "0"]
    command += ["--monitoring-port", "0", "--data", str(tmp_path / "data"), "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        killed.kill()

    with local_instance(tmp_path, SHOP) as running:
        running.start()
        notes = running.notes

    assert len(notes) == 1
    assert re.fullmatch(r"ended process \d+, left over from an instance that was killed", notes[0])


def test_what_a_killed_instance_left_is_ended_by_down(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    program, data = [sys.executable, "-m", "iggykube"], ["--data", str(tmp_path / "data")]
    command = [*program, "up", "-f", str(path), "--port", "0", "--monitoring-port", "0", *data]
    with subprocess.Popen([*command, "--output", "json"], stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        killed.kill()

    first = subprocess.run([*program, "down", *data], capture_output=True, text=True)
    again = subprocess.run([*program, "down", *data], capture_output=True, text=True)

    assert (first.returncode, first.stderr) == (0, "")
    assert "left over from an instance that was killed" in first.stdout
    assert again.returncode == 1
    assert "nothing to stop" in again.stderr


def test_up_status_and_down_as_programs(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    data = ["--data", str(tmp_path / "data")]
    program = [sys.executable, "-m", "iggykube"]
    up = [*program, "up", "-f", str(path), *data, "--port", "0", "--monitoring-port", "0"]
    with subprocess.Popen([*up, "--output", "json"], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        first = json.loads(running.stdout.readline())
        status = subprocess.run(
            [*program, "status", *data, "--output", "json"], capture_output=True, check=True
        )
        table = subprocess.run(
            [*program, "status", *data], capture_output=True, check=True, text=True
        )
        subprocess.run([*program, "down", *data], check=True, capture_output=True)
        exit_code = running.wait()

    assert exit_code == 0
    assert first["streams"][0]["topics"][0]["name"] == "orders"
    assert json.loads(status.stdout)["address"] == first["address"]
    assert "orders" in table.stdout
    assert time.time() - first["taken_at_s"] < 3600


def test_an_unknown_setting_of_the_broker_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    broker = SHOP + (
        "---\napiVersion: iggykube.dev/v1alpha1\nkind: IggyBroker\nmetadata: {name: iggy}\n"
        "spec: {config: {system.segmnt.size: 1 GB}}\n"
    )

    with pytest.raises(BrokerDied, match=r"(?i)segment[._]size"):
        local_instance(tmp_path, broker).start()


def test_a_data_directory_may_be_named_with_dots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "shop.yaml").write_text(SHOP + SINK % "-")
    data = Path("../data")

    dotted = LocalInstance(data, load_resources(data, [Path("../shop.yaml")]), ports=FREE)
    plan = make_plan(dotted._resources, dotted.folders, FREE)

    assert plan.jobs[0].job["sink"]["files"]["path"] == str(tmp_path / "data" / "files" / "lake")


def test_a_terminal_gets_a_live_table(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    command = [sys.executable, "-m", "iggykube", "up", "-f", str(path), "--port", "0"]
    command += ["--monitoring-port", "0", "--data", str(tmp_path / "data")]
    ours, theirs = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment) as up:
        os.close(theirs)
        shown = b""
        while b"orders" not in shown:
            shown += os.read(ours, 4096)
        up.send_signal(signal.SIGINT)
        while _more := _read_to_end(ours):
            shown += _more
        assert up.stderr is not None
        told = up.stderr.read().decode()

    assert up.returncode == 0
    assert b"STREAM" in shown
    assert told == "stopping: jobs finish their batch (Ctrl-C again: at once)\n"


def _read_to_end(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says it so when the other side is closed
        return b""
