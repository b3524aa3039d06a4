"""The result, read back from the Parquet files, and the same computed from the input to compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pa_dataset
from rich.table import Table


@dataclass(frozen=True, slots=True)
class CarrierRow:
    """Flights of one carrier. A cancelled flight has no delay and does not enter the mean."""

    carrier: str
    flights: int
    cancelled: int
    dep_delay_total_min: int

    @property
    def dep_delay_mean_min(self) -> float | None:
        """Mean delay of the flights that left, in minutes; None if none left."""
        left = self.flights - self.cancelled
        return self.dep_delay_total_min / left if left else None


def summarise(flights: pa.Table) -> list[CarrierRow]:
    """One row per carrier, most flights first. Needs the columns carrier and dep_delay."""
    delays = flights.select(["carrier", "dep_delay"])
    is_nan = pc.is_nan(delays["dep_delay"].cast(pa.float64()))
    if pc.any(is_nan).as_py():
        raise ValueError("dep_delay has NaN where a cancelled flight must be null")
    grouped = delays.group_by("carrier").aggregate(
        [([], "count_all"), ("dep_delay", "count"), ("dep_delay", "sum")]
    )
    rows = [
        CarrierRow(
            carrier=row["carrier"],
            flights=row["count_all"],
            cancelled=row["count_all"] - row["dep_delay_count"],
            dep_delay_total_min=row["dep_delay_sum"] or 0,
        )
        for row in grouped.to_pylist()
    ]
    return sorted(rows, key=lambda row: (-row.flights, row.carrier))


def read_lake(folder: Path) -> tuple[pa.Table, int]:
    """The columns that the summary needs, of all Parquet files, and how many files there are."""
    dataset = pa_dataset.dataset(folder, format="parquet", partitioning="hive")
    return dataset.to_table(columns=["carrier", "dep_delay"]), len(dataset.files)


def render(rows: list[CarrierRow], airlines: dict[str, str]) -> Table:
    """The table that a person sees."""
    table = Table(title="Flights from New York City, read back from Parquet (delay of departure)")
    table.add_column("carrier", footer="all")
    table.add_column("airline", no_wrap=True)
    table.add_column("flights", justify="right", footer=f"{sum(row.flights for row in rows):,}")
    cancelled = sum(row.cancelled for row in rows)
    table.add_column("cancelled", justify="right", footer=f"{cancelled:,}")
    total = sum(row.dep_delay_total_min for row in rows)
    left = sum(row.flights - row.cancelled for row in rows)
    mean = f"{total / left:.2f}" if left else "-"
    table.add_column("mean delay, min", justify="right", footer=mean)
    table.show_footer = True
    for row in rows:
        mean_min = row.dep_delay_mean_min
        table.add_row(
            row.carrier,
            airlines.get(row.carrier, ""),
            f"{row.flights:,}",
            f"{row.cancelled:,}",
            "-" if mean_min is None else f"{mean_min:.2f}",
        )
    return table
