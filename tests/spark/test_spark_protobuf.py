"""Protobuf payloads: every type has its column, and what does not fit is set aside."""

import base64
import datetime as dt
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_tools import protoc
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_spark import decode, payload, schema
from iggy_spark.errors import OptionError
from message_columns import messages

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";

enum Size { UNKNOWN = 0; LARGE = 2; }
message Place { string city = 1; }
message Order {
  bool ok = 1;
  int32 small = 2;
  sint64 id = 3;
  uint32 count = 4;
  uint64 big = 5;
  float ratio = 6;
  double exact = 7;
  string note = 8;
  bytes raw = 9;
  Size size = 10;
  optional string maybe = 11;
  repeated string tags = 12;
  map<string, int32> counts = 13;
  map<int64, Place> places = 14;
  Place home = 15;
  repeated Place stops = 16;
  oneof either { int32 number = 17; string text = 18; }
  google.protobuf.Timestamp at = 19;
  google.protobuf.Int64Value wrapped = 20;
  google.protobuf.Struct free = 21;
  google.protobuf.Any packed = 22;
  map<bool, string> flags = 23;
}
message Loop { Loop next = 1; }
message Empty {}
"""
PROTO2 = """
syntax = "proto2";
package old;
message Order { required int64 id = 1; optional string note = 2 [default = "x"]; }
"""
ORDER: dict[str, Any] = {
    "ok": True, "small": -5, "id": str(-(1 << 40)), "count": 4_000_000_000,
    "big": str((1 << 64) - 1),
    "ratio": 0.5, "exact": 0.1, "note": "n", "raw": "AP8=", "size": "LARGE", "tags": ["x", "y"],
    "counts": {"a": 1}, "places": {"7": {"city": "Bonn"}}, "home": {"city": "Kyoto"},
    "stops": [{"city": "a"}, {}], "text": "t", "at": "2026-03-29T01:00:00.123456789Z",
    "wrapped": "5", "free": {"a": [1, None]},
    "packed": {"@type": "type.googleapis.com/shop.Place", "city": "Oslo"}, "flags": {"true": "yes"},
}  # fmt: skip


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of the descriptor set of both files, made by protoc."""
    folder = tmp_path_factory.mktemp("proto")
    (folder / "shop.proto").write_text(PROTO)
    (folder / "old.proto").write_text(PROTO2)
    return compiled(folder, "all.pb", "--include_imports", "shop.proto", "old.proto")


def compiled(folder: Path, name: str, *arguments: str) -> str:
    shipped = Path(protoc.__file__).parent / "_proto"
    out = folder / name
    found = protoc.main(
        ["protoc", f"-I{folder}", f"-I{shipped}", f"--descriptor_set_out={out}", *arguments]
    )
    assert found == 0
    return str(out)


Encode = Callable[[str, dict[str, Any]], bytes]


@pytest.fixture(scope="module")
def encode(descriptors: str) -> Encode:
    """Makes payloads by Protobuf's own mapping of JSON."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(Path(descriptors).read_bytes()).file:
        pool.Add(file)

    def make(name: str, value: dict[str, Any]) -> bytes:
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        message = json_format.ParseDict(value, kind(), descriptor_pool=pool)
        return message.SerializeToString()

    return make


def declare(text: str, transforms: Any = (), columns: str | None = None) -> payload.Payload:
    return payload.parse("proto", text, transforms, columns=columns, names=payload.OPTION_NAMES)


def decoded(declared: payload.Payload, *data: bytes) -> decode.Decoded:
    decoder = decode.build(declared)
    assert decoder is not None
    return decoder.decode(pa.array(data, pa.binary()), messages(len(data)))


def test_every_type_has_its_column(descriptors: str) -> None:
    declared = declare(f"{descriptors} shop.Order")

    place = "STRUCT<`city`: STRING NOT NULL>"
    assert {item.name: schema.to_ddl(item.type) for item in declared.fields} == {
        "ok": "BOOLEAN", "small": "INT", "id": "BIGINT", "count": "BIGINT", "big": "DECIMAL(20,0)",
        "ratio": "FLOAT", "exact": "DOUBLE", "note": "STRING", "raw": "BINARY", "size": "STRING",
        "maybe": "STRING", "tags": "ARRAY<STRING>", "counts": "MAP<STRING, INT>",
        "places": f"MAP<BIGINT, {place}>", "home": place, "stops": f"ARRAY<{place}>",
        "number": "INT", "text": "STRING", "at": "TIMESTAMP", "wrapped": "BIGINT", "free": "STRING",
        "packed": "STRUCT<`type_url`: STRING NOT NULL, `value`: BINARY NOT NULL>",
        "flags": "MAP<STRING, STRING>",
    }  # fmt: skip
    assert [item.name for item in declared.fields if item.nullable] == [
        "maybe", "home", "number", "text", "at", "wrapped", "free", "packed",
    ]  # fmt: skip


def test_every_value_comes_back(descriptors: str, encode: Encode) -> None:
    found = decoded(
        declare(f"{descriptors} shop.Order"),
        encode("shop.Order", ORDER),
        encode("shop.Order", {"small": 1}),
    )

    assert found.rejected == ()
    first, second = found.values.to_pylist()
    free, packed = json.loads(first.pop("free")), first.pop("packed")
    assert free == {"a": [1, None]}
    assert packed["type_url"] == "type.googleapis.com/shop.Place"
    assert packed["value"] == encode("shop.Place", {"city": "Oslo"})
    assert first == {
        "ok": True, "small": -5, "id": -(1 << 40), "count": 4_000_000_000,
        "big": Decimal((1 << 64) - 1), "ratio": 0.5, "exact": 0.1, "note": "n", "raw": b"\x00\xff",
        "size": "LARGE", "maybe": None, "tags": ["x", "y"], "counts": [("a", 1)],
        "places": [(7, {"city": "Bonn"})], "home": {"city": "Kyoto"},
        "stops": [{"city": "a"}, {"city": ""}], "number": None, "text": "t",
        "at": dt.datetime(2026, 3, 29, 1, 0, 0, 123456, tzinfo=dt.UTC), "wrapped": 5,
        "flags": [("true", "yes")],
    }  # fmt: skip
    nothing = ("maybe", "home", "number", "text", "at", "wrapped", "free", "packed")
    assert all(second[name] is None for name in nothing)
    assert (second["small"], second["note"], second["size"]) == (1, "", "UNKNOWN")


def test_an_enum_value_without_a_name_is_its_number(descriptors: str) -> None:
    (row,) = decoded(declare(f"{descriptors} shop.Order"), b"\x50\x09").values.to_pylist()

    assert row["size"] == "9"


@pytest.mark.parametrize(
    ("data", "kind", "told"),
    [
        (b"\xff\xff\xff", "MalformedProtobuf", ""),
        (b"\x42\x01\xff", "MalformedProtobuf", ""),  # a string that is not UTF-8
        (b"\x9a\x01\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01", "SchemaMismatch", "$.at"),
    ],
)
def test_what_does_not_fit_is_set_aside(
    descriptors: str, encode: Encode, data: bytes, kind: str, told: str
) -> None:
    good = encode("shop.Order", {"small": 1})

    found = decoded(declare(f"{descriptors} shop.Order"), good, data, good)

    assert len(found.values) == 2
    (bad,) = found.rejected
    assert (bad.row, bad.stage, bad.kind) == (1, "decode", kind)
    assert told in bad.message


def test_required_fields_of_proto2_must_be_there(descriptors: str, encode: Encode) -> None:
    found = decoded(
        declare(f"{descriptors} old.Order"), encode("old.Order", {"id": "1"}), b"\x12\x01y"
    )

    assert found.values.to_pylist() == [{"id": 1, "note": None}]
    (bad,) = found.rejected
    assert (bad.kind, "id" in bad.message) == ("SchemaMismatch", True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shop.Order", "the path of a descriptor set and the name"),
        ("/nonexistent/x.pb shop.Order", "/nonexistent/x.pb cannot be read"),
        ("DESCRIPTORS shop.Ordr", "no message 'shop.Ordr', there is: .*shop.Order"),
        ("DESCRIPTORS shop.Loop", r"\$\.next: shop.Loop contains itself"),
        ("DESCRIPTORS shop.Empty", "there are no fields"),
    ],
)
def test_a_wrong_schema_is_a_wrong_option(descriptors: str, text: str, told: str) -> None:
    with pytest.raises(OptionError, match=f"^payloadSchema: .*{told}"):
        declare(text.replace("DESCRIPTORS", descriptors))


def test_a_descriptor_set_must_be_whole(descriptors: str, tmp_path: Path) -> None:
    (tmp_path / "text.pb").write_text(PROTO)
    (tmp_path / "shop.proto").write_text(PROTO)
    lacking = compiled(tmp_path, "lacking.pb", "shop.proto")

    with pytest.raises(OptionError, match="no descriptor set"):
        declare(f"{tmp_path}/text.pb shop.Order")
    with pytest.raises(OptionError, match="--include_imports"):
        declare(f"{lacking} shop.Order")


def test_the_descriptor_set_travels_with_the_declaration(
    descriptors: str, encode: Encode, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.pb"
    copy.write_bytes(Path(descriptors).read_bytes())
    there = {"field": "city", "descriptor_set": str(copy), "message_type": "shop.Place"}
    transforms = [
        {"proto_convert": there},
        {"rename_fields": {"fields": [{"from": "city.city", "to": "inner"}]}},
    ]
    declared = declare(f"{copy} shop.Place", transforms, "inner STRING")
    copy.unlink()

    elsewhere = pickle.loads(pickle.dumps(declared))
    inner = base64.b64encode(encode("shop.Place", {"city": "Bonn"})).decode()
    found = decoded(elsewhere, encode("shop.Place", {"city": inner}))

    assert found.values.to_pylist() == [{"inner": "Bonn"}]
    assert elsewhere == declared


def test_transforms_see_json(descriptors: str, encode: Encode) -> None:
    transforms = [
        {"filter_messages": {"where": {"field": "home.city", "equals": "Kyoto"}}},
        {"rename_fields": {"fields": [{"from": "home.city", "to": "city"}]}},
    ]
    declared = declare(
        f"{descriptors} shop.Order", transforms, "city STRING, at TIMESTAMP, raw BINARY, "
        "big DECIMAL(20,0), places MAP<BIGINT, STRUCT<city: STRING>>",
    )  # fmt: skip

    found = decoded(declared, encode("shop.Order", ORDER), encode("shop.Order", {"small": 1}))

    assert (found.rejected, found.filtered) == ((), 1)
    assert found.values.to_pylist() == [
        {"city": "Kyoto", "at": dt.datetime(2026, 3, 29, 1, 0, 0, 123456, tzinfo=dt.UTC),
         "raw": b"\x00\xff", "big": Decimal((1 << 64) - 1), "places": [(7, {"city": "Bonn"})]}
    ]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_a_field_is_converted_both_ways(descriptors: str, encode: Encode, packed: bool) -> None:
    schema_of = {"descriptor_set": descriptors, "message_type": "shop.Place"}
    data = encode("shop.Place", {"city": "Oslo"})
    if packed:
        data = encode("shop.Order", {"packed": ORDER["packed"]})[3:]
    there = {"proto_convert": {"field": "data", **schema_of, "any": packed}}
    back = {
        "proto_convert": {"source_format": "json", "target_format": "proto", "field": "data",
                          "into": "again", **schema_of}
    }  # fmt: skip
    declared = payload.parse("json", None, [there, back], names=payload.OPTION_NAMES)

    found = decoded(declared, json.dumps({"data": base64.b64encode(data).decode()}).encode())

    assert found.rejected == ()
    again = base64.b64encode(encode("shop.Place", {"city": "Oslo"})).decode()
    assert json.loads(found.values[0].as_py()) == {"data": {"city": "Oslo"}, "again": again}


def test_avro_in_a_field_is_converted_both_ways() -> None:
    avro = {"type": "record", "name": "P", "fields": [
        {"name": "city", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}  # fmt: skip
    value = {"city": "Oslo", "at": "2026-03-29T01:00:00.123456Z"}
    back = {"source_format": "json", "target_format": "avro", "schema_json": json.dumps(avro)}
    there = {"schema_json": json.dumps(avro), "field": "data", "field_mappings": {"city": "town"}}
    transforms = [
        {"avro_convert": {**back, "field": "place", "into": "data"}},
        {"avro_convert": there},
    ]
    declared = payload.parse("json", None, transforms, names=payload.OPTION_NAMES)

    found = decoded(
        declared, json.dumps({"place": value}).encode(), b'{"place": {"city": 5}}', b"{}"
    )

    assert [json.loads(text) for text in found.values.to_pylist()] == [
        {"place": value, "data": {"town": "Oslo", "at": value["at"]}}, {},
    ]  # fmt: skip
    (bad,) = found.rejected
    assert (bad.stage, bad.transform) == ("transform", 0)
    assert bad.message.startswith("place: ")


@settings(max_examples=100)
@given(
    data=st.lists(st.binary(max_size=60), max_size=3),
    at=st.integers(0, 200),
    other=st.binary(max_size=3),
)
def test_any_bytes_are_a_row_or_a_reason(
    descriptors: str, encode: Encode, data: list[bytes], at: int, other: bytes
) -> None:
    good = encode("shop.Order", ORDER)
    damaged = good[:at] + other + good[at + len(other) :]

    found = decoded(declare(f"{descriptors} shop.Order"), *data, damaged, good)

    assert len(found.values) + len(found.rejected) == len(data) + 2
    assert all(bad.message for bad in found.rejected)
    assert found.values[-1].as_py()["note"] == "n"
