"""Which key each message of a source has. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from iggy_spark.pylists import values_of
from iggy_spark.sending import KEY_BYTES_MAX
from iggy_spark.sources.base import SCHEMA

_ANY = msgspec.json.Decoder()


def with_keys(batch: pa.RecordBatch, path: str | None) -> pa.RecordBatch:
    """The messages with the keys that they are sent with: what stands at the dotted `path` of each
    payload, or without a path what the source gave. Null: no key.
    """
    column = batch.column("key")
    if path is not None:
        names = path.split(".")
        found = [_at(payload, names) for payload in values_of(batch.column("payload"))]
    elif column.null_count == len(column):
        return batch
    else:
        found = values_of(column)
    keys = pa.array([_short(key) for key in found], SCHEMA.field("key").type)
    columns = [batch.column("id"), keys, batch.column("payload")]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _at(payload: bytes, names: Sequence[str]) -> bytes | None:
    try:
        value: Any = _ANY.decode(payload)
    except msgspec.DecodeError:
        return None
    for name in names:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value, order="sorted")


def _short(key: bytes | None) -> bytes | None:
    """A key that a message can have. One that is too long is stood for by its hash."""
    if not key:
        return None
    return key if len(key) <= KEY_BYTES_MAX else hashlib.blake2b(key).hexdigest().encode()
