"""Files of other formats hold the same rows, and what a format cannot hold is refused before."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pytest

from iggy_spark import blocks
from iggy_spark.errors import OptionError
from iggy_spark.offsets import OffsetRange
from iggy_spark.payload import Payload
from iggy_spark.sinks.base import Portion
from iggy_spark.sinks.files import FilesSink
from sink_cases import PlayedTask, declare, document, portions, wanted

SPAN = wanted(0, 10)
CSV = ds.CsvFileFormat(
    convert_options=pyarrow.csv.ConvertOptions(
        column_types={"at": pa.timestamp("us", tz="UTC"), "amount": pa.string()}
    )
)
NESTED = "number BIGINT, tags ARRAY<STRING>, inner STRUCT<a: INT, b: STRING>"


def sink(folder: Path, file_format: Any, payload: Payload, *columns: str) -> FilesSink:
    block = blocks.Files(str(folder), format=file_format, partition_by=list(columns))
    made = FilesSink(block, payload)
    made.check()
    return made


def write(made: FilesSink, found: Iterator[Portion], span: OffsetRange = SPAN) -> None:
    made.write_task(span, found, PlayedTask())


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{suffix}") if "_iggy" not in path.parts)


@pytest.mark.parametrize("file_format", ["Parquet", "Orc", "Csv"])
@pytest.mark.parametrize("columns", [(), ("month",)], ids=["one-file", "folders"])
def test_every_format_holds_the_same_rows(
    tmp_path: Path, file_format: str, columns: tuple[str, ...]
) -> None:
    write(sink(tmp_path, file_format, declare(), *columns), portions(SPAN))

    suffix = f".{file_format.lower()}"
    names = {path.name for path in files(tmp_path, suffix)}
    assert len(names) == 1  # the range's name in each folder
    how = CSV if file_format == "Csv" else file_format.lower()
    table = ds.dataset(files(tmp_path, suffix), format=how, partitioning="hive").to_table()
    rows = sorted(table.to_pylist(), key=lambda row: int(row["number"]))
    assert [row["number"] for row in rows] == list(range(10))
    assert [row["iggy_offset"] for row in rows] == list(range(10))
    assert [str(row["amount"]) for row in rows] == [f"{n}.25" for n in range(10)]
    at = dt.datetime(2026, 3, 29, 0, 59, 59, 999999, tzinfo=dt.UTC)
    assert [row["at"] and row["at"].replace(tzinfo=dt.UTC) for row in rows] == [None, at] * 5


def test_what_is_there_is_told_whatever_the_format(tmp_path: Path) -> None:
    write(sink(tmp_path, "Orc", declare()), portions(wanted(0, 4)), wanted(0, 4))
    write(sink(tmp_path, "Csv", declare()), portions(wanted(4, 6)), wanted(4, 6))

    assert sink(tmp_path, "Parquet", declare()).prepare(SPAN.incarnation) == {0: ((0, 6),)}


def test_orc_holds_nested_columns_and_bytes(tmp_path: Path) -> None:
    value = {"number": 1, "tags": ["a", None], "inner": {"a": 1, "b": None}}
    payload = declare(text=NESTED)
    found = portions(wanted(0, 1), payload=payload, made=lambda n: json.dumps(value).encode())

    write(sink(tmp_path, "Orc", payload), found, wanted(0, 1))

    (row,) = ds.dataset(files(tmp_path, ".orc"), format="orc").to_table().to_pylist()
    assert {name: row[name] for name in value} == value


def test_csv_quotes_what_needs_it_and_tells_null_from_empty(tmp_path: Path) -> None:
    payload = declare(text="a STRING, b STRING")
    texts = ['x,"y"\nz', "", None]
    found = portions(
        wanted(0, 3), payload=payload, made=lambda n: json.dumps({"a": texts[n]}).encode()
    )

    write(sink(tmp_path, "Csv", payload), found, wanted(0, 3))

    (file,) = files(tmp_path, ".csv")
    form = pyarrow.csv.ConvertOptions(
        column_types={"a": pa.string()}, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    newlines = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(file, convert_options=form, parse_options=newlines)
    assert table.column("a").to_pylist() == texts


def test_text_is_a_line_a_message_and_nothing_else(tmp_path: Path) -> None:
    payload = declare("Text", None)

    write(sink(tmp_path, "Text", payload), portions(SPAN, payload=payload))

    (file,) = files(tmp_path, ".txt")
    assert file.read_bytes().splitlines() == [document(n) for n in range(10)]


def test_json_is_a_document_a_line(tmp_path: Path) -> None:
    write(sink(tmp_path, "Json", declare(), "month"), portions(SPAN))

    found = [
        json.loads(line)
        for file in files(tmp_path, ".json")
        for line in file.read_bytes().splitlines()
    ]
    found.sort(key=lambda row: int(row["number"]))
    assert found[1] == {
        "number": 1,
        "customer": "c1",
        "amount": 1.25,
        "at": "2026-03-29T00:59:59.999999Z",
        "iggy_partition_id": 0,
        "iggy_offset": 1,
        "iggy_timestamp": "2026-12-31T23:59:59.999999Z",
    }
    assert [row["iggy_offset"] for row in found] == list(range(10))


def test_json_without_a_schema_stays_the_document_that_it_was(tmp_path: Path) -> None:
    payload = declare("Json", None)

    write(sink(tmp_path, "Json", payload), portions(SPAN, payload=payload))

    (file,) = files(tmp_path, ".json")
    found = [json.loads(line) for line in file.read_bytes().splitlines()]
    own = [{k: v for k, v in row.items() if not k.startswith("iggy_")} for row in found]
    assert own == [json.loads(document(n)) for n in range(10)]
    assert [row["iggy_offset"] for row in found] == list(range(10))


@pytest.mark.parametrize(
    ("file_format", "payload", "told"),
    [
        ("Text", ("Json", NESTED), r"files\.format: Text has a line a message and no columns"),
        ("Csv", ("Json", NESTED), r"files\.format: Csv cannot hold 'tags', which is ARRAY<STRING>"),
        ("Csv", ("Raw", None), r"files\.format: Csv cannot hold 'payload', which is BINARY"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    tmp_path: Path, file_format: str, payload: tuple[str, str | None], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        sink(tmp_path, file_format, declare(*payload))
