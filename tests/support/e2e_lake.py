"""A sink that writes rows with an `id` as Parquet to the store, in batches so small that what
happens to its driver falls between them.
"""

from __future__ import annotations

import e2e_store
from e2e_broker import small_driver
from e2e_kubectl import Document
from object_store import ObjectStore

BUCKET = "lake"
LAKE = f"{BUCKET}/orders"
TRIGGER_ROWS = 300


def lake() -> Document:
    """An entry of a topic's sinks."""
    return {
        "name": "lake",
        "type": "Files",
        "files": {"path": f"s3a://{LAKE}", "format": "Parquet", "s3": e2e_store.reached()},
        "payload": {"format": "Json", "schema": "id BIGINT"},
        "maxOffsetsPerTrigger": TRIGGER_ROWS,
        "trigger": {"interval": "500ms"},
        "checkpoint": {"volume": {"size": "1Gi", "accessMode": "ReadWriteOnce"}},
        "spark": small_driver(),
    }


def carried(store: ObjectStore) -> list[int]:
    """The ids of all rows in the lake."""
    try:
        table = e2e_store.read(store, LAKE)
    except FileNotFoundError:
        return []
    if "id" not in table.column_names:
        return []  # notes of the job, and no row yet
    found: list[int] = table["id"].to_pylist()
    return found
