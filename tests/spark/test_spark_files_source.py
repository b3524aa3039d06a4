"""The source Files, in a folder and in a real store: the contract of all sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from object_store import ObjectStore
from source_contract import Origin, SourceContract
from source_folders import Added, Folder, Prefix

FORMS = [("Json", ""), ("Text", ".gz"), ("Csv", ""), ("Csv", ".gz"), ("Parquet", ""), ("Raw", "")]


class TestFolder(SourceContract):
    @pytest.fixture(params=FORMS, ids="".join)
    def origin(self, request: pytest.FixtureRequest, tmp_path: Path) -> Origin:
        form, suffix = request.param
        return Added(Folder(tmp_path / "in"), form, suffix=suffix)


class TestBucket(SourceContract):
    @pytest.fixture(params=[("Json", ""), ("Parquet", "")], ids="".join)
    def origin(self, request: pytest.FixtureRequest, store: ObjectStore) -> Origin:
        form, suffix = request.param
        return Added(Prefix(store), form, suffix=suffix)
