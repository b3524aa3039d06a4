"""A job's checkpoint in an object store, and what lies there seen past the job."""

from __future__ import annotations

import itertools

from iggy_spark import s3
from iggy_spark.stored_checkpoint import StoredCheckpoint
from lakes import connection_to, store_block
from object_store import ObjectStore
from sink_jobs import JobSetup

_numbers = itertools.count()


class RemoteCheckpoint:
    """A place of its own in the store."""

    def __init__(self, store: ObjectStore) -> None:
        self.address = f"s3a://{store.common_bucket}/checkpoints/{next(_numbers)}"
        self.connection = connection_to(store)
        self.bucket = s3.Bucket(self.address, self.connection)

    def open(self) -> StoredCheckpoint:
        return StoredCheckpoint(self.address, self.connection)

    def put_into(self, setup: JobSetup) -> None:
        """The job keeps its checkpoint here."""
        setup.value["checkpoint"] = self.address
        setup.value["checkpointStore"] = store_block(self.connection)

    def names(self) -> list[str]:
        """Below the topic's life."""
        return sorted(key.partition("/")[2] for key in self.bucket.list_keys() if "/" in key)

    def empty(self) -> None:
        for key in list(self.bucket.list_keys()):
            self.bucket.delete(key)
