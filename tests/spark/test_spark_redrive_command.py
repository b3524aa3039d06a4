"""`iggykube sink redrive` towards a local instance whose job is the real one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli_program import PROGRAM, clean_environment
from iggy_wire.batch import Message
from iggy_wire.primitives import Partitioning
from iggykube.local import LocalInstance
from lakes import FolderLake, table_of
from local_instances import client_of, local_instance, resources_of

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
  sinks:
  - name: lake
    type: Files
    files: {path: lake}
    payload: {format: Json, schema: "%s"}
    errors: {tolerance: Data, deadLetter: {topic: dead}}
    trigger: {interval: 200ms}
    checkpoint: {volume: {}}
"""
STRICT, WIDER = "number BIGINT NOT NULL, month INT", "number BIGINT, month INT"
MESSAGES = [b'{"number": 1, "month": 1}', b'{"month": 2}', b"no json"]


@pytest.mark.timeout(600)  # three starts of Spark
def test_letters_are_written_once_the_schema_is_right(tmp_path: Path) -> None:
    with local_instance(tmp_path, SHOP % STRICT) as instance:
        instance.start()
        with client_of(instance) as client:
            batch = [Message(payload) for payload in MESSAGES]
            client.send("shop", "orders", Partitioning.partition(0), batch)
        while instance.step().sink("orders.lake").rejected < 2:
            assert instance.step().sink("orders.lake").restarts == 0
        counted = command(instance, "--dry-run", "--error-class", "SchemaMismatch")
        instance.change(resources_of(tmp_path, SHOP % WIDER))

        done = command(instance)

        rows = table_of(FolderLake(tmp_path / "data/files/lake")).sort_by("month").to_pylist()
        left = command(instance, "--dry-run")

    lines = [line.split() for line in counted.splitlines()[1:]]
    assert [(line[2], line[4], line[-1]) for line in lines] == [
        ("MalformedJson", "1", "no"),
        ("SchemaMismatch", "1", "yes"),
    ]
    assert done == "1 written, 1 failed again\n"
    assert [(row["month"], row["iggy_offset"]) for row in rows] == [(1, 0), (2, 1)]
    (again,) = [line.split() for line in left.splitlines()[1:]]
    assert again[:5] == ["orders.lake", "decode", "MalformedJson", "2", "1"]


def command(instance: LocalInstance, *arguments: str) -> str:
    """What `sink redrive` says, while the instance goes on."""
    words = ["sink", "redrive", "orders.lake", "--data", str(instance.folders.root), *arguments]
    process = subprocess.Popen(
        [*PROGRAM, *words], env=clean_environment(), stdout=subprocess.PIPE, text=True
    )
    while process.poll() is None:
        instance.step(0.05)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    return said
