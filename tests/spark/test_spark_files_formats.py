"""What files of each format hold: records, their places, and files that are not what they say."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iggy_spark.errors import BadRow, DataLoss
from iggy_spark.sources import files_formats, files_place, files_text
from iggy_spark.sources.files_place import File


def read(form: str, data: bytes, *, name: str = "a", first: int = 0, end: int | None = None) -> Any:
    """(place, payload) of all messages."""
    file = File(1, name, len(data), "t")
    made = files_formats.of(form, lambda _, at, size: data[at : at + size])
    return list(made.messages(file, first, end))


def cut(form: str, data: bytes, count: int, *, name: str = "a", first: int = 0) -> int | None:
    file = File(1, name, len(data), "t")
    return files_formats.of(form, lambda _, at, size: data[at : at + size]).cut(file, first, count)


@pytest.fixture(params=[1, 3, 1000])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However a file is fetched."""
    monkeypatch.setattr(files_formats, "CHUNK_BYTES", request.param)
    monkeypatch.setattr(files_text, "UNPACKED_BYTES", request.param)
    yield


LINES = b'\xef\xbb\xbf{"a":1}\r\n\n \t\r\n{"b":2}\n{"c":3}'


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_lines_are_messages_and_blank_ones_are_none(pack: Any) -> None:
    data, name = pack(LINES), "a" if pack is bytes else "a.gz"
    whole = [(0, b'{"a":1}'), (17, b'{"b":2}'), (25, b'{"c":3}')]

    assert read("Json", data, name=name) == whole
    assert read("Text", data, name=name, first=17) == whole[1:]
    assert read("Text", data, name=name, first=0, end=25) == whole[:2]
    assert [cut("Text", data, count, name=name) for count in (1, 2, 3)] == [17, 25, None]
    assert cut("Text", data, 1, name=name, first=17) == 25


@pytest.mark.usefixtures("chunks")
def test_rows_of_csv_are_objects_of_texts() -> None:
    data = b'\xef\xbb\xbfid,"te""xt"\r\n1,"two\r\nlines, ""quoted"""\r\n\r\n2,\n3,"last"'
    places = [place for place, _ in read("Csv", data)]

    assert [json.loads(payload) for _, payload in read("Csv", data)] == [
        {"id": "1", 'te"xt': 'two\r\nlines, "quoted"'},
        {"id": "2", 'te"xt': ""},
        {"id": "3", 'te"xt': "last"},
    ]
    assert [payload for _, payload in read("Csv", data, first=places[1])] == [
        payload for _, payload in read("Csv", data)[1:]
    ]
    assert cut("Csv", data, 2) == places[1]  # the header counts
    assert read("Csv", b"") == []
    assert read("Csv", b"id,text\n") == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a,b\n1,2,3\n", "a has a row at byte 4 with 3 values, and its header has 2 names"),
        (b"a,b\n1\n", "with 1 values"),
        (b'a,b\n1,"open\n', "row at byte 4 that is no CSV in UTF-8"),
        (b'a,b\n1,5" pipe\n2,6" pipe\n', "row at byte 4 that is no CSV"),
        (b"a,b\n1,\xff\n", "no CSV in UTF-8"),
        (b"a,a\n1,2\n", "a has a name twice in its header"),
    ],
)
def test_a_row_that_is_no_csv_is_named(data: bytes, text: str) -> None:
    with pytest.raises(BadRow, match=text):
        read("Csv", data)


@pytest.mark.usefixtures("chunks")
def test_a_gzip_file_of_several_parts_is_one() -> None:
    data = gzip.compress(b"a\nb") + gzip.compress(b"c\n") + gzip.compress(b"") + bytes(600)

    assert [payload for _, payload in read("Text", data, name="x.gz")] == [b"a", b"bc"]
    assert read("Raw", data, name="x.gz") == [(0, data)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (gzip.compress(b"text" * 100, mtime=0)[:-9], "x.gz ends within its compressed data"),
        (b"no gzip", "x.gz is no gzip file"),
    ],
)
def test_a_gzip_file_that_is_none_is_named(data: bytes, text: str) -> None:
    file = File(1, "x.gz", len(data), "t")

    assert files_formats.of("Text", lambda _, at, size: data[at : at + size]).density(file) > 0
    with pytest.raises(BadRow, match=text):
        read("Text", data, name="x.gz")


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("form", ["Text", "Csv"])
def test_a_record_that_is_no_message_is_named(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_text, "RECORD_BYTES_MAX", 20)

    record = b"x" * 21 if form == "Text" else b'"' + b"x" * 12 + b"\n" + b"x" * 12 + b'"'

    with pytest.raises(BadRow, match="a has a record at byte 2 of more than 20 bytes"):
        read(form, b"a\n" + record + b"\nb")


def parquet(table: pa.Table, **more: Any) -> bytes:
    data = io.BytesIO()
    pq.write_table(table, data, **more)
    return data.getvalue()


def test_rows_of_parquet_are_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_formats, "ROWS", 3)
    data = parquet(pa.table({"n": list(range(23))}), row_group_size=10)
    whole = [(number, b'{"n":%d}' % number) for number in range(23)]

    assert read("Parquet", data) == whole
    for first in range(0, 23, 4):
        for end in range(first + 1, 23, 5):
            assert read("Parquet", data, first=first, end=end) == whole[first:end]
    assert cut("Parquet", data, 10, first=5) == 15
    assert cut("Parquet", data, 18, first=5) is None


def test_types_of_parquet_are_written_as_sinks_write_them() -> None:
    moment = datetime.datetime(2026, 12, 31, 23, 59, 59, 123456, datetime.UTC)
    columns = {
        "d": pa.array([decimal.Decimal("1.50")], pa.decimal128(9, 2)),
        "b": pa.array([b"\x00\xff"]),
        "us": pa.array([moment], pa.timestamp("us", "UTC")),
        "ns": pa.array([moment], pa.timestamp("ns", "UTC")),
        "ms": pa.array([moment.replace(tzinfo=None)], pa.timestamp("ms")),
        "day": pa.array([moment.date()]),
        "no": pa.array([None], pa.int32()),
        "nan": pa.array([float("nan")]),
        "list": pa.array([[1, 2]]),
        "struct": pa.array([{"x": {"y": "z"}}]),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    ((_, payload),) = read("Parquet", parquet(pa.table(columns)))

    assert payload.decode() == (
        '{"d":1.50,"b":"AP8=","us":"2026-12-31T23:59:59.123456Z",'
        '"ns":"2026-12-31T23:59:59.123456Z","ms":"2026-12-31T23:59:59.123000","day":"2026-12-31",'
        '"no":null,"nan":null,"list":[1,2],"struct":{"x":{"y":"z"}},"map":{"k":1}}'
    )


@pytest.mark.parametrize("data", [b"no parquet at all", parquet(pa.table({"n": [1]}))[:-1]])
def test_a_file_that_is_no_parquet_is_named(data: bytes) -> None:
    with pytest.raises(BadRow, match="a cannot be read as Parquet"):
        read("Parquet", data)


def test_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])

    with pytest.raises(BadRow, match="two columns of one name"):
        read("Parquet", parquet(table))


def test_what_is_wrong_while_parquet_is_read_stays_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files_formats, "BUFFER_BYTES", 1000)
    data = parquet(pa.table({"n": list(range(100_000))}), row_group_size=1000)
    file = File(1, "a", len(data), "t")
    calls = []

    def read_some(_: File, at: int, size: int) -> bytes:
        calls.append(at)
        if len(calls) > 3:
            raise files_place.gone(file)
        return data[at : at + size]

    with pytest.raises(DataLoss, match="a was to be read"):
        list(files_formats.of("Parquet", read_some).messages(file, 0, None))
