"""What both kinds of store promise, and what each does when its disk or service misbehaves."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from iggy_broker.archive.bucket import PART_BYTES, BucketPlace, BucketStore
from iggy_broker.archive.folder import UNFINISHED, FolderStore
from iggy_broker.archive.staging import STAGED, StagedBucket
from iggy_broker.archive.store import ArchiveError, ArchiveStore, digest, put_bytes
from object_store import ObjectStore
from played_server import LOST, Reply
from store_front import StoreFront

LARGE = os.urandom(PART_BYTES) * 2 + b"the end"
KEY = "streams/0/topics/0/partitions/0/00000000000000000000.log"


def content(store: ArchiveStore, key: str) -> bytes:
    size = store.size(key)
    assert size is not None
    return b"".join(store.read(key, 1 << 20, at) for at in range(0, size, 1 << 20))


@pytest.mark.parametrize("data", [b"x", b"some bytes", LARGE], ids=["one", "few", "large"])
def test_what_was_put_is_read(store: ArchiveStore, data: bytes) -> None:
    store.check()
    put_bytes(store, KEY, data)
    assert content(store, KEY) == data
    assert store.size(KEY) == len(data)
    assert store.read(KEY, 3, len(data) - 1) == data[-1:]
    assert store.read(KEY, 3, len(data)) == b""
    memory = memoryview(bytearray(len(data) + 1))
    assert store.read_into(KEY, [memory[:1], memory[1:]], 0) == len(data)
    assert memory[:-1] == data
    assert store.read_into(KEY, [memory], len(data)) == 0
    expected = digest(lambda size, at: data[at : at + size], len(data))
    assert digest(lambda size, at: store.read(KEY, size, at), len(data)) == expected


def test_an_object_is_replaced_and_removed(store: ArchiveStore) -> None:
    store.check()
    put_bytes(store, KEY, LARGE)
    put_bytes(store, KEY, b"new")
    assert content(store, KEY) == b"new"
    store.delete(KEY)
    store.delete(KEY)
    assert store.size(KEY) is None
    with pytest.raises(FileNotFoundError):
        store.read(KEY, 1, 0)
    for size_bytes in (1, PART_BYTES):
        with pytest.raises(FileNotFoundError):
            store.read_into(KEY, [memoryview(bytearray(size_bytes))], 0)


def test_objects_are_listed_from_a_key_on_and_folders_by_name(store: ArchiveStore) -> None:
    store.check()
    for key in ("a/1/x", "a/1/y", "a/10/x", "a/2", "b/3/x"):
        put_bytes(store, key, b"1")
    found = [entry.key for entry in store.entries("a/", after="a/1/x")]
    assert found == ["a/1/y", "a/10/x", "a/2"]
    assert sorted(store.folders("a/")) == ["1", "10"]
    assert sorted(store.folders("")) == ["a", "b"]
    assert list(store.folders("c/")) == []


def test_objects_are_listed_by_how_their_keys_begin(store: ArchiveStore) -> None:
    store.check()
    keys = [f"streams/{number}/a" for number in (10, 2, 1)] + ["other/b", "streams/1.x"]
    for number, key in enumerate(keys):
        put_bytes(store, key, bytes(number + 1))
    assert sorted(found.key for found in store.entries("")) == sorted(keys)
    assert {found.key: found.size_bytes for found in store.entries("streams/1")} == {
        "streams/1.x": 5, "streams/1/a": 3, "streams/10/a": 1,
    }  # fmt: skip
    assert list(store.entries("nothing/")) == []


def test_bytes_that_end_too_soon_are_not_stored(store: ArchiveStore) -> None:
    store.check()
    with pytest.raises((EOFError, ArchiveError)):
        store.put(KEY, lambda size, at: LARGE[at : at + size], len(LARGE) + 1)
    assert store.size(KEY) is None
    assert list(store.entries("")) == []


def test_a_file_that_cannot_be_read_is_the_readers_trouble(store: ArchiveStore) -> None:
    store.check()

    def broken(size_bytes: int, position: int) -> bytes:
        if position:
            raise ValueError("the disk is gone")
        return LARGE[:size_bytes]

    with pytest.raises(ValueError, match="the disk is gone"):
        store.put(KEY, broken, len(LARGE))
    assert list(store.entries("")) == []


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    with pytest.raises(ArchiveError, match=f"the archive {file}.*make it, or let the broker"):
        FolderStore(file).check()


def test_a_full_folder_keeps_no_half_copy(tmp_path: Path) -> None:
    """A process whose files may not grow beyond a size is as good as a full disk."""
    script = f"""
import resource, sys
from pathlib import Path
from iggy_broker.archive.folder import FolderStore
from iggy_broker.archive.staging import STAGED, StagedBucket
from iggy_broker.archive.store import ArchiveError, put_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
store = FolderStore(Path({str(tmp_path)!r}))
try:
    put_bytes(store, {KEY!r}, bytes(2 << 20))
except ArchiveError as error:
    print(error)
"""
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert f"does not take {KEY}: is it full, or read-only?" in done.stdout
    assert list(FolderStore(tmp_path).entries("")) == []


def test_a_half_copy_of_a_killed_process_does_not_count(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    put_bytes(store, KEY, b"old")
    left = tmp_path / (KEY + UNFINISHED)
    left.write_bytes(b"half of")
    assert content(store, KEY) == b"old"
    assert [found.key for found in store.entries("")] == [KEY]
    store.check()
    assert not left.exists()


def front_store(place: BucketPlace, front: StoreFront) -> BucketStore:
    return BucketStore(replace(place, endpoint=front.url))


def test_nothing_is_asked_of_a_store_that_not_all_can_do(
    object_store: ObjectStore, place: BucketPlace
) -> None:
    with StoreFront(object_store) as front:
        store = front_store(place, front)
        store.check()
        for size_bytes in (1000, 20_000_000):
            data = os.urandom(size_bytes)
            put_bytes(store, KEY, data)
            assert content(store, KEY) == data
        assert front.refused == []


@pytest.mark.parametrize("status", [500, 503])
def test_a_store_that_stumbles_is_asked_again(
    object_store: ObjectStore, place: BucketPlace, status: int
) -> None:
    with StoreFront(object_store) as front:
        store = front_store(place, front)
        front.faults += [Reply(status), LOST, Reply(status)]
        put_bytes(store, KEY, b"here")
        assert content(store, KEY) == b"here"


def test_a_store_that_stays_down_is_an_error_that_names_it(
    object_store: ObjectStore, place: BucketPlace
) -> None:
    with StoreFront(object_store) as front:
        store = front_store(place, front)
        front.faults += [Reply(503)] * 100
        with pytest.raises(ArchiveError, match=f"the archive s3://.*{place.prefix} does not take"):
            put_bytes(store, KEY, b"here")


def test_a_part_that_fails_ends_the_upload(object_store: ObjectStore, place: BucketPlace) -> None:
    with StoreFront(object_store) as front:
        store = front_store(place, front)
        front.only = "partNumber=2"
        front.faults += [Reply(500)] * 4
        with pytest.raises(ArchiveError):
            put_bytes(store, KEY, LARGE)
        assert uploads(object_store, place) == []
        assert store.size(KEY) is None
        put_bytes(store, KEY, LARGE)
        assert content(store, KEY) == LARGE


def test_a_lost_answer_to_the_last_step_is_no_trouble(
    object_store: ObjectStore, place: BucketPlace
) -> None:
    with StoreFront(object_store) as front:
        store = front_store(place, front)
        front.only = "POST /tests/" + place.prefix + KEY + "?uploadId"
        front.faults.append(LOST)
        put_bytes(store, KEY, LARGE)
        assert content(store, KEY) == LARGE
        assert uploads(object_store, place) == []


def test_a_start_ends_uploads_of_a_killed_process(
    object_store: ObjectStore, place: BucketPlace
) -> None:
    client = object_store.client()
    for key in (f"{place.prefix}{KEY}", "elsewhere"):
        upload = client.create_multipart_upload(Bucket=place.bucket, Key=key)["UploadId"]
        client.upload_part(
            Bucket=place.bucket, Key=key, UploadId=upload, PartNumber=1, Body=LARGE[:PART_BYTES]
        )
    BucketStore(place).check()
    assert uploads(object_store, place) == []
    found = client.list_multipart_uploads(Bucket=place.bucket, Prefix="elsewhere")
    (left,) = found["Uploads"]
    client.abort_multipart_upload(Bucket=place.bucket, Key="elsewhere", UploadId=left["UploadId"])


def uploads(object_store: ObjectStore, place: BucketPlace) -> list[str]:
    found = object_store.client().list_multipart_uploads(Bucket=place.bucket, Prefix=place.prefix)
    return [upload["Key"] for upload in found.get("Uploads", [])]


@pytest.mark.parametrize(
    "wrong",
    [{"secret_access_key": "wrong"}, {"bucket": "no-such-bucket"}],
    ids=["login", "bucket"],
)
def test_a_store_that_says_no_is_an_error_without_secrets(
    place: BucketPlace, wrong: dict[str, str]
) -> None:
    store = BucketStore(replace(place, **wrong))
    with pytest.raises(ArchiveError, match="check bucket, endpoint, region and credentials") as e:
        store.check()
    assert place.secret_access_key not in str(e.value)


@pytest.mark.parametrize(
    ("wish", "address"),
    [
        ({"endpoint": "http://store.example:1"}, "http://store.example:1/abc/"),
        ({"endpoint": "http://store.example:1", "addressing": "virtual"}, "http://abc.store."),
        ({"region": "eu-central-1"}, "https://abc.s3."),
        ({"region": "eu-central-1", "addressing": "path"}, "https://s3.eu-central-1."),
    ],
)
def test_where_a_buckets_name_stands(wish: dict[str, str], address: str) -> None:
    store = BucketStore(BucketPlace("abc", access_key_id="a", secret_access_key="b", **wish))
    place = {"Bucket": "abc", "Key": KEY}
    assert store._client.generate_presigned_url("get_object", Params=place).startswith(address)


def test_an_upload_is_sent_from_the_folder_and_leaves_nothing(
    place: BucketPlace, tmp_path: Path
) -> None:
    folder = tmp_path / "uploads"
    folder.mkdir()
    (folder / f"left{STAGED}").write_bytes(b"of a run that was killed")
    (folder / "mine").write_bytes(b"kept")
    store = StagedBucket(place, folder)
    store.check()
    assert [path.name for path in folder.iterdir()] == ["mine"]
    seen: list[set[str]] = []

    def read(size: int, at: int) -> bytes:
        seen.append({path.suffix for path in folder.iterdir()})
        return LARGE[at : at + size]

    store.put(KEY, read, len(LARGE))
    assert content(store, KEY) == LARGE
    assert len(seen) == 3, "once, in blocks"
    assert all(STAGED in suffixes for suffixes in seen)
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_an_upload_that_fails_leaves_nothing_in_the_folder(
    place: BucketPlace, tmp_path: Path
) -> None:
    store = StagedBucket(replace(place, secret_access_key="another"), tmp_path)
    with pytest.raises(ArchiveError):
        put_bytes(store, KEY, b"data")
    with pytest.raises(OSError, match="cannot be read"):
        store.put(KEY, _unreadable, 4)
    assert not list(tmp_path.iterdir())
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with pytest.raises(ArchiveError, match=r"tmp_upload_dir .*file is not to be had"):
        StagedBucket(place, blocked).check()
    with pytest.raises(ArchiveError, match=r"tmp_upload_dir .*file takes no copy"):
        put_bytes(StagedBucket(place, blocked), KEY, b"data")


def _unreadable(size: int, at: int) -> bytes:
    raise OSError(f"{size} bytes at {at} cannot be read")
