"""Targets of a files sink for tests that hold wherever the files lie: a folder, or a bucket."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from iggy_spark import blocks, s3
from object_store import ObjectStore

_numbers = itertools.count()


def connection_to(store: ObjectStore) -> s3.Connection:
    """With the login that lies beside the store."""
    return s3.Connection(
        endpoint=store.endpoint, path_style=True, credentials_path=str(store.login)
    )


def store_block(connection: s3.Connection) -> dict[str, Any]:
    """How a job's file says it: buckets by path is what comes of an endpoint."""
    return {
        "endpoint": connection.endpoint,
        "credentialsPath": connection.credentials_path,
    }


def block_of(connection: s3.Connection) -> blocks.S3:
    """The same, read."""
    return (
        msgspec.convert(store_block(connection), blocks.S3) if connection.endpoint else blocks.S3()
    )


class Lake(Protocol):
    """Where a sink writes, and what is there, seen past the sink."""

    path: str
    connection: s3.Connection

    def files(self) -> list[str]:
        """Data files, also rejected messages."""

    def local(self) -> Path:
        """A folder with what a reader finds."""

    def left(self) -> list[str]:
        """Whatever an interrupted write has left and is no data."""

    def remove(self, name: str) -> None:
        """Remove one data file."""


class FolderLake:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = str(root)
        self.connection = s3.Connection()

    def files(self) -> list[str]:
        found = (path for path in self.root.rglob("*.parquet") if path.is_file())
        names = (str(path.relative_to(self.root)) for path in found)
        return sorted(name for name in names if not name.startswith("_iggy"))

    def local(self) -> Path:
        return self.root

    def left(self) -> list[str]:
        work = self.root / "_iggy"
        return sorted(str(path.relative_to(work)) for path in work.glob("*/*"))

    def remove(self, name: str) -> None:
        (self.root / name).unlink()


class BucketLake:
    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.store = store
        self.client = store.client()
        self.bucket = store.common_bucket
        self.prefix = f"lakes/{next(_numbers)}"
        self.path = f"s3a://{self.bucket}/{self.prefix}"
        self.connection = connection_to(store)
        self._copy = folder / "copy"

    def settings(self) -> dict[str, Any]:
        """The block `files` of a job's file."""
        return {"path": self.path, "s3": store_block(self.connection)}

    def files(self) -> list[str]:
        return sorted(name for name in self._names() if not name.startswith("_iggy"))

    def _names(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(**self._where())
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return [key.removeprefix(f"{self.prefix}/") for key in keys]

    def _where(self) -> dict[str, str]:
        return {"Bucket": self.bucket, "Prefix": f"{self.prefix}/"}

    def uploads(self) -> list[dict[str, str]]:
        """Key and id of the uploads that wait."""
        found = self.client.list_multipart_uploads(**self._where()).get("Uploads", ())
        return [{"Key": item["Key"], "UploadId": item["UploadId"]} for item in found]

    def local(self) -> Path:
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir(parents=True)
        for name in self.files():
            (self._copy / name).parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(self.bucket, f"{self.prefix}/{name}", str(self._copy / name))
        return self._copy

    def left(self) -> list[str]:
        notes = [name for name in self._names() if name.startswith("_iggy")]
        return sorted([*notes, *(item["Key"] for item in self.uploads())])

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}")


def table_of(lake: Lake) -> pa.Table:
    """All rows that a reader finds."""
    return ds.dataset(lake.local(), format="parquet", partitioning="hive").to_table()


def rows_of(lake: Lake) -> list[tuple[int, int]]:
    """(partition, offset) of every row, sorted."""
    table = table_of(lake)
    columns = (table.column(f"iggy_{name}").to_pylist() for name in ("partition_id", "offset"))
    return sorted(zip(*columns, strict=True))
