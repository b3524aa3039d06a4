"""A sink on one machine that writes into a real object store, with a real job."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from iggy_client.client import Message, messages
from iggy_wire.primitives import Partitioning
from iggykube.local.snapshot import JobState
from local_instances import client_of, local_instance
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store

EXPIRY_US = 30 * 24 * 3600 * 1_000_000
SHOP = """\
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {accessKeyId: %(access)s, secretAccessKey: %(secret)s}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyStream
metadata: {name: shop}
---
apiVersion: iggykube.dev/v1alpha1
kind: IggyTopic
metadata: {name: orders}
spec:
  streamRef: {name: shop}
  partitions: 1
  sinks:
  - name: lake
    type: Files
    files: {path: "s3a://%(bucket)s/local/lake", s3: &store {
      endpoint: "%(endpoint)s", credentialsSecretName: keys}}
    checkpoint: {location: "s3a://%(bucket)s/local/checkpoint", s3: *store}
    payload: {format: Json, schema: id BIGINT}
    errors: {tolerance: Data, deadLetter: {topic: orders.dlq, maxRatio: 1}}
    trigger: {mode: AvailableNow}
    restart: {policy: Never}
"""
ENDED = (JobState.COMPLETED, JobState.FAILED)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_object_store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.mark.timeout(300)
def test_rows_checkpoint_and_dead_letters_are_where_they_should_be(
    tmp_path: Path, store: ObjectStore
) -> None:
    place = {"bucket": store.common_bucket, "endpoint": store.endpoint}
    text = SHOP % {"access": ACCESS_KEY, "secret": SECRET_KEY, **place}
    with local_instance(tmp_path, text) as instance:
        instance.start(jobs=False)
        with client_of(instance) as client:
            texts = [b'{"id": 1}', b"no JSON", b'{"id": 2}']
            batch = [Message(text) for text in texts]
            client.send("shop", "orders", Partitioning.partition(0), batch)
            instance.start_jobs()
            while (row := instance.step(0.1).sinks[0]).state not in ENDED:
                pass
            assert (row.state, row.reason) == (JobState.COMPLETED, "all messages are carried over")
            topic = client.get_topic("shop", "orders.dlq")
            letters = client.poll("shop", "orders.dlq", 0, count=10)
    assert topic is not None
    assert (len(topic.partitions), topic.topic.message_expiry_us) == (1, EXPIRY_US)
    assert [message.payload for message in messages(letters)] == [b"no JSON"]
    listing = store.client().list_objects_v2(Bucket=store.common_bucket, Prefix="local/")
    names = [item["Key"] for item in listing["Contents"]]
    assert [name for name in names if name.endswith(".parquet")] != []
    assert [name for name in names if name.startswith("local/checkpoint/")] != []
    assert not (tmp_path / "data/claims/default").exists()
    logs = b"".join(path.read_bytes() for path in (tmp_path / "data/logs").iterdir())
    assert SECRET_KEY.encode() not in logs
