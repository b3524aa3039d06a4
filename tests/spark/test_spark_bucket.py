"""Files in an object store: a process killed at any request, drivers that take over, troubles."""

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from files_cases import INCARNATION, PAYLOAD, PlayedTask, offsets_of, portions, sink, wanted
from iggy_spark import blocks, s3
from iggy_spark.errors import Fenced, SinkError
from iggy_spark.offsets import OffsetRange
from iggy_spark.retry import Policy, Retry
from iggy_spark.sinks.base import without
from iggy_spark.sinks.files import FilesSink
from killed_writes import Requests, killed_at
from lakes import BucketLake, block_of
from object_store import ObjectStore, running_object_store

SPAN = wanted(0, 10)
WHOLE = {0: ((0, 10),)}


def write(target: FilesSink, *spans: OffsetRange) -> Callable[[], object]:
    """The work of a task, for each range."""
    return lambda: [
        target.write_task(span, portions(span), PlayedTask()) for span in spans or (SPAN,)
    ]


def write_missing(target: FilesSink) -> None:
    """What a job does after a start: prepare, then write what is not there."""
    covered = target.prepare(INCARNATION)
    assert covered in ({}, WHOLE)
    for part in without(SPAN, covered.get(0, ())):
        target.write_task(part, portions(part), PlayedTask())


@pytest.mark.parametrize("columns", [(), ("month",)], ids=["one-file", "folders"])
def test_a_write_killed_at_any_request_leaves_a_range_whole_or_absent(
    store: ObjectStore, tmp_path: Path, columns: tuple[str, ...]
) -> None:
    for number in itertools.count():
        lake = BucketLake(store, tmp_path / str(number))
        if not killed_at(number, write(sink(lake, *columns))):
            break
        seen = set(lake.files())

        write_missing(sink(lake, *columns))

        assert offsets_of(lake) == list(range(10)), f"killed after {number} requests"
        assert seen <= set(lake.files())
        assert lake.left() == []
    assert number == (15 if columns else 3)


def test_a_start_killed_at_any_request_is_made_up_for(store: ObjectStore, tmp_path: Path) -> None:
    """Its work: one range that a note lists, one that waits, one file that waits."""

    for number in itertools.count():
        lake = BucketLake(store, tmp_path / str(number))
        for span, columns, done in ((SPAN, 1, 11), (wanted(10, 20), 1, 6), (wanted(20, 30), 0, 2)):
            target = sink(lake, *["month"][:columns])
            assert killed_at(done, write(target, span))
        target = sink(lake)
        if not killed_at(number, lambda target=target: target.prepare(INCARNATION)):  # type: ignore[misc]
            break

        covered = sink(lake).prepare(INCARNATION)

        assert covered == WHOLE, f"killed after {number} requests"
        assert offsets_of(lake) == list(range(10))
        assert lake.left() == []
    assert number > 10


@pytest.mark.parametrize("columns", [(), ("month",)], ids=["one-file", "folders"])
def test_a_driver_that_takes_over_at_any_request_sees_all_that_the_old_one_writes(
    store: ObjectStore, tmp_path: Path, columns: tuple[str, ...]
) -> None:
    """The old task has passed its last look at the mark, and goes on at the same time."""
    outcomes = []
    for number in itertools.count(8 if columns else 2):
        lake = BucketLake(store, tmp_path / str(number))
        old, new = sink(lake, *columns), sink(lake, *columns)
        covered: list[Any] = []
        requests = Requests()
        requests.before[number] = lambda new=new, covered=covered: covered.append(  # type: ignore[misc]
            new.prepare(INCARNATION)
        )
        is_fenced = False
        with requests.counted():
            try:
                write(old)()
            except Fenced:
                is_fenced = True
        if not covered:
            break

        assert covered in ([{}], [WHOLE])
        assert is_fenced == (covered == [{}])
        write_missing(new)
        assert offsets_of(lake) == list(range(10))
        assert lake.left() == []
        outcomes.append(is_fenced)
    # Before the note, or the completion of the only file, the new driver is first.
    assert outcomes == ([True, *[False] * 6] if columns else [True])


def test_a_task_that_may_not_write_any_more_leaves_nothing(bucket: BucketLake) -> None:
    def confirm() -> None:
        raise Fenced("another run has taken over")

    with pytest.raises(Fenced):
        sink(bucket, "month").write_task(SPAN, portions(SPAN), PlayedTask(confirm=confirm))

    assert bucket.files() == bucket.left() == []


def test_a_repeated_task_finds_what_its_first_attempt_noted(bucket: BucketLake) -> None:
    target = sink(bucket, "month")
    assert killed_at(10, write(target))
    assert len(bucket.left()) > 1

    sink(bucket, "month").write_task(SPAN, portions(SPAN), PlayedTask())

    assert offsets_of(bucket) == list(range(10))
    assert bucket.left() == []


def test_uploads_and_objects_of_others_stay(bucket: BucketLake) -> None:
    name = f"{bucket.prefix}/month=1/theirs.parquet"
    bucket.client.create_multipart_upload(Bucket=bucket.bucket, Key=name)
    bucket.client.put_object(Bucket=bucket.bucket, Key=f"{bucket.prefix}/README", Body=b"read me")

    sink(bucket).prepare(INCARNATION)

    assert bucket.left() == [name]
    assert bucket.files() == ["README"]


def test_a_promise_of_a_note_that_cannot_be_kept_is_an_error(bucket: BucketLake) -> None:
    target = sink(bucket, "month")
    assert killed_at(11, write(target))
    (appeared,) = bucket.files()
    for item in bucket.uploads():
        bucket.client.abort_multipart_upload(Bucket=bucket.bucket, **item)

    with pytest.raises(SinkError, match="rule of the bucket end uploads too soon"):
        sink(bucket, "month").prepare(INCARNATION)

    bucket.remove(appeared)
    assert sink(bucket, "month").prepare(INCARNATION) == {}  # nothing of it is left: written again


def test_a_large_file_goes_in_parts(
    bucket: BucketLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "PART_BYTES", 5 << 20)
    data = bytes(range(256)) * (11 << 12)  # 11 MiB
    file = tmp_path / "large"
    file.write_bytes(data)
    target = s3.Bucket(bucket.path, bucket.connection)

    staged = target.stage("large", file)
    assert (len(staged.etags), target.exists("large")) == (3, False)
    assert target.complete(staged)

    assert target.get("large") == data
    assert list(target.list_keys()) == ["large"]


def test_rotated_credentials_are_used_at_once(bucket: BucketLake, tmp_path: Path) -> None:
    login = shutil.copytree(bucket.connection.credentials_path, tmp_path / "login")
    bucket.connection = replace(bucket.connection, credentials_path=str(login))
    secret = login / s3.SECRET_KEY_FILE
    right = secret.read_text()
    target = sink(bucket)
    secret.write_text("wrong")
    with pytest.raises(SinkError, match="refuses the access key"):
        target.prepare(INCARNATION)

    secret.write_text(right)

    assert target.prepare(INCARNATION) == {}


def test_troubles_with_the_store_are_named(bucket: BucketLake, tmp_path: Path) -> None:
    def told(**changes: Any) -> str:
        sound = bucket.connection
        bucket.connection = replace(sound, **changes)
        with pytest.raises(SinkError) as caught:
            sink(bucket).prepare(INCARNATION)
        bucket.connection = sound
        return str(caught.value)

    assert "accessKeyId and secretAccessKey" in told(credentials_path=str(tmp_path / "none"))
    assert "Could not connect" in told(endpoint="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s3a://lake/a/b/", ("lake", "a/b")),
        ("s3://my.lake-1", ("my.lake-1", "")),
        ("s3a://", None),
        ("s3a://Lake/x", None),
        ("s3a://lake//x", None),
        ("s3a://lake/a/../b", None),
        ("s3a://user:secret@lake/x", None),
        ("/lake", None),
    ],
)
def test_addresses(text: str, found: tuple[str, str] | None) -> None:
    if found is not None:
        assert s3.parse_address(text) == found
        return
    with pytest.raises(ValueError, match="no address such as s3a://bucket/folder"):
        s3.parse_address(text)


def test_a_store_that_is_away_for_a_while_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with running_object_store(tmp_path / "store") as store:
        lake = BucketLake(store, tmp_path / "local")
        sink(lake)
        waits: list[float] = []

        def back(pause_s: float) -> None:
            waits.append(pause_s)
            if store.process is not None and store.process.poll() is not None:
                store.start()

        block = blocks.Files(lake.path, partition_by=["month"], s3=block_of(lake.connection))
        made = FilesSink(block, PAYLOAD, retry=Retry(Policy(timeout_s=60), sleep=back))
        made.prepare(INCARNATION)
        span = wanted(0, 6)
        store.kill()

        done = made.write_task(span, portions(span), PlayedTask())

        assert (done.rows, offsets_of(lake)) == (6, list(range(6)))
        assert waits
        store.kill()
        assert made.prepare(INCARNATION) == {0: ((0, 6),)}
        assert lake.left() == []
