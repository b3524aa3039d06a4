"""Iceberg tables for tests: a catalog in SQLite over a folder or a bucket, or one behind REST.

What is in a table is read by PyIceberg's own scan, with a catalog that nothing else has opened.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from iggy_spark import blocks
from object_store import ACCESS_KEY, REGION, SECRET_KEY, ObjectStore
from postgres import DATABASE, PASSWORD, USERNAME, Postgres

_numbers = itertools.count()


def new_name() -> str:
    """Of a table that no other test has."""
    return f"shop.orders{next(_numbers)}"


@dataclass(frozen=True)
class IcebergTables:
    """A catalog, as settings have it: what is open, and the folder with what is not."""

    catalog: Mapping[str, str]
    login: Path | None = None

    def settings(self, table: str, **more: Any) -> dict[str, Any]:
        """The block of a job's file."""
        found: dict[str, Any] = {"table": table, "catalog": dict(self.catalog), **more}
        return found if self.login is None else {**found, "credentialsPath": str(self.login)}

    def block(self, table: str, **more: Any) -> blocks.Iceberg:
        """The same, read."""
        return blocks.Iceberg(
            table=table,
            catalog=dict(self.catalog),
            credentials_path=None if self.login is None else str(self.login),
            **more,
        )

    @contextmanager
    def opened(self) -> Iterator[Catalog]:
        """The catalog, past the sink."""
        secrets = {}
        if self.login is not None:
            secrets = {path.name: path.read_text() for path in self.login.iterdir()}
        catalog = load_catalog("default", **self.catalog, **secrets)
        try:
            yield catalog
        finally:
            catalog.close()

    def table(self, name: str) -> Table:
        """A table as it is now."""
        with self.opened() as catalog:
            return catalog.load_table(name)

    def read(self, name: str) -> pa.Table:
        """All rows that a reader finds."""
        return self.table(name).scan().to_arrow()

    def rows(self, name: str) -> list[tuple[int, int]]:
        """(partition, offset) of every row, sorted; none if there is no table."""
        try:
            found = self.read(name)
        except NoSuchTableError:
            return []
        columns = (found.column(f"iggy_{part}").to_pylist() for part in ("partition_id", "offset"))
        return sorted(zip(*columns, strict=True))


def folder_tables(folder: Path) -> IcebergTables:
    """A catalog in SQLite, tables in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return IcebergTables(
        {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/tables",
        }
    )


def postgres_tables(postgres: Postgres, folder: Path) -> IcebergTables:
    """A catalog in PostgreSQL, whose address has a password; tables in a folder."""
    login = folder / "login"
    login.mkdir(parents=True)
    user, place = f"{USERNAME}:{PASSWORD}", f"127.0.0.1:{postgres.port}/{DATABASE}"
    (login / "uri").write_text(f"postgresql+psycopg://{user}@{place}")
    return IcebergTables({"type": "sql", "warehouse": f"file://{folder}/tables"}, login)


def bucket_tables(store: ObjectStore, folder: Path) -> IcebergTables:
    """A catalog in SQLite, tables in a bucket."""
    found = folder_tables(folder).catalog
    warehouse = f"s3://{store.common_bucket}/iceberg{next(_numbers)}"
    return IcebergTables({**found, "warehouse": warehouse, **_place(store)}, _login(store))


def rest_tables(store: ObjectStore) -> IcebergTables:
    """The catalog that the store itself serves."""
    bucket = store.table_bucket()
    return IcebergTables(
        {
            "type": "rest",
            "uri": store.catalog,
            "oauth2-server-uri": f"{store.catalog}/v1/oauth/tokens",
            "warehouse": f"s3://{bucket}",
            **_place(store),
        },
        _login(store, credential=f"{ACCESS_KEY}:{SECRET_KEY}"),
    )


def _place(store: ObjectStore) -> dict[str, str]:
    return {"s3.endpoint": store.endpoint, "s3.region": REGION}


def _login(store: ObjectStore, **more: str) -> Path:
    folder = store.folder / f"catalog-login-{len(more)}"
    folder.mkdir(exist_ok=True)
    keys = {"s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY, **more}
    for name, value in keys.items():
        (folder / name).write_text(value)
    return folder
