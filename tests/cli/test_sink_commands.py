"""`status` and `sink`: lag of sinks and groups, as tables and as JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_program import run_program
from iggy_client.client import Client, Message
from iggy_wire.primitives import Consumer, Partitioning
from iggykube import view
from iggykube.local import LocalInstance, SinkRow
from iggykube.local.numbers import PARTITION_ROWS_MAX, most_behind
from iggykube.local.snapshot import JobState, PartitionRow, decode
from local_instances import client_of, local_instance, use_fake_job

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
  partitions: 2
  consumerGroups: [{name: billing}]
  sinks:
  - name: lake
    type: Files
    files: {path: lake}
    checkpoint: {volume: {}}
    spark: {conf: {fake.exits: "-"}}
  - name: rest
    type: Console
    suspend: true
    spark: {conf: {fake.exits: "-"}}
"""
pytestmark = pytest.mark.timeout(120)


def commit(client: Client, group: str, partition: int, offset: int) -> None:
    """In the place of a member."""
    if client.get_group("shop", "orders", group) is None:
        client.create_group("shop", "orders", group)
    client.join_group("shop", "orders", group)
    client.store_offset(Consumer.group(group), "shop", "orders", partition, offset)


def is_told(instance: LocalInstance) -> bool:
    """Whether all of this stands where `status` looks; it is written when numbers are asked for."""
    if not instance.folders.snapshot_file.exists():
        return False
    snapshot = decode(instance.folders.snapshot_file.read_bytes())
    groups = snapshot.streams[0].topics[0].groups
    lake = snapshot.sink("orders.lake")
    numbers = (lake.state, lake.committed, *(group.committed for group in groups))
    return numbers == (JobState.RUNNING, 7, 4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data directory of an instance with 10 and 5 messages: the sink has done 7, a group 4."""
    folder = tmp_path_factory.mktemp("shop")
    patch = pytest.MonkeyPatch()
    use_fake_job(patch)
    with local_instance(folder, SHOP) as instance:
        instance.start()
        with client_of(instance) as client:
            for partition, count in ((0, 10), (1, 5)):
                batch = [Message(b"x")] * count
                client.send("shop", "orders", Partitioning.partition(partition), batch)
            commit(client, "orders.lake", 0, 6)
            commit(client, "billing", 1, 3)
            while not is_told(instance):
                instance.step(0.05)
            yield instance.folders.root
    patch.undo()


def told(data: Path, *arguments: str) -> str:
    done = run_program(*arguments, "--data", data)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def as_json(data: Path, *arguments: str) -> Any:
    return json.loads(told(data, *arguments, "--output", "json"))


def cells(text: str, first: str) -> list[str]:
    """The words of the line that begins with this one."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [first])


def test_status_has_a_table_of_groups_that_are_no_sinks(data: Path) -> None:
    text = told(data, "status")
    (topic,) = as_json(data, "status")["streams"][0]["topics"]

    group = next(line.split() for line in text.splitlines() if "billing" in line)
    assert group == ["shop", "orders", "billing", "1", "4", "11"]
    assert [row["name"] for row in topic["groups"]] == ["billing"]
    assert topic["groups"][0]["partitions"] == [
        {"partition": 0, "committed": 0, "end": 10, "lag": 10},
        {"partition": 1, "committed": 4, "end": 5, "lag": 1},
    ]
    assert topic["sinks"][0]["lag"] == 8


def test_sinks_are_listed(data: Path) -> None:
    text = told(data, "sink", "list")
    sinks = as_json(data, "sink", "list")["sinks"]

    assert " ".join(cells(text, "SINK")) == "SINK TYPE STREAM TOPIC STATE COMMITTED LAG"
    assert " ".join(cells(text, "orders.lake")) == "orders.lake Files shop orders Running 7 8"
    assert cells(text, "orders.rest")[4] == "Suspended"
    assert [(row["stream"], row["topic"], row["sink"]["name"]) for row in sinks] == [
        ("shop", "orders", "orders.lake"),
        ("shop", "orders", "orders.rest"),
    ]


def test_one_sink_is_shown_by_partition(data: Path) -> None:
    text = told(data, "sink", "status", "orders.lake")
    (place,) = as_json(data, "sink", "status", "orders.lake")["sinks"]

    assert "orders.lake (Files) of shop/orders" in text
    assert "orders.rest" not in text
    assert cells(text, "PARTITION") == ["PARTITION", "COMMITTED", "END", "LAG"]
    assert cells(text, "0") == ["0", "7", "10", "3"]
    assert cells(text, "1") == ["1", "0", "5", "5"]
    assert place["sink"]["state"] == "Running"
    assert [row["lag"] for row in place["sink"]["partitions"]] == [3, 5]


def test_all_sinks_are_shown_without_a_name(data: Path) -> None:
    text = told(data, "sink", "status")

    assert "orders.lake (Files)" in text
    assert "orders.rest (Console)" in text


def test_an_unknown_sink_is_told_with_the_nearest(data: Path) -> None:
    done = run_program("sink", "status", "orders.lak", "--data", data)

    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"iggykube: no sink of the name orders.lak: did you mean orders.lake?\n"


def test_of_many_partitions_those_with_the_most_lag_are_told() -> None:
    rows = [PartitionRow(number, 0, number % 100, number % 100) for number in range(1000)]

    told_of = most_behind(rows)

    assert len(told_of) == PARTITION_ROWS_MAX
    assert min(row.lag for row in told_of) == 93
    assert [row.partition for row in told_of] == sorted(row.partition for row in told_of)


def test_reasons_and_restarts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    row = SinkRow(
        "orders.lake", "Files", JobState.FAILED,
        restarts=3, reason="no space", batch=7, start_by=("settings", "target"),
    )  # fmt: skip

    view.console().print(view.sink("shop", "orders", row))

    shown = capsys.readouterr().out
    assert "Failed (3 restarts)" in shown
    assert "no space" in shown
    assert "settings, target" in shown
