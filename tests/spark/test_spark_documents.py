"""JSON documents of a batch in one piece: the same bytes as one by one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from iggy_spark.sinks.documents import Documents
from sink_cases import declare, portions, wanted

PLAIN = (b'{"a":1}', b'{"b":"\xc3\xa4","c":[{}]}', b'{"":{"d":"}"}}')
ODD = (
    b"{}", b" {} ", b'{ "a":1}', b'{"a":1 }', b' {"a":1}', b'{"a":1}\n', b'{\r\n"a":1}',
    b'{"a":1\t}',
    b'{"iggy_offset":7,"a":2}', b'{"a":"\\"iggy_"}',
)  # fmt: skip


def rows(*documents: bytes) -> pa.RecordBatch:
    """One batch, as a sink is given it."""
    payload = declare(text=None)
    span = wanted(5, 5 + len(documents))
    (portion,) = portions(
        span, payload=payload, made=lambda n: documents[n - 5], size=len(documents)
    )
    return portion.rows


def one_by_one(documents: Documents, batch: pa.RecordBatch) -> bytes:
    return b"".join(line + b"\n" for line in documents.of(batch))


@pytest.mark.parametrize("odd", [(), *[(one,) for one in ODD], ODD])
@pytest.mark.parametrize("position", [True, False])
def test_lines_are_the_documents(odd: tuple[bytes, ...], position: bool) -> None:
    documents = Documents(declare(text=None), position=position)
    batch = rows(*PLAIN, *odd, *PLAIN)

    lines = bytes(documents.lines(batch))

    assert lines == one_by_one(documents, batch)
    assert [json.loads(line) for line in lines.splitlines()]


def test_lines_of_a_part_of_a_batch_are_of_that_part() -> None:
    documents = Documents(declare(text=None))
    batch = rows(*PLAIN, *PLAIN)

    for first, count in ((0, 0), (0, 2), (2, 3), (5, 1), (6, 0)):
        part = batch.slice(first, count)
        assert bytes(documents.lines(part)) == one_by_one(documents, part)


def test_lines_of_plain_documents_are_as_expected() -> None:
    lines = bytes(Documents(declare(text=None)).lines(rows(b'{"a":1}')))

    assert lines == (
        b'{"a":1,"iggy_partition_id":0,"iggy_offset":5,'
        b'"iggy_timestamp":"2026-12-31T23:59:59.999999Z"}\n'
    )


def test_lines_of_declared_columns_are_the_documents() -> None:
    documents = Documents(declare())
    for portion in portions(wanted(0, 7)):
        assert bytes(documents.lines(portion.rows)) == one_by_one(documents, portion.rows)
