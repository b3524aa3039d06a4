"""The files sink keeps what every sink promises, in a folder and in a bucket."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import pytest

from iggy_spark import blocks
from iggy_spark.sinks.files import FilesSink
from lakes import BucketLake, Lake, block_of, rows_of
from sink_cases import declare
from sink_contract import Row, SinkContract, Target


@dataclass(frozen=True)
class FilesTarget:
    """Files below a folder or an address. They take every row."""

    lake: Lake

    def sink(self) -> FilesSink:
        block = blocks.Files(
            self.lake.path, partition_by=["month"], s3=block_of(self.lake.connection)
        )
        return FilesSink(block, declare())

    def rows(self) -> list[Row]:
        return rows_of(self.lake) if self.lake.files() else []

    def refusing(self) -> None:
        return None

    def away(self) -> FilesTarget | None:
        if not isinstance(self.lake, BucketLake):
            return None
        gone = copy(self.lake)
        gone.connection = replace(gone.connection, endpoint="http://127.0.0.1:9")
        return FilesTarget(gone)


class TestFiles(SinkContract):
    @pytest.fixture
    def target(self, lake: Lake) -> Target:
        return FilesTarget(lake)
