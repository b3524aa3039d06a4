"""The sample with two targets: it runs on a laptop, and a cluster has other addresses."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import stored
from iggy_operator.launchers import children
from iggy_operator.resources import Topic, load
from launcher_cases import job_of
from local_instances import client_of, local_instance
from object_store import running_object_store
from postgres import running_postgres
from twin_targets import SAMPLE, Targets, bad_order, order, row_of, sample_for

OVERLAY = SAMPLE.parent / "lake-and-postgres-on-kubernetes"
ROWS = 50


@pytest.mark.timeout(600)  # two Javas and two Sparks, on a busy machine
def test_the_sample_runs_on_a_laptop(tmp_path: Path) -> None:
    with running_object_store(tmp_path / "store") as store, running_postgres() as postgres:
        targets = Targets(store, postgres)
        payloads = [*map(order, range(ROWS)), bad_order(ROWS)]
        with local_instance(tmp_path, sample_for(store, postgres)) as running:
            running.start()
            with client_of(running) as client:
                stored.send(client, "shop", "orders", *payloads, partition=1)
                # The test's own time limit ends this when it never comes.
                while targets.counts() != {"lake": ROWS, "table": ROWS}:
                    running.step(timeout_s=0.5)
                letters = [
                    stored.read_all(client, "shop", f"orders.{sink}.dead")
                    for sink in ("lake", "table")
                ]

        wanted = [row_of(1, offset, payload) for offset, payload in enumerate(payloads[:-1])]
        assert targets.lake() == targets.table() == wanted
        assert letters == [[payloads[-1]]] * 2


def test_the_sample_in_a_cluster_is_the_same_with_other_addresses(tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    command = [kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(OVERLAY)]
    file = tmp_path / "rendered.yaml"
    file.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    plain, rendered = load([SAMPLE]), load([file])

    (before,), (after,) = plain.topics, rendered.topics
    assert "Secret" not in file.read_text().split()
    assert rendered.streams == plain.streams
    assert after.partitions_count == before.partitions_count
    assert without_addresses(after) == without_addresses(before)
    for sink in after.sinks:
        assert children.problems(job_of(sink), "Native") == ()
        assert "127.0.0.1" not in str(sink.spec)


def without_addresses(topic: Topic) -> list[dict[str, object]]:
    """What the sinks say, but for where their targets are."""
    found = []
    for sink in topic.sinks:
        spec = dict(sink.spec)
        if "jdbc" in spec:
            spec["jdbc"] = {**spec["jdbc"], "url": ""}
        else:
            catalog = {**spec["iceberg"]["catalog"], "s3.endpoint": ""}
            spec["iceberg"] = {**spec["iceberg"], "catalog": catalog}
        found.append(spec)
    return found
