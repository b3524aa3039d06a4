"""Archives of both kinds, each for a test alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.staging import StagedBucket
from iggy_broker.archive.store import ArchiveStore
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store

_numbers = itertools.count()
START_S = 120.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(START_S))


@pytest.fixture(scope="package")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_object_store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def place(object_store: ObjectStore) -> BucketPlace:
    """A prefix of a test's own."""
    return BucketPlace(
        object_store.common_bucket,
        f"archive-{next(_numbers)}/",
        endpoint=object_store.endpoint,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
    )


@pytest.fixture(params=["folder", "bucket", "staged"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveStore:
    if request.param == "folder":
        store = FolderStore(tmp_path / "archive")
        store.check()
        return store
    place = request.getfixturevalue("place")
    return BucketStore(place) if request.param == "bucket" else StagedBucket(place, tmp_path)
