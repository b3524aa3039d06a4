"""Documents that transforms are tried on, without Spark and without a broker."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from iggy_spark import decode, payload
from message_columns import messages

Document = dict[str, Any]


def declare(transforms: Any, schema: str | None = None) -> payload.Payload:
    """A payload of JSON documents, as a reader's options declare it."""
    return payload.parse("json", schema, transforms, names=payload.OPTION_NAMES)


def run(
    transforms: Any, *documents: Document, schema: str | None = None, headers: Any = ()
) -> decode.Decoded:
    """Decode these documents as one portion of messages."""
    decoder = decode.build(declare(transforms, schema))
    assert decoder is not None
    data = pa.array([json.dumps(one).encode() for one in documents], pa.binary())
    return decoder.decode(data, messages(len(documents), headers=headers))


def one(transforms: Any, document: Document, **more: Any) -> Any:
    """The document that comes out."""
    found = run(transforms, document, **more)
    assert found.rejected == ()
    (value,) = found.values.to_pylist()
    return json.loads(value) if isinstance(value, str) else value


def fault(transforms: Any, document: Document) -> str:
    """What the only rejected document is told, by the first transform."""
    (bad,) = run(transforms, document).rejected
    assert (bad.stage, bad.kind, bad.transform) == ("transform", "TransformError", 0)
    return bad.message
