"""Files for a source to read: in a folder, or in a bucket of a real store."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from iggy_spark.source_blocks import Files
from iggy_spark.sources.files import FilesSource
from lakes import connection_to, store_block
from object_store import ObjectStore
from quick_retry import quick

_numbers = itertools.count()


class Place(Protocol):
    """Where the files lie."""

    block: dict[str, Any]

    def put(self, name: str, data: bytes) -> None:
        """A file, new or in place of one."""

    def remove(self, name: str) -> None: ...


class Folder:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self.block: dict[str, Any] = {"path": str(root)}

    def put(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()


class Prefix:
    """A prefix of its own in the store's bucket."""

    def __init__(self, store: ObjectStore) -> None:
        self.store, self.prefix = store, f"in-{next(_numbers)}"
        path = f"s3a://{store.common_bucket}/{self.prefix}"
        self.block = {"path": path, "s3": store_block(connection_to(store))}

    def put(self, name: str, data: bytes) -> None:
        key = f"{self.prefix}/{name}"
        self.store.client().put_object(Bucket=self.store.common_bucket, Key=key, Body=data)

    def remove(self, name: str) -> None:
        key = f"{self.prefix}/{name}"
        self.store.client().delete_object(Bucket=self.store.common_bucket, Key=key)


def source(place: Place, **block: Any) -> FilesSource:
    """A source of this place; it does not wait for files to settle."""
    settings = msgspec.convert({"settle": "0s", **place.block, **block}, Files)
    return FilesSource(settings, name="shop/files", retry=quick(1.0))


def content(form: str, numbers: range) -> bytes:
    """A file with a message for each number."""
    if form == "Csv":
        text = io.StringIO()
        rows = [["number", "text"], *([number, 'a "b",\r\nc'] for number in numbers)]
        csv.writer(text).writerows(rows)
        return text.getvalue().encode()
    if form == "Parquet":
        data = io.BytesIO()
        table = pa.table({"number": list(numbers), "text": ["x"] * len(numbers)})
        pq.write_table(table, data, row_group_size=4)
        return data.getvalue()
    return b"".join(json.dumps({"number": number}).encode() + b"\n" for number in numbers)


class Added:
    """An `Origin` of files: each addition is one, or with Raw as many as there are messages."""

    lump = 1

    def __init__(self, place: Place, form: str, *, suffix: str = "") -> None:
        self.place, self.form, self.suffix = place, form, suffix
        self.count = 0

    def source(self) -> FilesSource:
        return source(self.place, format=self.form)

    def add(self, count: int) -> None:
        step = 1 if self.form == "Raw" else count
        for first in range(self.count, self.count + count, step):
            data = content(self.form, range(first, first + step))
            if self.suffix:
                data = gzip.compress(data)
            self.place.put(f"day-{first % 2}/{first:06}{self.suffix}", data)
        self.count += count

    def number(self, payload: bytes) -> int:
        return int(json.loads(payload)["number"])

    def away(self) -> FilesSource | None:
        where = "http://127.0.0.1:9"
        if "s3" in self.place.block:
            block = {**self.place.block, "s3": {**self.place.block["s3"], "endpoint": where}}
            settings = msgspec.convert(block, Files)
        else:
            settings = Files(path=self.place.block["path"] + "-none")
        return FilesSource(settings, name="shop/files", retry=quick(0.1))
