"""`iggykube up` with sources and a sink: a real broker, real jobs, a restart."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli_program import PROGRAM, run_program
from iggykube.local import Folders, Snapshot
from iggykube.local.snapshot import JobState, decode

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
  sources:
  - name: made
    type: Random
    random: {rate: 1000, messages: %d, keys: 5}
    checkpoint: {volume: {}}
    trigger: {interval: 1s}
  - name: drop
    type: Files
    files: {path: in, settle: 0s}
    checkpoint: {volume: {}}
    trigger: {interval: 1s}
  sinks:
  - name: lake
    type: Files
    files: {path: lake, format: Json}
    payload: {format: Json, schema: "number BIGINT, id BIGINT"}
    checkpoint: {volume: {}}
    trigger: {interval: 1s}
"""


@contextmanager
def up(folder: Path, messages: int) -> Iterator[Callable[[int, list[int]], Snapshot]]:
    """The program, while it runs; to wait until the sink has done so many messages, and each source
    of this run has told of what it sent.
    """
    file = folder / "shop.yaml"
    file.write_text(SHOP % messages)
    options = ["--data", str(folder / "data"), "--port", "0", "--monitoring-port", "0"]
    command = [*PROGRAM, "up", "-f", str(file), *options, "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None

        def until(total: int, sent: list[int]) -> Snapshot:
            for line in running.stdout or ():
                snapshot = decode(line)
                assert JobState.FAILED not in {row.state for row in snapshot.jobs}, snapshot.jobs
                if snapshot.sink("orders.lake").committed >= total and sent == [
                    row.messages for row in snapshot.sources
                ]:
                    return snapshot
            raise AssertionError("the program has ended")

        try:
            yield until
        finally:
            stopped = run_program("down", *options[:2])
            running.stdout.read()
    assert (stopped.returncode, running.returncode) == (0, 0)


def drop(folder: Path, name: str, ids: range) -> None:
    """A file of JSON lines, which is there at once."""
    place = Folders.at(folder / "data").files / "in"
    place.mkdir(parents=True, exist_ok=True)
    unfinished = place / f"_{name}"
    unfinished.write_text("".join(f'{{"id": {number}}}\n' for number in ids))
    unfinished.rename(place / name)


def in_the_lake(folder: Path, field: str) -> list[int]:
    """The values of a field in all files of the sink."""
    lake = Folders.at(folder / "data").files / "lake"
    texts = [path.read_text() for path in lake.glob("*.json")]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    return sorted(row[field] for row in rows if row.get(field) is not None)


@pytest.mark.timeout(600)
def test_messages_of_sources_reach_the_sink_and_a_restart_goes_on(tmp_path: Path) -> None:
    drop(tmp_path, "first.jsonl", range(40))
    with up(tmp_path, 50) as until:
        first = until(90, [50, 40])
        shown = run_program("source", "status", "--data", tmp_path / "data").stdout.decode()
    drop(tmp_path, "second.jsonl", range(40, 60))
    with up(tmp_path, 80) as until:
        again = until(140, [30, 20])
        status = run_program("status", "--data", tmp_path / "data").stdout.decode()

    assert in_the_lake(tmp_path, "number") == list(range(80))
    assert in_the_lake(tmp_path, "id") == list(range(60))
    assert [row.name for row in again.sources] == ["orders.made", "orders.drop"]
    assert first.sink("orders.lake").lag == 0
    assert again.streams[0].topics[0].messages == 140
    assert again.streams[0].topics[0].groups == ()
    assert again.source("orders.made").committed["next"] == 80
    assert "orders.made (Random) of shop/orders" in shown
    lines = {words[2]: words for line in status.splitlines() if (words := line.split())[2:]}
    assert lines["made"][3:6] == ["(Random)", "Running", "30"]
    assert lines["drop"][3:6] == ["(Files)", "Running", "20"]
