"""The sample of made-up load runs on a laptop as it stands."""

import json
from pathlib import Path

import pytest

from iggykube.local import Snapshot
from iggykube.local.snapshot import JobState
from local_instances import local_instance
from page_samples import SAMPLES

SAMPLE = next(path for path in SAMPLES if path.name == "random-load.yaml")


def is_through(snapshot: Snapshot) -> bool:
    """Whether messages were made, printed, and committed."""
    (source,), (sink,) = snapshot.sources, snapshot.sinks
    return source.messages > 0 and sink.committed > 0 and bool(sink.rows)


@pytest.mark.timeout(600)  # two Javas and two Sparks, on a busy machine
def test_orders_are_made_and_printed(tmp_path: Path) -> None:
    with local_instance(tmp_path, SAMPLE.read_text()) as running:
        running.start()
        # The test's own time limit ends this when it never comes.
        while not is_through(snapshot := running.step()):
            assert JobState.FAILED not in {row.state for row in snapshot.jobs}, snapshot.jobs

    for row in map(json.loads, snapshot.sink("orders.print").rows):
        assert row["number"] >= 0
        assert row["key"].startswith("key-")
