"""The files sink keeps what every sink promises, in a folder and in a bucket."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import pytest

from iggy_spark import blocks
from iggy_spark.sinks.files import FilesSink
from lakes import BucketLake, FolderLake, Lake, block_of, rows_of
from sink_cases import declare
from sink_contract import Row, SinkContract, Target

TAKES_ALL = "files take every row that decodes: what cannot be a row is refused before the sink"


@dataclass(frozen=True)
class FilesTarget:
    """Files below a folder or an address."""

    lake: Lake

    def sink(self) -> FilesSink:
        block = blocks.Files(
            self.lake.path, partition_by=["month"], s3=block_of(self.lake.connection)
        )
        return FilesSink(block, declare())

    def rows(self) -> list[Row]:
        return rows_of(self.lake) if self.lake.files() else []

    def refusing(self) -> str:
        return TAKES_ALL

    def away(self) -> FilesTarget:
        if isinstance(self.lake, FolderLake):  # of a volume that is not mounted any more
            return FilesTarget(FolderLake(self.lake.root / "gone"))
        assert isinstance(self.lake, BucketLake)
        gone = copy(self.lake)
        gone.connection = replace(gone.connection, endpoint="http://127.0.0.1:9")
        return FilesTarget(gone)


class TestFiles(SinkContract):
    @pytest.fixture
    def target(self, lake: Lake) -> Target:
        return FilesTarget(lake)
