"""The table that the demo ends with."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flights_demo import table

FLIGHTS = pa.table(
    {
        "carrier": ["UA", "UA", "AA", "HA"],
        "dep_delay": pa.array([10, None, -4, None], pa.int32()),
    }
)


def test_cancelled_flights_count_and_do_not_enter_the_mean() -> None:
    ua, aa, ha = table.summarise(FLIGHTS)

    assert (ua.carrier, ua.flights, ua.cancelled, ua.dep_delay_mean_min) == ("UA", 2, 1, 10.0)
    assert (aa.carrier, aa.dep_delay_mean_min) == ("AA", -4.0)
    assert (ha.carrier, ha.dep_delay_mean_min) == ("HA", None)


def test_nan_is_a_mistake() -> None:
    flights = pa.table({"carrier": ["UA"], "dep_delay": [float("nan")]})

    with pytest.raises(ValueError, match="NaN"):
        table.summarise(flights)


def test_the_lake_is_read_with_its_folders(tmp_path: Path) -> None:
    for month, rows in ((1, FLIGHTS.slice(0, 2)), (2, FLIGHTS.slice(2))):
        folder = tmp_path / f"month={month}"
        folder.mkdir()
        pq.write_table(rows, folder / "one.parquet")
    (tmp_path / "_iggy").mkdir()
    (tmp_path / "_iggy" / "unfinished.parquet").write_bytes(b"not one yet")

    found, files = table.read_lake(tmp_path)

    assert files == 2
    assert table.summarise(found) == table.summarise(FLIGHTS)


def test_the_table_has_a_total() -> None:
    out = io.StringIO()

    Console(file=out, width=100).print(table.render(table.summarise(FLIGHTS), {"UA": "United"}))

    last = out.getvalue().splitlines()[-2]
    assert [cell.strip() for cell in last.split("│")[1:-1]] == ["all", "", "4", "2", "3.00"]
    assert "United" in out.getvalue()
