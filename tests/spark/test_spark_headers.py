"""The column `headers`: every kind, every damage, and as a value of a Spark type."""

import struct
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import iggy_spark
from iggy_spark import header_columns
from iggy_spark.errors import OptionError
from iggy_wire import kernel
from iggy_wire.batch import Message, build
from iggy_wire.options import ValueKind, pair_bytes
from iggy_wire.primitives import Partitioning

if TYPE_CHECKING:
    from conftest import Topic

Pair = tuple[int, bytes, int, bytes]

PAIRS = st.tuples(
    st.sampled_from([2, 2, 2, 1, 6, 99]),
    st.one_of(st.text(min_size=1, max_size=20).map(str.encode), st.binary(min_size=1, max_size=9)),
    st.integers(1, 20),
    st.binary(min_size=1, max_size=12),
)


def columns(blocks: list[bytes]) -> kernel.Columns:
    batch = build([Message(b"x", headers=block) for block in blocks], origin_timestamp_us=1)
    assert kernel.admit(batch, 0, 0, 1) == 0
    return kernel.columns(bytes(batch), 0, 1 << 62)


def shown(column: pa.Array) -> list[list[tuple[str, tuple[str, bytes]]]]:
    return [[(k, (v["kind"], v["value"])) for k, v in row] for row in column.to_pylist()]


def name_of(kind: int) -> str:
    return ValueKind(kind).name.lower() if kind in list(ValueKind) else str(kind)


def key_of(kind: int, key: bytes) -> str:
    try:
        return key.decode() if kind == ValueKind.STRING else f"{name_of(kind)}:{key.hex()}"
    except UnicodeDecodeError:
        return f"string:{key.hex()}"


@given(st.lists(st.lists(PAIRS, max_size=6), min_size=1, max_size=8), st.binary(max_size=5))
def test_every_pair_of_every_message_is_there(messages: list[list[Pair]], rest: bytes) -> None:
    blocks = [b"".join(pair_bytes(*pair) for pair in pairs) + rest for pairs in messages]

    column = header_columns.header_column(columns(blocks))

    column.validate(full=True)
    assert column.type == header_columns.TYPE
    assert shown(column) == [
        [(key_of(kk, key), (name_of(vk), value)) for kk, key, vk, value in pairs]
        for pairs in messages
    ]


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=6))
def test_whatever_a_producer_sent_is_no_reason_to_stop(blocks: list[bytes]) -> None:
    header_columns.header_column(columns(blocks)).validate(full=True)


WIDE = 123_456_789_012_345_678_901_234_567
VALUES: list[tuple[ValueKind, bytes, str, object]] = [
    (ValueKind.STRING, "gr\u00fcn".encode(), "string", "gr\u00fcn"),
    (ValueKind.STRING, b"42", "bigint", 42),
    (ValueKind.STRING, b"no number", "bigint", None),
    (ValueKind.RAW, b"\xff\x00", "binary", b"\xff\x00"),
    (ValueKind.BOOL, b"\x01", "boolean", True),
    (ValueKind.INT8, b"\xfe", "int", -2),
    (ValueKind.INT16, struct.pack("<h", -300), "int", -300),
    (ValueKind.INT32, struct.pack("<i", -(2**31)), "int", -(2**31)),
    (ValueKind.INT64, struct.pack("<q", -(2**63)), "bigint", -(2**63)),
    (ValueKind.INT64, struct.pack("<q", 2**40), "int", None),
    (ValueKind.INT128, (-WIDE).to_bytes(16, "little", signed=True), "string", str(-WIDE)),
    (ValueKind.UINT8, b"\xfe", "bigint", 254),
    (ValueKind.UINT16, struct.pack("<H", 65_535), "bigint", 65_535),
    (ValueKind.UINT32, struct.pack("<I", 2**32 - 1), "bigint", 2**32 - 1),
    (ValueKind.UINT64, struct.pack("<Q", 2**64 - 1), "string", str(2**64 - 1)),
    (ValueKind.UINT128, WIDE.to_bytes(16, "little"), "string", str(WIDE)),
    (ValueKind.UINT128, b"\xff" * 16, "string", None),
    (ValueKind.FLOAT32, struct.pack("<f", -1.5), "double", -1.5),
    (ValueKind.FLOAT32, struct.pack("<f", 2**-149), "double", 2**-149),
    (ValueKind.FLOAT64, struct.pack("<d", 0.1), "double", 0.1),
    (ValueKind.FLOAT64, struct.pack("<d", 5e-324), "double", 5e-324),
    (ValueKind.FLOAT64, struct.pack("<d", sys.float_info.max), "double", sys.float_info.max),
    (ValueKind.FLOAT64, struct.pack("<d", float("-inf")), "double", float("-inf")),
    (ValueKind.INT8, b"\x01", "binary", b"\x01"),
]  # fmt: skip


def test_headers_become_values_of_spark_types(spark: SparkSession, topic: "Topic") -> None:
    pairs = [pair_bytes(2, b"h%d" % n, kind, raw) for n, (kind, raw, _, _) in enumerate(VALUES)]
    messages = [Message(b"x", headers=b"".join(pairs)), Message(b"y")]
    topic.client.send(topic.stream, topic.name, Partitioning.partition(0), messages)
    chosen = [iggy_spark.header(f"h{n}", kind) for n, (_, _, kind, _) in enumerate(VALUES)]

    frame = spark.read.format("iggy").options(**topic.options(includeHeaders="true")).load()
    full, empty = frame.orderBy("offset").select(*chosen).collect()

    assert [bytes(v) if isinstance(v, bytearray) else v for v in full] == [v[3] for v in VALUES]
    assert set(empty) == {None}
    assert frame.columns[-1] == "headers"
    first = frame.orderBy("offset").collect()[0].headers["h5"]
    assert (first.kind, bytes(first.value)) == ("int8", b"\xfe")


def test_a_type_that_no_header_has_is_refused() -> None:
    with pytest.raises(OptionError, match="header: 'array<int>' is not possible"):
        iggy_spark.header("x", "array<int>")
