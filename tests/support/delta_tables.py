"""Delta tables for tests, in a folder or in a bucket. They are read past the sink."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from iggy_spark import blocks
from lakes import connection_to, store_block
from object_store import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore

_numbers = itertools.count()


@dataclass(frozen=True)
class DeltaPlace:
    """One table's place. `store` is what the block of a job's file says of it."""

    path: str
    store: dict[str, Any]
    options: dict[str, str]

    def settings(self, **more: Any) -> dict[str, Any]:
        """The block of a job's file."""
        return (
            {"path": self.path, "s3": self.store, **more}
            if self.store
            else {
                "path": self.path,
                **more,
            }
        )

    def block(self, **more: Any) -> blocks.Delta:
        """The same, read; `more` is spelled as in the file."""
        return msgspec.convert(self.settings(**more), blocks.Delta)

    @property
    def address(self) -> str:
        """As the library names it."""
        return self.path.replace("s3a://", "s3://")

    def is_there(self) -> bool:
        """Whether there is a table."""
        return DeltaTable.is_deltatable(self.address, storage_options=self.options)

    def table(self) -> DeltaTable:
        """The table as it is now."""
        return DeltaTable(self.address, storage_options=self.options)

    def read(self) -> pa.Table:
        """All rows that a reader finds."""
        return self.table().to_pyarrow_table()

    def rows(self) -> list[tuple[int, int]]:
        """(partition, offset) of every row, sorted; none if there is no table."""
        if not self.is_there():
            return []
        found = self.read()
        columns = (found.column(f"iggy_{part}").to_pylist() for part in ("partition_id", "offset"))
        return sorted(zip(*columns, strict=True))


def folder_place(folder: Path) -> DeltaPlace:
    """A folder that is not there yet."""
    return DeltaPlace(str(folder / f"delta{next(_numbers)}"), {}, {})


def bucket_place(store: ObjectStore) -> DeltaPlace:
    """A prefix in a bucket."""
    options = {
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ALLOW_HTTP": "true",
    }
    path = f"s3a://{store.common_bucket}/delta{next(_numbers)}"
    return DeltaPlace(path, store_block(connection_to(store)), options)
