"""The source Files: which files are read and when, what is said of one that is gone, limits."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from iggy_spark.errors import DataLoss, OffsetFormatError, OptionError, SinkError
from iggy_spark.sources import files, files_position
from iggy_spark.sources.base import Position
from iggy_spark.sources.files import FilesSource
from iggy_spark.sources.files_place import File
from iggy_spark.sources.files_position import At, News, Span, moved
from iggy_wire.kernel_types import PAYLOAD_BYTES_MAX
from object_store import ObjectStore
from source_contract import ALL, through_json
from source_folders import Folder, Place, Prefix, content, source

HOUR_S = 3600


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Folder(tmp_path / "in")
    store: ObjectStore = request.getfixturevalue("store")
    return Prefix(store)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "in")


def batch(of: FilesSource, start: Position, end: Position) -> list[tuple[bytes, bytes]]:
    """Id and payload of all messages."""
    rows = [
        row
        for part in of.split(start, end)
        for found in of.read(start, end, part)
        for row in found.to_pylist()
    ]
    return [(row["id"], row["payload"]) for row in rows]


def step(of: FilesSource, start: Position, count: int = ALL) -> tuple[Position, list[str]]:
    end = through_json(of.latest(start, count))
    return end, [payload.decode() for _, payload in batch(of, start, end)]


def aged(folder: Folder, name: str, age_s: float, *, now_s: float) -> None:
    """A file with one message, its name, that was changed so long ago."""
    folder.put(name, name.encode())
    os.utime(folder.root / name, (now_s - age_s, now_s - age_s))


def test_a_file_is_read_once_it_is_left_alone(folder: Folder) -> None:
    of = source(folder, format="Text", settle="1h")
    now_s = time.time()
    aged(folder, "old", 2 * HOUR_S, now_s=now_s)
    aged(folder, "young", 0, now_s=now_s)

    end, found = step(of, of.first())
    waiting = of.behind(end)
    aged(folder, "young", HOUR_S + 1, now_s=now_s)

    assert found == ["old"]
    assert waiting == 1
    assert step(of, end)[1] == ["young"]


def test_files_come_in_the_order_of_their_time_and_name(folder: Folder) -> None:
    now_s = time.time()
    for name, age_s in (("a", 10), ("c", 30), ("b", 20), ("e", 20), ("d", 20)):
        aged(folder, name, age_s, now_s=now_s)

    of = source(folder, format="Text")

    assert step(of, of.first())[1] == ["c", "b", "d", "e", "a"]


def test_a_file_that_shows_up_late_is_found(folder: Folder) -> None:
    of = source(folder, format="Text", settle="10s")
    now_s = time.time()
    aged(folder, "m", 60, now_s=now_s)
    end, _ = step(of, of.first())

    aged(folder, "c", 60, now_s=now_s)  # of the same time, a name that sorts before
    aged(folder, "b", HOUR_S, now_s=now_s)
    end, found = step(of, end)
    aged(folder, "a", HOUR_S + 61, now_s=now_s)  # this one is too late

    assert found == ["b", "c"]
    assert step(of, end) == (end, [])


def test_names_that_readers_skip_are_skipped(place: Place) -> None:
    for name in ("_tmp/a", "b/.c", "_SUCCESS", "d.part/e"):
        place.put(name, name.encode())
    place.put("empty", b"")

    of = source(place, format="Text")

    assert step(of, of.first())[1] == ["d.part/e"]


@pytest.mark.parametrize("form", ["Json", "Parquet"])
@pytest.mark.parametrize("how", ["gone", "changed"])
def test_a_planned_file_that_is_not_there_as_it_was_is_named(
    place: Place, form: str, how: str
) -> None:
    of = source(place, format=form)
    place.put("day/one", content(form, range(5)))
    place.put("day/two", content(form, range(5, 9)))
    end = of.latest(of.first(), ALL)

    if how == "gone":
        place.remove("day/two")
    else:
        place.put("day/two", content(form, range(5, 19)))

    with pytest.raises(DataLoss, match=r"^files\.path: day/two was to be read, and is gone or ch"):
        batch(of, of.first(), end)


def test_a_file_that_was_read_in_part_and_is_gone_is_named(folder: Folder) -> None:
    of = source(folder, format="Json")
    folder.put("a", content("Json", range(9)))
    end, found = step(of, of.first(), 4)
    folder.remove("a")

    assert len(found) == 4
    with pytest.raises(DataLoss, match=r"files\.path: a was to be read"):
        of.latest(end, 4)


def test_a_changed_file_is_a_new_one(place: Place) -> None:
    of = source(place, format="Json")
    place.put("a", content("Json", range(2)))
    start = of.first()
    end = through_json(of.latest(start, ALL))
    before = batch(of, start, end)
    place.put("a", content("Json", range(3)))

    again = batch(of, end, through_json(of.latest(end, ALL)))

    assert [payload for _, payload in again[:2]] == [payload for _, payload in before]
    assert {name for name, _ in again} & {name for name, _ in before} == set()


def test_a_file_that_is_no_message_is_refused_before_it_is_planned(folder: Folder) -> None:
    of = source(folder, format="Raw")
    with (folder.root / "big").open("wb") as file:
        file.truncate(PAYLOAD_BYTES_MAX + 1)

    with pytest.raises(SinkError, match=r"files\.path: big has 64000001 bytes.*move it away"):
        of.latest(of.first(), ALL)
    folder.remove("big")
    folder.put("small", b"\x00\xff")

    start = of.first()
    assert [payload for _, payload in batch(of, start, of.latest(start, ALL))] == [b"\x00\xff"]


def test_a_batch_in_a_large_file_fetches_what_it_needs(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iggy_spark.sources.files_formats.CHUNK_BYTES", 1000)
    folder.put("a", content("Json", range(10_000)))
    of = source(folder, format="Json")
    start, found = step(of, of.first(), 5000)
    end = through_json(of.latest(start, 100))
    fetched: list[tuple[int, int]] = []
    read = of._place.read

    def spied(file: File, first: int, size: int) -> bytes:
        fetched.append((first, size))
        return read(file, first, size)

    monkeypatch.setattr(of._place, "read", spied)
    more = batch(of, start, end)

    assert [json.loads(text)["number"] for text in found] == list(range(5000))
    assert [json.loads(text)["number"] for _, text in more] == list(range(5000, 5100))
    assert sum(size for _, size in fetched) <= 3000
    assert min(first for first, _ in fetched) == start["inside"][1] > 50_000


def test_a_batch_has_so_many_files_and_parts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILES_MAX", 50)
    monkeypatch.setattr(files, "PARTS_MAX", 4)
    for number in range(120):
        folder.put(f"{number:03}", b"x")
    of = source(folder, format="Text")

    at, sizes = of.first(), []
    while (end := through_json(of.latest(at, ALL))) != at:
        sizes.append((len(batch(of, at, end)), len(of.split(at, end))))
        at = end

    assert sizes == [(50, 4), (50, 4), (20, 4)]


def test_names_of_a_batch_are_bounded(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PLAN_BYTES_MAX", 1000)
    for number in range(20):
        folder.put(f"{number:03}" + "n" * 197, b"x")
    of = source(folder, format="Text")

    end, found = step(of, of.first())

    assert len(found) == 4
    assert len(step(of, end)[1]) == 4


def test_a_position_stays_small_however_many_files_have_one_time() -> None:
    """A moved tree may have thousands of files of one second."""
    at = At()
    found = [File(7, f"{number:05}", 1, "t") for number in range(10_000)]
    for first in range(0, len(found), 1000):
        some = [Span(file, 0, None) for file in found[first : first + 1000]]
        rest = found[first + 1000 :]
        assert all(map(News(at).has, found[first:]))
        at = moved(at, some, rest[0] if rest else None, window_us=5)
        assert len(at.entries()) <= files_position.READ_MAX

    assert not any(map(News(at).has, found))
    assert News(at).has(File(7, "99999", 1, "t"))


def test_of_very_many_files_the_last_ones_are_remembered() -> None:
    at = At()
    for first in range(0, 5000, 500):
        some = [File(n, f"{n:05}", 1, "t") for n in range(first, first + 500)]
        at = moved(at, [Span(file, 0, None) for file in some], None, window_us=1_000_000)
        assert len(at.entries()) <= files_position.READ_MAX

    assert not any(News(at).has(File(n, f"{n:05}", 1, "t")) for n in range(4000, 5000, 100))
    assert News(at).has(File(4100, "late", 1, "t"))
    assert not News(at).has(File(100, "too late", 1, "t"))


def test_files_that_wait_are_found_after_a_large_one_that_is_newer() -> None:
    """One that is read in part comes first, whatever shows up meanwhile."""
    large, late = File(100, "large", 9, "t"), File(50, "late", 1, "t")
    at = moved(At(), [Span(large, 0, 3)], None, window_us=10)

    at = moved(at, [Span(large, 3, None)], late, window_us=10)

    assert not News(at).has(large)
    assert News(at).has(late)


def test_a_position_of_something_else_is_refused(folder: Folder) -> None:
    folder.put("a", b"x")
    of = source(folder, format="Text")
    end = of.latest(of.first(), ALL)
    other = dict(end, after=[5, "b"])

    with pytest.raises(OffsetFormatError, match="holds no position of a source Files"):
        of.latest({"next": 5}, ALL)
    with pytest.raises(OffsetFormatError, match="begins elsewhere"):
        of.split(other, end)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"settle": "soon"}, r"files\.settle"),
        ({"path": "s3a://bucket//twice"}, r"files\.path"),
    ],
)
def test_wrong_settings_are_named(folder: Folder, block: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        source(folder, **block)
