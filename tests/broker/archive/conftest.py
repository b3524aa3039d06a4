"""Archives of both kinds, each for a test alone."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iggy_broker.archive.bucket import BucketPlace, BucketStore
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.staging import StagedBucket
from iggy_broker.archive.store import ArchiveStore
from object_store import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store

_numbers = itertools.count()
START_S = 120.0
DOMAIN = "store.test"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(START_S))


@pytest.fixture(scope="package")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_object_store(tmp_path_factory.mktemp("store"), domain=DOMAIN) as running:
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


@pytest.fixture
def hosts_place(
    object_store: ObjectStore, place: BucketPlace, monkeypatch: pytest.MonkeyPatch
) -> BucketPlace:
    """The same by a virtual host and https, whose authority is known by its variable."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, *rest: Any, **more: Any) -> Any:
        is_ours = isinstance(host, str) and host.endswith(DOMAIN)
        return resolve(object_store.host if is_ours else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(object_store.authority_file))
    return replace(place, endpoint=object_store.named_endpoint("https"), addressing="virtual")


@pytest.fixture(params=["folder", "bucket", "hosts", "staged"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveStore:
    if request.param == "folder":
        store = FolderStore(tmp_path / "archive")
        store.check()
        return store
    place = request.getfixturevalue("hosts_place" if request.param == "hosts" else "place")
    return StagedBucket(place, tmp_path) if request.param == "staged" else BucketStore(place)
