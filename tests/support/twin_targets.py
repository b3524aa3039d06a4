"""The sample docs/samples/lake-and-postgres.yaml: what it says, and what is in its two targets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from pyiceberg.exceptions import NoSuchTableError

from iceberg_tables import IcebergTables
from object_store import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from page_samples import SAMPLES
from postgres import DATABASE, PASSWORD, USERNAME, Postgres

SAMPLE: Final = next(path for path in SAMPLES if path.name == "lake-and-postgres.yaml")
BUCKET: Final = "lake"  # of the sample, as are the names below
TABLE, ROWS_OF = "shop.orders", "orders"


Place = tuple[int, int]  # partition and offset


class Row(NamedTuple):
    """A message as a target holds it, without the columns that nobody compares."""

    partition: int
    offset: int
    id: int
    customer: str
    cents: int


def sample_for(store: ObjectStore, postgres: Postgres) -> str:
    """The text of the sample, with addresses and logins of these."""
    text = SAMPLE.read_text()
    for old, new in (
        ("http://127.0.0.1:8333", store.endpoint),
        ("127.0.0.1:5432/shop", f"{postgres.host}:{postgres.port}/{DATABASE}"),
        ("password-of-the-database", PASSWORD),
        ("s3.access-key-id: lake", f"s3.access-key-id: {ACCESS_KEY}"),
        ("secret-of-the-store", SECRET_KEY),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def order(number: int) -> bytes:
    """A message with this id."""
    value = {"id": number, "customer": f"c{number % 7}", "amount": number / 100}
    return json.dumps({**value, "at": "2026-03-29T00:59:59.999999Z"}).encode()


def bad_order(number: int) -> bytes:
    """One that neither target can hold."""
    return json.dumps({"id": f"number {number}"}).encode()


class Targets:
    """Both, past the sinks."""

    def __init__(self, store: ObjectStore, postgres: Postgres) -> None:
        """Makes the bucket of the sample."""
        self.store, self.postgres = store, postgres
        store.make_bucket(BUCKET)
        login = f"{USERNAME}:{PASSWORD}@{postgres.host}:{postgres.port}/{DATABASE}"
        self.catalog = {
            "type": "sql",
            "uri": f"postgresql+psycopg://{login}",
            "warehouse": f"s3://{BUCKET}/tables",
            "s3.endpoint": store.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
        }

    @property
    def tables(self) -> IcebergTables:
        """The catalog."""
        return IcebergTables(self.catalog)

    def lake(self) -> list[Row]:
        """The rows of the Iceberg table, sorted."""
        try:
            found = self.tables.read(TABLE)
        except NoSuchTableError:
            return []
        names = ("iggy_partition_id", "iggy_offset", "id", "customer", "amount")
        columns = [found.column(name).to_pylist() for name in names]
        return sorted(_rows(zip(*columns, strict=True)))

    def table(self) -> list[Row]:
        """The rows in PostgreSQL, sorted."""
        if self.postgres.run(f"select to_regclass('{ROWS_OF}')") == [(None,)]:
            return []
        names = "iggy_partition_id, iggy_offset, id, customer, amount"
        return sorted(_rows(self.postgres.run(f"select {names} from {ROWS_OF}")))

    def counts(self) -> dict[str, int]:
        """How many rows there are in each, without reading them."""
        lake = table = 0
        with suppress(NoSuchTableError):
            snapshot = self.tables.table(TABLE).current_snapshot()
            if snapshot is not None and snapshot.summary is not None:
                lake = int(snapshot.summary["total-records"] or 0)
        if self.postgres.run(f"select to_regclass('{ROWS_OF}')") != [(None,)]:
            ((table,),) = self.postgres.run(f"select count(*) from {ROWS_OF}")
        return {"lake": lake, "table": table}


def _rows(found: Iterable[tuple[int, int, int, str, float]]) -> Iterator[Row]:
    for partition, offset, number, customer, amount in found:
        yield Row(partition, offset, number, customer, round(100 * amount))


def row_of(partition: int, offset: int, payload: bytes) -> Row | None:
    """What a message is in a target; None if it can be in none."""
    value = json.loads(payload)
    if not isinstance(value["id"], int):
        return None
    return Row(partition, offset, value["id"], value["customer"], round(100 * value["amount"]))


def difference(found: list[Row], wanted: list[Row]) -> str:
    """In words, for a test that fails; empty if they are the same."""
    has, needs = Counter(found), Counter(wanted)
    more, less = has - needs, needs - has
    if not more and not less:
        return ""
    return f"{more.total()} too many: {list(more)[:3]}; {less.total()} missing: {list(less)[:3]}"
